// queues: the volatile ring beside boost::lockfree::queue, and pushes of the durable ring beside
// the flushes, fences and streamed copies that they cannot do without; in one run, slices in turn,
// so that a drift of the machine's speed affects all. Printed are medians of ratios within a turn.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lockfree/base/queue_registry.h"
#include "pm/pm.h"
#include "race.h"

namespace perdure::bench {
namespace {

constexpr const char* usage =
    "Usage: queues [TURNS [SLOTS]]\n"
    "  by default 21 turns of queues of 8192 slots; payloads of 8 bytes and of 4 KiB\n";

struct Settings {
  unsigned turns = 21;
  std::uint64_t slots = 8192;
};

/// A queue, with a pool if it needs one.
struct Made {
  std::unique_ptr<Pool> pool{};
  std::unique_ptr<DurableQueue> queue{};
};

Result<Made> make(const char* name, std::uint64_t slots, std::uint64_t payload_bytes) {
  auto info = QueueRegistry::find(name);
  if (!info) return info.error();
  Made made;
  QueuePlace place;
  place.options.set("slots", slots);
  place.options.set("payload_bytes", payload_bytes);
  if (uses_pool((*info)->index_class)) {
    PoolOptions options;
    options.heap = HeapKind::dram;
    options.bytes = Pool::min_pool_bytes + slots * (payload_bytes + 1024);
    auto pool = Pool::create(options);
    if (!pool) return pool.error();
    made.pool = std::move(pool).value();
    place.pool = made.pool.get();
  }
  auto queue = create_queue(**info, place);
  if (!queue) return queue.error();
  made.queue = std::move(queue).value();
  return made;
}

/// Pushes and pops of one thread, the queue half full.
double pairs(DurableQueue& queue, std::size_t bytes, std::uint64_t slots) {
  const std::string payload(bytes, 'p');
  std::string popped;
  while (queue.pop(popped) == Outcome::ok) {
  }
  for (std::uint64_t i = 0; i < slots / 2; ++i) (void)queue.push(payload);
  const std::uint64_t rounds = 2 * slots;
  const auto start = Clock::now();
  for (std::uint64_t i = 0; i < rounds; ++i) {
    (void)queue.push(payload);
    (void)queue.pop(popped);
  }
  return ns_each(start, 2 * rounds);
}

/// One producer and one consumer: ns for each payload that has come through.
double through(DurableQueue& queue, std::size_t bytes, std::uint64_t slots) {
  const std::uint64_t count = 4 * slots;
  std::atomic<bool> ready{false};
  std::thread producer([&] {
    const std::string payload(bytes, 'p');
    ready.store(true);
    for (std::uint64_t i = 0; i < count; ++i)
      while (queue.push(payload) != Outcome::ok) std::this_thread::yield();
  });
  while (!ready.load()) std::this_thread::yield();
  const auto start = Clock::now();
  std::string popped;
  for (std::uint64_t i = 0; i < count; ++i)
    while (queue.pop(popped) != Outcome::ok) std::this_thread::yield();
  const double ns = ns_each(start, count);
  producer.join();
  return ns;
}

/// Pushes alone: the queue is emptied before each slice, outside the time.
double pushes(DurableQueue& queue, std::size_t bytes, std::uint64_t slots) {
  std::string payload(bytes, 'p');
  std::string popped;
  while (queue.pop(popped) == Outcome::ok) {
  }
  const auto start = Clock::now();
  for (std::uint64_t i = 0; i < slots; ++i) (void)queue.push(payload);
  return ns_each(start, slots);
}

Result<void> race_volatile(const Settings& settings) {
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{4096}}) {
    auto ring = make("ring:volatile", settings.slots, bytes);
    if (!ring) return ring.error();
    auto boost = make("boostqueue", settings.slots, bytes);
    if (!boost) return boost.error();
    for (const bool two : {false, true}) {
      const auto enter = [&](const char* name, DurableQueue& queue) {
        return Contestant{name, [&queue, two, bytes, &settings] {
                            return two ? through(queue, bytes, settings.slots)
                                       : pairs(queue, bytes, settings.slots);
                          }};
      };
      std::vector<Contestant> list{enter("ring:volatile", *ring->queue),
                                   enter("boostqueue", *boost->queue)};
      const std::string title = std::to_string(bytes) + " bytes, " +
                                (two ? "a producer and a consumer" : "push and pop of one thread");
      race(title.c_str(), list, settings.turns);
      const double ratio = 1 / ratio_of(list[0], list[1]);
      constexpr const char* what = "times as fast as boost::lockfree::queue";
      if (bytes == 8)
        verdict(what, ratio, 1.5, true);
      else
        std::printf("  %-44s %5.2f  both copy the payload in and out\n", what, ratio);
    }
  }
  return {};
}

