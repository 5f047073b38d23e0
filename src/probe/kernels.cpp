#include "probe/kernels.h"

#include <array>
#include <atomic>

#include "pm/pm.h"
#include "pm/write_back.h"
#include "probe/addresses.h"

namespace perdure::probe {
namespace {

constexpr std::uint64_t line_bytes = pm::cache_line_bytes;
constexpr std::uint64_t chunk_lines = 64;
constexpr std::uint64_t words_per_line = line_bytes / sizeof(std::uint64_t);

// A volatile access cannot be dropped or merged.
std::uint64_t load_word(const std::byte* at) noexcept {
  return *reinterpret_cast<const volatile std::uint64_t*>(at);
}
void store_word(std::byte* at, std::uint64_t word) noexcept {
  *reinterpret_cast<volatile std::uint64_t*>(at) = word;
}

// Waits for loads too, which a store fence does not.
void full_fence() noexcept { std::atomic_thread_fence(std::memory_order_seq_cst); }

std::uint64_t load_access(const std::byte* at, std::uint64_t bytes) noexcept {
  if (bytes >= line_bytes) return pm::load_wide(at, bytes);
  std::uint64_t sum = 0;
  for (std::uint64_t done = 0; done < bytes; done += sizeof sum) sum += load_word(at + done);
  return sum;
}

template <Op op>
void write_access(std::byte* at, std::uint64_t bytes, std::uint64_t word) noexcept {
  if constexpr (op == Op::ntstore) {
    if (bytes >= line_bytes) return pm::stream_wide(at, word, bytes);
    for (std::uint64_t done = 0; done < bytes; done += sizeof word)
      pm::stream(at + done, &word, sizeof word);
  } else {
    // A line is flushed as soon as it is written, as the published loops do.
    for (std::uint64_t done = 0; done < bytes; done += line_bytes) {
      if (bytes >= line_bytes)
        pm::store_wide(at + done, word, line_bytes);
      else
        for (std::uint64_t part = 0; part < bytes; part += sizeof word) store_word(at + part, word);
      if constexpr (op == Op::store_flush) pm::flush(at + done, 1);
    }
  }
}

template <Op op, class Addresses>
std::uint64_t access_loop(Addresses addresses, const AccessLoop& loop, const Lane& lane) noexcept {
  // Copies: what a loop reads through a reference is loaded again after every call.
  std::byte* const slice = loop.slice;
  const std::uint64_t bytes = loop.access_bytes;
  const std::uint64_t operations = loop.operations;
  const std::uint64_t per_mark = loop.operations_per_mark;
  const FenceInterval fence_every = loop.fence_every;
  const std::uint64_t cost_ps = loop.cost_ps;
  const bool cost_waits = loop.cost_waits;
  const std::uint64_t key = loop.key;
  const auto read_below = static_cast<std::uint64_t>(loop.mix_reads * 0x1p32);
  const bool has_state = loop.state;
  alignas(line_bytes) std::array<std::byte, line_bytes> line;
  std::byte* state = line.data();
  asm volatile("" : "+r"(state));  // else the compiler knows that nobody reads it
  void* const self = lane.self;
  auto* const done = lane.done;
  auto* const spend = lane.spend;

  std::uint64_t sum = key;
  std::uint64_t until_mark = per_mark;
  std::uint64_t until_fence = fence_every;
  done(self, 0);
  for (std::uint64_t i = 0; i < operations; ++i) {
    std::byte* const at = slice + addresses.next();
    if (has_state) store_word(state, i);
    if (op == Op::load || (read_below != 0 && (mix64(i + key) >> 32) < read_below))
      sum ^= load_access(at, bytes);
    else
      write_access<op == Op::load ? Op::store : op>(at, bytes, i);
    if (fence_every != 0 && --until_fence == 0) {
      until_fence = fence_every;
      pm::fence();
    }
    if (cost_ps != 0) {
      // The time of fio comes after the misses of its operation: a random store to DRAM takes it
      // 190 + 101 ns, to PM 190 + 375. A loop's own instructions overlap with them.
      if (cost_waits) pm::wait_for_accesses();
      spend(self, cost_ps);
    }
    if (--until_mark == 0) {
      until_mark = per_mark;
      done(self, per_mark);
    }
  }
  return sum;
}

template <Op op>
std::uint64_t access_pattern(const AccessLoop& loop, const Lane& lane) noexcept {
  switch (loop.pattern) {
    case Pattern::seq:
      return access_loop<op>(SequentialAddresses(loop.slice_bytes, loop.access_bytes, loop.first),
                             loop, lane);
    case Pattern::rand:
      return access_loop<op>(
          RandomAddresses(loop.slice_bytes, loop.access_bytes, loop.align_bytes, loop.key), loop,
          lane);
    case Pattern::stride:
      return access_loop<op>(
          StrideAddresses(loop.slice_bytes, loop.access_bytes, loop.stride_bytes, loop.first), loop,
          lane);
    case Pattern::same:
      return access_loop<op>(SameAddress(loop.first * loop.access_bytes), loop, lane);
  }
  return 0;
}

template <class Addresses>
std::uint64_t single_loop(Addresses addresses, const AccessLoop& loop, bool empty,
                          const Lane& lane) noexcept {
  std::byte* const slice = loop.slice;
  const std::uint64_t bytes = loop.access_bytes;
  const std::uint64_t operations = loop.operations;
  const Op op = loop.op;
  void* const self = lane.self;
  auto* const done = lane.done;
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < operations; ++i) {
    std::byte* const at = slice + addresses.next();
    if (op != Op::load) sum ^= load_word(at);
    full_fence();
    done(self, 0);
    if (!empty) {
      if (op == Op::load)
        sum ^= load_access(at, bytes);
      else if (op == Op::ntstore)
        write_access<Op::ntstore>(at, bytes, i);
      else if (op == Op::store_flush)
        write_access<Op::store_flush>(at, bytes, i);
      else
        write_access<Op::store>(at, bytes, i);
    }
    if (op == Op::load)
      full_fence();
    else
      pm::fence();
    done(self, 1);
  }
  return sum;
}

}  // namespace

