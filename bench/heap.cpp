// What the heaps cost: reserve, publish and free, and the guard that delays the free.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "pm/pm.h"
#include "pool/epoch.h"
#include "pool/pool.h"

namespace perdure {
namespace {

std::unique_ptr<Pool> make_pool(HeapKind heap) {
  setenv("PMEM_IS_PMEM_FORCE", "1", 0);
  pm::configure(pm::Durability::adr);
  auto pool = Pool::create({.path = "/dev/shm/perdure-bench-" + std::to_string(getpid()),
                            .heap = heap,
                            .bytes = 256ULL << 20,
                            .overwrite = true});
  return pool ? std::move(pool).value() : nullptr;
}

void reserve_publish_free(benchmark::State& state, HeapKind kind) {
  const auto pool = make_pool(kind);
  if (!pool) return state.SkipWithError("cannot make a pool");
  Heap& heap = pool->heap();
  const auto bytes = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    Reservation block = heap.reserve(bytes);
    heap.publish({&block, 1});
    heap.free(block.offset, bytes);
  }
  unlink(pool->path().c_str());
}
BENCHMARK_CAPTURE(reserve_publish_free, slab, HeapKind::slab)->Arg(32)->Arg(256)->Arg(1280);
BENCHMARK_CAPTURE(reserve_publish_free, pmdk, HeapKind::pmdk)->Arg(32)->Arg(256)->Arg(1280);
BENCHMARK_CAPTURE(reserve_publish_free, dram, HeapKind::dram)->Arg(32)->Arg(256)->Arg(1280);

void publish_with_a_word(benchmark::State& state, HeapKind kind) {
  const auto pool = make_pool(kind);
  if (!pool) return state.SkipWithError("cannot make a pool");
  Heap& heap = pool->heap();
  Reservation holder = heap.reserve(64);
  auto* const word = new (pool->at<void>(holder.offset)) std::atomic<std::uint64_t>(0);
  heap.publish({&holder, 1});
  for (auto _ : state) {
    Reservation block = heap.reserve(256);
    heap.publish({&block, 1}, word, block.offset);
    heap.free(block.offset, 256);
  }
  unlink(pool->path().c_str());
}
BENCHMARK_CAPTURE(publish_with_a_word, slab, HeapKind::slab);
BENCHMARK_CAPTURE(publish_with_a_word, pmdk, HeapKind::pmdk);
BENCHMARK_CAPTURE(publish_with_a_word, dram, HeapKind::dram);

void epoch_guard(benchmark::State& state) {
  static Epochs epochs;
  for (auto _ : state) {
    const Epochs::Guard guard(epochs);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(epoch_guard)->Threads(1)->Threads(2);

void thread_slot(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(pm::thread_slot());
}
BENCHMARK(thread_slot);

}  // namespace
}  // namespace perdure