/// What a push cannot do without: a line each that is stored to, flushed and fenced, after `bytes`
/// that are streamed and fenced.
double floor_of(Pool& pool, std::uint64_t at, std::size_t bytes, std::uint64_t slots) {
  const std::string payload(bytes, 'p');
  std::byte* const lines = pool.base() + at;
  std::byte* const payloads = lines + slots * pm::cache_line_bytes;
  const auto start = Clock::now();
  for (std::uint64_t i = 0; i < slots; ++i) {
    if (bytes >= pm::media_block_bytes) {
      pm::stream(payloads + i * bytes, payload.data(), bytes);
      pm::fence();
    }
    std::byte* const line = lines + i * pm::cache_line_bytes;
    reinterpret_cast<std::atomic<std::uint64_t>*>(line)->store(i, std::memory_order_release);
    pm::persist(line, pm::cache_line_bytes);
  }
  return ns_each(start, slots);
}

Result<void> race_durable(const Settings& settings) {
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{4096}}) {
    std::vector<Made> made;
    std::vector<Contestant> list;
    for (const char* const name : {"ring:txfree", "ring:tx", "ring:ticket", "optunlinkedq"}) {
      auto queue = make(name, settings.slots, bytes);
      if (!queue) return queue.error();
      made.push_back(std::move(queue).value());
      list.push_back({name, [&queue = *made.back().queue, bytes, &settings] {
                        return pushes(queue, bytes, settings.slots);
                      }});
    }
    PoolOptions options;
    options.heap = HeapKind::dram;
    options.bytes = Pool::min_pool_bytes + settings.slots * (bytes + 128);
    auto pool = Pool::create(options);
    if (!pool) return pool.error();
    constexpr std::uint64_t past_header = 1 << 20;
    list.push_back({bytes == 8 ? "a flush and a fence" : "a streamed copy, two fences",
                    [&pool = **pool, bytes, &settings] {
                      return floor_of(pool, past_header, bytes, settings.slots);
                    }});
    race(("push of " + std::to_string(bytes) + " bytes, ADR").c_str(), list, settings.turns);
    const double bound = bytes == 8 ? 1.3 : 1.25;
    verdict("ring:txfree by what it cannot do without", ratio_of(list.front(), list.back()), bound,
            false);
  }
  return {};
}

}  // namespace
}  // namespace perdure::bench

int main(int argc, char** argv) {
  perdure::bench::Settings settings;
  if (argc > 1) settings.turns = static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10));
  if (argc > 2) settings.slots = std::strtoull(argv[2], nullptr, 10);
  if (argc > 3 || settings.turns == 0 || settings.slots < 2)
    return std::fputs(perdure::bench::usage, stderr), 2;
  perdure::pm::configure(perdure::pm::Durability::adr);
  auto done = perdure::bench::race_volatile(settings);
  if (done) done = perdure::bench::race_durable(settings);
  if (!done) return std::fprintf(stderr, "queues: %s\n", done.error().line().c_str()), 1;
  return 0;
}