std::uint64_t run_accesses(const AccessLoop& loop, const Lane& lane) noexcept {
  switch (loop.op) {
    case Op::load:
      return access_pattern<Op::load>(loop, lane);
    case Op::store:
      return access_pattern<Op::store>(loop, lane);
    case Op::store_flush:
      return access_pattern<Op::store_flush>(loop, lane);
    case Op::ntstore:
      return access_pattern<Op::ntstore>(loop, lane);
  }
  return 0;
}

void link_chain(const Chain& chain) noexcept {
  const Permutation order(chain.blocks, chain.key);
  const std::uint64_t link_offset = chain.block_bytes - line_bytes;
  std::byte* const first = chain.base + order(0) * chain.block_bytes;
  std::byte* block = first;
  for (std::uint64_t i = 1; i <= chain.links; ++i) {
    std::byte* const next = i == chain.links ? first : chain.base + order(i) * chain.block_bytes;
    store_word(block + link_offset, reinterpret_cast<std::uintptr_t>(next));
    block = next;
  }
}

std::uint64_t chase_loads(const Chain& chain, std::uint64_t passes, std::uint64_t links_per_pass,
                          std::uint64_t links_per_mark, bool flush_first,
                          const Lane& lane) noexcept {
  const std::uint64_t block_bytes = chain.block_bytes;
  const std::uint64_t others = block_bytes - line_bytes;
  const Permutation order(chain.blocks, chain.key);
  std::byte* const base = chain.base;
  std::byte* at = base + order(0) * block_bytes;
  std::uint64_t flush_at = 0;  // position in the ring of the pass to come
  void* const self = lane.self;
  auto* const done = lane.done;
  std::uint64_t sum = 0;
  for (std::uint64_t pass = 0; pass < passes; ++pass) {
    if (flush_first) {
      for (std::uint64_t i = 0; i < links_per_pass; ++i) {
        pm::write_back(base + order(flush_at) * block_bytes, block_bytes);
        if (++flush_at == chain.links) flush_at = 0;
      }
      pm::fence();
    }
    full_fence();
    done(self, 0);
    std::uint64_t until_mark = links_per_mark;
    for (std::uint64_t i = 0; i < links_per_pass; ++i) {
      if (others != 0) sum ^= pm::load_wide(at, others);
      at = reinterpret_cast<std::byte*>(load_word(at + others));
      if (--until_mark == 0 && i + 1 != links_per_pass) {
        until_mark = links_per_mark;
        done(self, links_per_mark);
      }
    }
    full_fence();
    done(self, links_per_mark - until_mark);
  }
  return sum ^ reinterpret_cast<std::uintptr_t>(at);
}

std::uint64_t chase_singly(const Chain& chain, std::uint64_t links, const Lane& lane) noexcept {
  const Permutation order(chain.blocks, chain.key);
  std::byte* at = chain.base + order(0) * line_bytes;
  void* const self = lane.self;
  auto* const done = lane.done;
  done(self, 0);
  for (std::uint64_t i = 0; i < links; ++i) {
    at = reinterpret_cast<std::byte*>(load_word(at));
    pm::wait_for_loads();
    done(self, 1);
  }
  return reinterpret_cast<std::uintptr_t>(at);
}

