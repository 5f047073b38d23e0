// What durability costs: flush by instruction and by the state of the line, fences, streaming
// stores.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <vector>

#include "core/rng.h"
#include "pm/pm.h"

namespace perdure {
namespace {

constexpr std::size_t memory_bytes = std::size_t{256} << 20;
constexpr std::size_t lines = memory_bytes / pm::cache_line_bytes;

/// More memory than any cache holds, on huge pages where the system gives them.
std::byte* memory() {
  static std::byte* const base = [] {
    void* const mapped =
        mmap(nullptr, memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) std::abort();
    madvise(mapped, memory_bytes, MADV_HUGEPAGE);
    std::memset(mapped, 1, memory_bytes);
    return static_cast<std::byte*>(mapped);
  }();
  return base;
}

/// A line nobody has touched for long: a walk with a large odd stride.
std::byte* cold_line(std::uint64_t i) {
  return memory() + (mix64(i) % lines) * pm::cache_line_bytes;
}

void store(std::byte* line, std::uint64_t value) {
  reinterpret_cast<std::atomic<std::uint64_t>*>(line)->store(value, std::memory_order_relaxed);
}

bool use(benchmark::State& state, pm::FlushInstruction instruction) {
  if (pm::configure(pm::Durability::adr, instruction).ok()) return true;
  state.SkipWithError("this CPU has no such instruction");
  return false;
}

void persist_hot_line(benchmark::State& state, pm::FlushInstruction instruction) {
  if (!use(state, instruction)) return;
  std::byte* const line = memory();
  std::uint64_t i = 0;
  for (auto _ : state) {
    store(line, ++i);
    pm::persist(line, 8);
  }
}

void persist_cold_line(benchmark::State& state, pm::FlushInstruction instruction) {
  if (!use(state, instruction)) return;
  std::uint64_t i = 0;
  for (auto _ : state) {
    std::byte* const line = cold_line(++i);
    store(line, i);
    pm::persist(line, 8);
  }
}

void persist_prefetched_lines(benchmark::State& state, pm::FlushInstruction instruction) {
  if (!use(state, instruction)) return;
  constexpr std::uint64_t batch = 16;
  std::uint64_t i = 0;
  for (auto _ : state) {
    for (std::uint64_t k = 0; k < batch; ++k) pm::prefetch_for_write(cold_line(i + k));
    for (std::uint64_t k = 0; k < batch; ++k) {
      store(cold_line(i + k), i);
      pm::flush(cold_line(i + k), 8);
    }
    pm::fence();
    i += batch;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(i));
}

#define PERDURE_FLUSH_BENCHMARK(name)                                    \
  BENCHMARK_CAPTURE(name, clwb, pm::FlushInstruction::clwb);             \
  BENCHMARK_CAPTURE(name, clflushopt, pm::FlushInstruction::clflushopt); \
  BENCHMARK_CAPTURE(name, clflush, pm::FlushInstruction::clflush)
PERDURE_FLUSH_BENCHMARK(persist_hot_line);
PERDURE_FLUSH_BENCHMARK(persist_cold_line);
PERDURE_FLUSH_BENCHMARK(persist_prefetched_lines);

void fence_alone(benchmark::State& state) {
  pm::configure(pm::Durability::adr);
  for (auto _ : state) pm::fence();
}
BENCHMARK(fence_alone);

void persist_under_eadr(benchmark::State& state) {
  pm::configure(pm::Durability::eadr);
  std::uint64_t i = 0;
  for (auto _ : state) {
    store(memory(), ++i);
    pm::persist(memory(), 8);
  }
  pm::configure(pm::Durability::adr);
}
BENCHMARK(persist_under_eadr);

void stream_block(benchmark::State& state) {
  pm::configure(pm::Durability::adr);
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::vector<std::uint64_t> source(bytes / 8, 7);
  std::uint64_t at = 0;
  for (auto _ : state) {
    pm::stream(memory() + at, source.data(), bytes);
    pm::fence();
    at = (at + bytes) % (memory_bytes - bytes) & ~std::uint64_t{63};
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(stream_block)->Arg(64)->Arg(256)->Arg(4096);

void store_and_flush_block(benchmark::State& state) {
  pm::configure(pm::Durability::adr);
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::vector<std::uint64_t> source(bytes / 8, 7);
  std::uint64_t at = 0;
  for (auto _ : state) {
    std::memcpy(memory() + at, source.data(), bytes);
    pm::persist(memory() + at, bytes);
    at = (at + bytes) % (memory_bytes - bytes) & ~std::uint64_t{63};
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(store_and_flush_block)->Arg(64)->Arg(256)->Arg(4096);

}  // namespace
}  // namespace perdure
