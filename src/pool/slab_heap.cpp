#include "pool/slab_heap.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "core/assert.h"
#include "pool/sealed_word.h"
#include "pool/slab_geometry.h"

namespace perdure {
namespace {

using size_classes::class_of;
using slab::geometry;
using slab::Geometry;

constexpr std::uint64_t high_water_purpose = 0x6869676877617465ULL;

void add_to(std::atomic<std::int64_t>& counter, std::int64_t amount) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

}  // namespace

SlabHeap::SlabHeap(std::uint64_t first_offset, std::uint64_t end_offset)
    : first_offset_(first_offset),
      chunks_(static_cast<std::uint32_t>((end_offset - first_offset) / chunk_bytes)),
      chunk_(chunks_),
      frozen_chunks_(chunks_) {
  PERDURE_ASSERT(first_offset % 4096 == 0 && first_offset < end_offset);
}

SlabHeap::~SlabHeap() {
  for (auto& slot : slot_) delete slot.load(std::memory_order_relaxed);
  for (auto& chunk : chunk_) delete[] chunk.bitmap.load(std::memory_order_relaxed);
}

SlabHeap::Slot* SlabHeap::my_slot() noexcept {
  std::atomic<Slot*>& mine = slot_[pm::thread_slot()];
  Slot* slot = mine.load(std::memory_order_acquire);
  if (slot == nullptr) {
    slot = new (std::nothrow) Slot;
    mine.store(slot, std::memory_order_release);
  }
  return slot;
}

Reservation SlabHeap::reserve(std::size_t bytes) noexcept {
  Reservation reservation;
  PERDURE_ASSERT(bytes > 0 && bytes <= max_block_bytes);
  PERDURE_ASSERT(serves_.load(std::memory_order_relaxed));
  Slot* slot = my_slot();
  if (slot == nullptr || !serves_.load(std::memory_order_acquire)) return refuse();
  const unsigned size_class = class_of(bytes);
  Cache& cache = slot->cache[size_class];
  for (bool called_in = false;;) {
    const std::uint64_t calls = calls_.load(std::memory_order_acquire);
    {
      const pm::LockGuard hold(slot->lock);
      if (cache.count > 0 || refill(*slot, size_class)) {
        reservation.offset = cache.block[--cache.count];
        reservation.bytes = static_cast<std::uint32_t>(bytes);
        add_to(slot->live_blocks, 1);
        add_to(slot->live_bytes, geometry[size_class].bytes);
        return reservation;
      }
    }
    if (called_in || !call_in_caches(calls)) return refuse();
    called_in = true;
  }
}

void SlabHeap::publish(std::span<Reservation> blocks, std::atomic<std::uint64_t>* word,
                       std::uint64_t value) noexcept {
  for ([[maybe_unused]] const Reservation& block : blocks) PERDURE_ASSERT(block);
  if (word != nullptr) pm::store_persist(*word, value);
}

void SlabHeap::cancel(Reservation& block) noexcept {
  PERDURE_ASSERT(block);
  give_back(block.offset, class_of(block.bytes));
  block.offset = null_offset;
}

void SlabHeap::free(std::uint64_t offset, std::size_t bytes) noexcept {
  give_back(offset, class_of(bytes));
}

void SlabHeap::give_back(std::uint64_t offset, unsigned size_class) noexcept {
  PERDURE_ASSERT(is_allocated(offset, size_class));
  if (offset < frozen_end_.load(std::memory_order_acquire) && unmark(offset, size_class)) return;
  const std::uint32_t capacity = geometry[size_class].capacity;
  Slot* slot = my_slot();
  if (slot == nullptr) {
    clear_block(offset, size_class);
    return;
  }
  const pm::LockGuard hold(slot->lock);
  add_to(slot->live_blocks, -1);
  add_to(slot->live_bytes, -static_cast<std::int64_t>(geometry[size_class].bytes));
  slot->stirs.store(slot->stirs.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (capacity == 0) {
    clear_block(offset, size_class);
    return;
  }
  Cache& cache = slot->cache[size_class];
  if constexpr (checked_build)
    for (std::uint32_t i = 0; i < cache.count; ++i) PERDURE_ASSERT(cache.block[i] != offset);
  if (cache.count == capacity) {
    const std::uint32_t oldest = (capacity + 1) / 2;
    for (std::uint32_t i = 0; i < oldest; ++i) clear_block(cache.block[i], size_class);
    std::copy(cache.block.begin() + oldest, cache.block.begin() + capacity, cache.block.begin());
    cache.count -= oldest;
  }
  cache.block[cache.count++] = offset;
}

// Caller holds the slot's lock.
bool SlabHeap::refill(Slot& slot, unsigned size_class) noexcept {
  Cache& cache = slot.cache[size_class];
  for (;;) {
    if (cache.span != no_chunk) {
      if (take_from_span(cache, size_class)) {
        slot.stirs.store(slot.stirs.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return true;
      }
      detach(cache, size_class);
    }
    if (!attach(cache, size_class)) return false;
  }
}

// Takes up to half a cache from one word of the active span: one locked instruction for all.
bool SlabHeap::take_from_span(Cache& cache, unsigned size_class) noexcept {
  const Geometry& shape = geometry[size_class];
  Chunk& span = chunk_[cache.span];
  std::atomic<std::uint64_t>* bitmap = span.bitmap.load(std::memory_order_relaxed);
  const std::uint32_t wanted = std::max<std::uint32_t>(1, shape.capacity / 2);
  for (bool from_start = span.first_free_word == 0;; from_start = true) {
    for (std::uint32_t word = span.first_free_word; word < shape.words; ++word) {
      std::uint64_t free_bits = ~bitmap[word].load(std::memory_order_relaxed);
      if (free_bits == 0) continue;
      std::uint64_t taken = 0;
      std::array<std::uint32_t, cache_blocks> index;
      std::uint32_t count = 0;
      for (; count < wanted && free_bits != 0; ++count, free_bits &= free_bits - 1) {
        index[count] = static_cast<std::uint32_t>(std::countr_zero(free_bits));
        taken |= free_bits & (0 - free_bits);
      }
      span.used.fetch_add(count, std::memory_order_relaxed);  // S4: before the bits
      bitmap[word].fetch_or(taken, std::memory_order_acq_rel);
      span.first_free_word = word;
      const std::uint64_t start = first_offset_ + cache.span * chunk_bytes;
      while (count > 0)  // the lowest block last, so that it goes first
        cache.block[cache.count++] =
            start + std::uint64_t{word * 64 + index[--count]} * shape.bytes;
      return true;
    }
    if (from_start) return false;
    span.first_free_word = 0;  // blocks before it may have been freed meanwhile
  }
}

// Gives the active span up. Whoever clears a bit from now on must find the span listed: the state
// is written before the bits are read, and `clear_block` does it the other way round.
void SlabHeap::detach(Cache& cache, unsigned size_class) noexcept {
  const std::uint32_t span = cache.span;
  cache.span = no_chunk;
  const pm::LockGuard hold(class_[size_class].lock);
  chunk_[span].state.store(SpanState::full, std::memory_order_seq_cst);
  if (chunk_[span].used.load(std::memory_order_acquire) == 0)
    release_chunks(span, size_class);
  else if (has_free_bit(span, size_class))
    push_partial(span, size_class);
}

bool SlabHeap::attach(Cache& cache, unsigned size_class) noexcept {
  ClassState& state = class_[size_class];
  {
    const pm::LockGuard hold(state.lock);
    if (state.partial != no_chunk) {
      cache.span = state.partial;
      remove_partial(cache.span, size_class);
      chunk_[cache.span].state.store(SpanState::active, std::memory_order_seq_cst);
      chunk_[cache.span].first_free_word = 0;
      return true;
    }
  }
  cache.span = take_chunks(size_class);
  return cache.span != no_chunk;
}

// Returns a block from a cache to its span, and an empty span to the pool.
void SlabHeap::clear_block(std::uint64_t offset, unsigned size_class) noexcept {
  const Geometry& shape = geometry[size_class];
  const std::uint64_t in_heap = offset - first_offset_;
  const auto chunk = static_cast<std::uint32_t>(in_heap / chunk_bytes);
  const std::uint32_t first = chunk - chunk % shape.chunks;
  const auto index = static_cast<std::uint32_t>(in_heap - first * chunk_bytes) / shape.bytes;
  Chunk& span = chunk_[first];
  std::atomic<std::uint64_t>* bitmap = span.bitmap.load(std::memory_order_relaxed);
  bitmap[index / 64].fetch_and(~(std::uint64_t{1} << index % 64), std::memory_order_seq_cst);
  // From here on the span may be released by another thread: everything is checked again under
  // the class lock.
  const bool empty = span.used.fetch_sub(1, std::memory_order_acq_rel) == 1;
  if (!empty && span.state.load(std::memory_order_seq_cst) != SpanState::full) return;
  const pm::LockGuard hold(class_[size_class].lock);
  if (span.size_class.load(std::memory_order_relaxed) != size_class) return;
  if (span.state.load(std::memory_order_relaxed) == SpanState::full)
    push_partial(first, size_class);
  if (span.state.load(std::memory_order_relaxed) == SpanState::partial &&
      span.used.load(std::memory_order_acquire) == 0) {
    remove_partial(first, size_class);
    release_chunks(first, size_class);
  }
}

// When the pool looks full, blocks that wait in the slots' caches and the free parts of active
// spans are the last reserve, those of threads that have ended, too. Not tried again until a cache
// has been filled, so that a full pool fails quickly. `calls` were over when the caller found
// nothing: what a call since then has brought in is the caller's to have. Caller holds no lock.
bool SlabHeap::call_in_caches(std::uint64_t calls) noexcept {
  const pm::LockGuard calling(calling_in_);
  if (calls_.load(std::memory_order_relaxed) != calls) return true;
  const std::uint64_t stirs = total_stirs();
  if (std::exchange(stirs_at_last_call_, stirs) == stirs) return false;
  empty_caches();
  calls_.store(calls + 1, std::memory_order_release);
  return true;
}

void SlabHeap::empty_caches() noexcept {
  for (auto& entry : slot_) {
    Slot* slot = entry.load(std::memory_order_acquire);
    if (slot == nullptr) continue;
    const pm::LockGuard hold(slot->lock);
    for (unsigned size_class = 0; size_class < size_classes::count; ++size_class) {
      Cache& cache = slot->cache[size_class];
      while (cache.count > 0) clear_block(cache.block[--cache.count], size_class);
      if (cache.span != no_chunk) detach(cache, size_class);
    }
  }
}

std::uint64_t SlabHeap::total_stirs() const noexcept {
  std::uint64_t total = 0;
  for (const auto& entry : slot_)
    if (const Slot* slot = entry.load(std::memory_order_acquire); slot != nullptr)
      total += slot->stirs.load(std::memory_order_relaxed);
  return total;
}

std::uint32_t SlabHeap::take_chunks(unsigned size_class) noexcept {
  const std::uint32_t length = geometry[size_class].chunks;
  const pm::LockGuard hold(chunk_lock_);
  if (no_run_since_[length] == releases_) return no_chunk;
  while (first_free_chunk_ < chunks_ && !chunk_is_free(first_free_chunk_)) ++first_free_chunk_;
  std::uint32_t first = (first_free_chunk_ + length - 1) / length * length;
  for (; first + length <= chunks_; first += length) {
    std::uint32_t free_chunks = 0;
    while (free_chunks < length && chunk_is_free(first + free_chunks)) ++free_chunks;
    if (free_chunks < length) continue;
    if (!prepare_span(first, size_class)) return no_chunk;
    chunk_[first].state.store(SpanState::active, std::memory_order_relaxed);
    raise_high_water(first + length);
    return first;
  }
  no_run_since_[length] = releases_;
  return no_chunk;
}

// Makes free chunks a span with every block free. Caller holds the chunk lock. False: no memory.
bool SlabHeap::prepare_span(std::uint32_t first, unsigned size_class) noexcept {
  const Geometry& shape = geometry[size_class];
  auto* bitmap = new (std::nothrow) std::atomic<std::uint64_t>[shape.words];
  if (bitmap == nullptr) return false;
  for (std::uint32_t word = 0; word < shape.words; ++word)
    bitmap[word].store(0, std::memory_order_relaxed);
  if (shape.blocks % 64 != 0)  // bits without a block are never free
    bitmap[shape.words - 1].store(~std::uint64_t{0} << shape.blocks % 64,
                                  std::memory_order_relaxed);
  Chunk& span = chunk_[first];
  span.bitmap.store(bitmap, std::memory_order_relaxed);
  span.used.store(0, std::memory_order_relaxed);
  span.first_free_word = 0;
  for (std::uint32_t i = shape.chunks; i-- > 0;)  // the first last: it makes the span visible
    chunk_[first + i].size_class.store(static_cast<std::uint8_t>(size_class),
                                       std::memory_order_release);
  chunks_used_.fetch_add(shape.chunks, std::memory_order_relaxed);
  bitmap_bytes_.fetch_add(shape.words * 8, std::memory_order_relaxed);
  return true;
}

// Caller holds the class lock; the span is on no list and has no block in use (S4).
void SlabHeap::release_chunks(std::uint32_t first, unsigned size_class) noexcept {
  const Geometry& shape = geometry[size_class];
  const pm::LockGuard hold(chunk_lock_);
  chunk_[first].state.store(SpanState::free, std::memory_order_relaxed);
  delete[] chunk_[first].bitmap.exchange(nullptr, std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < shape.chunks; ++i)
    chunk_[first + i].size_class.store(no_class, std::memory_order_relaxed);
  first_free_chunk_ = std::min(first_free_chunk_, first);
  ++releases_;
  chunks_used_.fetch_sub(shape.chunks, std::memory_order_relaxed);
  bitmap_bytes_.fetch_sub(shape.words * 8, std::memory_order_relaxed);
}

void SlabHeap::push_partial(std::uint32_t span, unsigned size_class) noexcept {
  ClassState& state = class_[size_class];
  chunk_[span].previous = no_chunk;
  chunk_[span].next = state.partial;
  if (state.partial != no_chunk) chunk_[state.partial].previous = span;
  state.partial = span;
  chunk_[span].state.store(SpanState::partial, std::memory_order_seq_cst);
}

void SlabHeap::remove_partial(std::uint32_t span, unsigned size_class) noexcept {
  const Chunk& chunk = chunk_[span];
  if (chunk.previous == no_chunk)
    class_[size_class].partial = chunk.next;
  else
    chunk_[chunk.previous].next = chunk.next;
  if (chunk.next != no_chunk) chunk_[chunk.next].previous = chunk.previous;
}

bool SlabHeap::has_free_bit(std::uint32_t span, unsigned size_class) const noexcept {
  const std::atomic<std::uint64_t>* bitmap = chunk_[span].bitmap.load(std::memory_order_relaxed);
  for (std::uint32_t word = 0; word < geometry[size_class].words; ++word)
    if (~bitmap[word].load(std::memory_order_seq_cst) != 0) return true;
  return false;
}

bool SlabHeap::mark(std::uint64_t offset, std::size_t bytes) noexcept {
  PERDURE_ASSERT(!swept_.load(std::memory_order_relaxed));
  if (bytes == 0 || bytes > max_block_bytes || offset < first_offset_) return false;
  const unsigned size_class = class_of(bytes);
  const Geometry& shape = geometry[size_class];
  const std::uint64_t in_heap = offset - first_offset_;
  const std::uint64_t chunk = in_heap / chunk_bytes;
  if (chunk >= chunks_) return false;
  const auto first = static_cast<std::uint32_t>(chunk - chunk % shape.chunks);
  const auto in_span = static_cast<std::uint32_t>(in_heap - first * chunk_bytes);
  const std::uint32_t index = in_span / shape.bytes;
  if (in_span % shape.bytes != 0 || index >= shape.blocks) return false;
  if (first + shape.chunks > frozen_chunks_) return false;
  const Chunk& span = chunk_[first];
  if (span.size_class.load(std::memory_order_acquire) != size_class &&
      !claim_for_mark(first, size_class))
    return false;
  std::atomic<std::uint64_t>* bitmap = span.bitmap.load(std::memory_order_relaxed);
  const std::uint64_t bit = std::uint64_t{1} << index % 64;
  return (bitmap[index / 64].fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
}

// S1: the chunks are this class's already, or nobody's.
bool SlabHeap::claim_for_mark(std::uint32_t first, unsigned size_class) noexcept {
  const pm::LockGuard hold(chunk_lock_);
  if (chunk_[first].size_class.load(std::memory_order_relaxed) == size_class) return true;
  for (std::uint32_t i = 0; i < geometry[size_class].chunks; ++i)
    if (!chunk_is_free(first + i)) return false;
  return prepare_span(first, size_class);
}

bool SlabHeap::is_marked(std::uint64_t offset) const noexcept {
  if (offset < first_offset_) return false;
  const std::uint64_t chunk = (offset - first_offset_) / chunk_bytes;
  if (chunk >= chunks_) return false;
  const std::uint8_t size_class = chunk_[chunk].size_class.load(std::memory_order_acquire);
  return size_class != no_class && is_allocated(offset, size_class);
}

Heap::Extent SlabHeap::block_at(std::uint64_t offset) const noexcept {
  const std::uint64_t in_heap = offset - first_offset_;
  const std::uint64_t chunk = in_heap / chunk_bytes;
  if (offset < first_offset_ || chunk >= chunks_) return {};
  const std::uint8_t size_class = chunk_[chunk].size_class.load(std::memory_order_acquire);
  if (size_class == no_class) return {};
  const Geometry& shape = geometry[size_class];
  const std::uint64_t first = (chunk - chunk % shape.chunks) * chunk_bytes;
  const std::uint64_t index = (in_heap - first) / shape.bytes;
  if (index >= shape.blocks) return {};
  return {first_offset_ + first + index * shape.bytes, shape.bytes};
}

bool SlabHeap::is_live(std::uint64_t offset) const noexcept {
  const Extent block = block_at(offset);
  if (block.offset != offset || !is_marked(offset)) return false;
  const unsigned size_class = class_of(block.bytes);
  return std::ranges::none_of(slot_, [&](const std::atomic<Slot*>& entry) {
    const Slot* const slot = entry.load(std::memory_order_acquire);
    if (slot == nullptr) return false;
    const Cache& cache = slot->cache[size_class];
    const auto end = cache.block.begin() + cache.count;
    return std::find(cache.block.begin(), end, offset) != end;
  });
}

std::uint64_t SlabHeap::room_for(std::size_t bytes) const noexcept {
  const unsigned size_class = class_of(bytes);
  const Geometry& shape = geometry[size_class];
  std::uint64_t blocks = 0;
  std::uint32_t first = (frozen_chunks_ + shape.chunks - 1) / shape.chunks * shape.chunks;
  for (; first + shape.chunks <= chunks_; first += shape.chunks) {
    std::uint32_t free_chunks = 0;
    while (free_chunks < shape.chunks && chunk_is_free(first + free_chunks)) ++free_chunks;
    if (free_chunks == shape.chunks)
      blocks += shape.blocks;
    else if (chunk_[first].size_class.load(std::memory_order_relaxed) == size_class)
      blocks += shape.blocks - used_blocks(first, size_class);
  }
  for (const auto& entry : slot_)
    if (const Slot* const slot = entry.load(std::memory_order_acquire); slot != nullptr)
      blocks += slot->cache[size_class].count;
  return blocks;
}

bool SlabHeap::is_allocated(std::uint64_t offset, unsigned size_class) const noexcept {
  const Geometry& shape = geometry[size_class];
  const std::uint64_t in_heap = offset - first_offset_;
  const std::uint64_t chunk = in_heap / chunk_bytes;
  if (offset < first_offset_ || chunk >= chunks_) return false;
  const auto first = static_cast<std::uint32_t>(chunk - chunk % shape.chunks);
  const auto in_span = static_cast<std::uint32_t>(in_heap - first * chunk_bytes);
  const std::uint32_t index = in_span / shape.bytes;
  if (in_span % shape.bytes != 0 || index >= shape.blocks) return false;
  if (chunk_[first].size_class.load(std::memory_order_acquire) != size_class) return false;
  const std::atomic<std::uint64_t>* bitmap = chunk_[first].bitmap.load(std::memory_order_relaxed);
  return (bitmap[index / 64].load(std::memory_order_relaxed) >> index % 64 & 1) != 0;
}

std::uint32_t SlabHeap::used_blocks(std::uint32_t first, unsigned size_class) const noexcept {
  const Geometry& shape = geometry[size_class];
  const std::atomic<std::uint64_t>* bitmap = chunk_[first].bitmap.load(std::memory_order_relaxed);
  std::uint32_t set_bits = 0;
  for (std::uint32_t word = 0; word < shape.words; ++word)
    set_bits +=
        static_cast<std::uint32_t>(std::popcount(bitmap[word].load(std::memory_order_relaxed)));
  return set_bits - (shape.words * 64 - shape.blocks);
}

template <class Take>
void SlabHeap::for_each_frozen_span(Take&& take) const {
  for (std::uint32_t chunk = frozen_chunks_; chunk-- > 0;) {  // lists start at the low end
    const std::uint8_t size_class = chunk_[chunk].size_class.load(std::memory_order_acquire);
    if (size_class != no_class && chunk % geometry[size_class].chunks == 0)
      take(chunk, unsigned{size_class});
  }
}

SlabHeap::Marked SlabHeap::count_marked() const noexcept {
  Marked marked;
  for_each_frozen_span([&](std::uint32_t first, unsigned size_class) {
    const std::uint32_t used = used_blocks(first, size_class);
    marked.blocks += used;
    marked.bytes += std::int64_t{used} * geometry[size_class].bytes;
    marked.chunks += geometry[size_class].chunks;
  });
  return marked;
}

// S6. False: the sweep has run meanwhile.
bool SlabHeap::unmark(std::uint64_t offset, unsigned size_class) noexcept {
  const pm::LockGuard hold(sweep_lock_);
  if (offset >= frozen_end_.load(std::memory_order_relaxed)) return false;
  const Geometry& shape = geometry[size_class];
  const std::uint64_t in_heap = offset - first_offset_;
  const auto chunk = static_cast<std::uint32_t>(in_heap / chunk_bytes);
  const std::uint32_t first = chunk - chunk % shape.chunks;
  const auto index = static_cast<std::uint32_t>(in_heap - first * chunk_bytes) / shape.bytes;
  chunk_[first].bitmap.load(std::memory_order_relaxed)[index / 64].fetch_and(
      ~(std::uint64_t{1} << index % 64), std::memory_order_relaxed);
  ++unmarked_.blocks;
  unmarked_.sum += slab::census_hash(offset, size_class);
  return true;
}

// Other threads may run: once nothing is frozen any more they free blocks of these spans, which are
// full until listed; whoever comes first lists or releases a span (S5).
Result<std::uint64_t> SlabHeap::sweep() {
  PERDURE_ASSERT(!swept_.load(std::memory_order_relaxed));
  {
    const pm::LockGuard hold(sweep_lock_);
    for_each_frozen_span([&](std::uint32_t first, unsigned size_class) {
      chunk_[first].used.store(used_blocks(first, size_class), std::memory_order_relaxed);
      chunk_[first].state.store(SpanState::full, std::memory_order_relaxed);
    });
    const Marked marked = count_marked();
    marked_blocks_.store(marked.blocks, std::memory_order_relaxed);
    marked_bytes_.store(marked.bytes, std::memory_order_relaxed);
    frozen_end_.store(0, std::memory_order_release);
    swept_.store(true, std::memory_order_release);
  }
  for_each_frozen_span(
      [&](std::uint32_t first, unsigned size_class) { list_swept(first, size_class); });
  {
    const pm::LockGuard hold(chunk_lock_);
    frozen_chunks_ = 0;
    first_free_chunk_ = 0;
    ++releases_;
  }
  serves_.store(true, std::memory_order_release);
  return std::uint64_t{0};
}

void SlabHeap::list_swept(std::uint32_t first, unsigned size_class) noexcept {
  const pm::LockGuard hold(class_[size_class].lock);
  const Chunk& span = chunk_[first];
  if (span.size_class.load(std::memory_order_relaxed) != size_class ||
      span.state.load(std::memory_order_relaxed) != SpanState::full)
    return;
  if (span.used.load(std::memory_order_acquire) == 0)
    release_chunks(first, size_class);
  else if (has_free_bit(first, size_class))
    push_partial(first, size_class);
}

// S7. Caller holds the chunk lock; no block of the chunks below `end` is in use yet. The mark rises
// by stretches, so that few allocations pay for it.
void SlabHeap::raise_high_water(std::uint32_t end) noexcept {
  if (high_water_word_ == nullptr || end <= high_water_) return;
  const std::uint32_t stretch = std::clamp(chunks_ / 64, 1U, 64U);
  high_water_ = std::min(chunks_, (end + stretch - 1) / stretch * stretch);
  pm::store_persist(*high_water_word_, sealed(high_water_, high_water_purpose));
}

bool SlabHeap::keep_high_water(std::atomic<std::uint64_t>& word) noexcept {
  const pm::LockGuard hold(chunk_lock_);
  const auto kept = unsealed(word.load(std::memory_order_relaxed), high_water_purpose);
  high_water_word_ = &word;
  high_water_ = std::min(kept.value_or(0), chunks_);
  std::uint32_t end = chunks_;
  while (end > 0 && chunk_is_free(end - 1)) --end;
  raise_high_water(std::max(end, 1U));
  return true;
}

Result<bool> SlabHeap::serve_above(std::atomic<std::uint64_t>& word) {
  PERDURE_ASSERT(!serves_.load(std::memory_order_relaxed));
  if (word.load(std::memory_order_relaxed) == 0) return false;
  const auto kept = unsealed(word.load(std::memory_order_relaxed), high_water_purpose);
  std::uint32_t end = chunks_;
  while (end > 0 && chunk_is_free(end - 1)) --end;
  if (!kept || *kept > chunks_ || *kept < end)
    return Error{ErrorCode::corrupt, "the heap's high-water mark is damaged", "slab heap",
                 "restore the pool from a copy, or create a new one with PoolOptions::overwrite"};
  high_water_word_ = &word;
  high_water_ = *kept;
  frozen_chunks_ = *kept;
  first_free_chunk_ = *kept;
  frozen_end_.store(first_offset_ + *kept * chunk_bytes, std::memory_order_release);
  serves_.store(true, std::memory_order_release);
  return true;
}

HeapUsage SlabHeap::usage() const noexcept {
  std::int64_t blocks = marked_blocks_.load(std::memory_order_relaxed);
  std::int64_t bytes = marked_bytes_.load(std::memory_order_relaxed);
  std::uint64_t chunks = chunks_used_.load(std::memory_order_relaxed);
  if (frozen_end_.load(std::memory_order_acquire) != 0) {
    const pm::LockGuard hold(sweep_lock_);
    if (frozen_end_.load(std::memory_order_relaxed) != 0) {
      const Marked marked = count_marked();
      blocks = marked.blocks;
      bytes = marked.bytes;
      chunks += frozen_chunks_ - marked.chunks;
    }
  }
  std::uint64_t slots = 0;
  for (const auto& entry : slot_) {
    const Slot* slot = entry.load(std::memory_order_acquire);
    if (slot == nullptr) continue;
    ++slots;
    blocks += slot->live_blocks.load(std::memory_order_relaxed);
    bytes += slot->live_bytes.load(std::memory_order_relaxed);
  }
  return {.live_blocks = static_cast<std::uint64_t>(blocks),
          .live_bytes = static_cast<std::uint64_t>(bytes),
          .reserved_bytes = first_offset_ + chunks * chunk_bytes,
          .capacity_bytes = chunks_ * chunk_bytes,
          .dram_bytes = sizeof *this + chunk_.capacity() * sizeof(Chunk) + slots * sizeof(Slot) +
                        bitmap_bytes_.load(std::memory_order_relaxed)};
}

}  // namespace perdure