void chase_streams(const Chain& chain, std::uint64_t passes, std::uint64_t links_per_pass,
                   std::uint64_t links_per_mark, const Lane& lane) noexcept {
  const std::uint64_t block_bytes = chain.block_bytes;
  const std::uint64_t links = chain.links;
  const Permutation order(chain.blocks, chain.key);
  std::byte* const base = chain.base;
  void* const self = lane.self;
  auto* const done = lane.done;
  std::uint64_t link = 0;
  for (std::uint64_t pass = 0; pass < passes; ++pass) {
    done(self, 0);
    std::uint64_t until_mark = links_per_mark;
    for (std::uint64_t i = 0; i < links_per_pass; ++i) {
      pm::stream_wide(base + order(link) * block_bytes, i, block_bytes);
      if (++link == links) link = 0;
      if (--until_mark == 0 && i + 1 != links_per_pass) {
        until_mark = links_per_mark;
        done(self, links_per_mark);
      }
    }
    full_fence();
    done(self, links_per_mark - until_mark);
  }
}

std::uint64_t single_accesses(const AccessLoop& loop, bool empty, const Lane& lane) noexcept {
  // Words of one line would hit the cache: each access has its own line at least.
  const std::uint64_t step = loop.access_bytes < line_bytes ? line_bytes : loop.access_bytes;
  if (loop.pattern == Pattern::rand)
    return single_loop(RandomAddresses(loop.slice_bytes, step, step, loop.key), loop, empty, lane);
  return single_loop(SequentialAddresses(loop.slice_bytes, step, loop.first), loop, empty, lane);
}

void write_halves(std::byte* base, std::uint64_t xplines, std::uint64_t rounds,
                  const Lane& lane) noexcept {
  constexpr std::uint64_t half = pm::media_block_bytes / 2;
  void* const self = lane.self;
  auto* const done = lane.done;
  done(self, 0);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    for (std::uint64_t part = 0; part < 2; ++part)
      for (std::uint64_t i = 0; i < xplines; ++i)
        pm::stream_wide(base + i * pm::media_block_bytes + part * half, round, half);
    done(self, 2 * xplines);
  }
}

void link_cached(const CachedLoop& loop) noexcept {
  // Thread by thread: the last word of a line is not used, the first holds the next line's address.
  for (unsigned thread = 0; thread < loop.threads; ++thread) {
    std::byte* before = nullptr;
    for (std::uint64_t chunk = thread; chunk * chunk_lines < loop.lines; chunk += loop.threads)
      for (std::uint64_t i = 0; i < chunk_lines && chunk * chunk_lines + i < loop.lines; ++i) {
        std::byte* const line = loop.base + (chunk * chunk_lines + i) * line_bytes;
        if (before != nullptr) store_word(before, reinterpret_cast<std::uintptr_t>(line));
        before = line;
      }
    if (before != nullptr) store_word(before, 0);
  }
}

std::uint64_t prime(const std::byte* base, std::uint64_t lines) noexcept {
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < lines; ++i) sum += load_word(base + i * line_bytes);
  full_fence();
  return sum;
}

void flush_region(const std::byte* base, std::uint64_t bytes) noexcept {
  pm::write_back(base, bytes);
  pm::fence();
}

std::uint64_t run_cached(const CachedLoop& loop, const Lane& lane) noexcept {
  std::byte* const base = loop.base;
  const std::uint64_t lines = loop.lines;
  const bool loads = loop.op == Op::load;
  const bool dependent = loads && loop.variant == Variant::dependent;
  const bool own_line = loop.variant != Variant::as_published;
  void* const self = lane.self;
  auto* const done = lane.done;
  auto* const spend = lane.spend;
  const std::uint64_t cost_ps = loop.cost_ps;
  const unsigned step = loop.threads;
  std::byte* chased = base + loop.thread * chunk_lines * line_bytes;
  std::uint64_t sum = 0;
  done(self, 0);
  for (std::uint64_t chunk = loop.thread; chunk * chunk_lines < lines; chunk += step) {
    std::uint64_t i = 0;
    for (; i < chunk_lines && chunk * chunk_lines + i < lines; ++i) {
      std::byte* const line = base + (chunk * chunk_lines + i) * line_bytes;
      if (dependent) {
        chased = reinterpret_cast<std::byte*>(load_word(chased));
      } else if (loads) {
#pragma GCC unroll 8
        for (std::uint64_t word = 0; word < words_per_line; ++word)
          sum += load_word(line + word * sizeof word);
      } else {
#pragma GCC unroll 8
        for (std::uint64_t word = 0; word < words_per_line; ++word)
          store_word(line + word * sizeof word, i);
        pm::persist(own_line ? line : base, line_bytes);
      }
      if (cost_ps != 0) {
        pm::wait_for_loads();
        spend(self, cost_ps);
      }
    }
    if (dependent) full_fence();  // or the chunk's last loads would be counted to the next one
    done(self, i);
  }
  return sum + reinterpret_cast<std::uintptr_t>(chased);
}

}  // namespace perdure::probe
