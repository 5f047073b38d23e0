#include "lockfree/slots/slot_store.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "core/rng.h"
#include "index/common/index_root.h"
#include "index/common/publish_batch.h"
#include "pm/write_back.h"
#include "pool/mapping.h"

namespace perdure::lockfree {

std::uint64_t checksum_of(const Directory& directory, const std::uint64_t* offsets) noexcept {
  std::uint64_t sum = mix64(directory.chunks ^ 0x736c6f7473ULL);
  for (std::uint64_t i = 0; i < directory.chunks; ++i)
    sum = mix64(sum ^ offsets[i]) + 0x9e3779b97f4a7c15ULL;
  return sum;
}

namespace {

/// Without marks.
std::uint64_t bytes_in_dram(const SlotShape& shape) noexcept {
  std::uint64_t bytes = 0;
  for (std::uint64_t i = 1; i < shape.chunks(); ++i) bytes += shape.chunk_bytes(i);
  return bytes;
}

/// A block of the heap could not hold their directory. `slots`: as they were asked for.
Error too_many(const SlotShape& shape, std::uint64_t slots, const Pool& pool) {
  return {ErrorCode::usage,
          std::to_string(slots) + " slots of " + std::to_string(shape.payload_bytes) +
              " bytes are more than a queue can have",
          pool.path(), "give fewer slots, or a smaller payload_bytes"};
}

std::uint64_t bytes_in_pool(const SlotShape& shape) noexcept {
  std::uint64_t bytes = shape.directory_bytes();
  for (std::uint64_t i = 0; i < shape.chunks(); ++i) bytes += shape.chunk_bytes(i);
  return bytes;
}

Error no_room(const SlotShape& shape, std::uint64_t slots, const Pool& pool) {
  constexpr std::uint64_t mib = std::uint64_t{1} << 20;
  return {ErrorCode::out_of_space,
          "no room for " + std::to_string(slots) + " slots of a queue, which take " +
              std::to_string((bytes_in_pool(shape) + mib - 1) / mib) + " MiB",
          pool.path(), "create a larger pool, or give fewer slots or a smaller payload_bytes"};
}

/// Blocks that are reserved, and given back unless they are published.
class NewBlocks {
 public:
  explicit NewBlocks(Heap& heap) noexcept : heap_(heap) {}
  ~NewBlocks() {
    for (Reservation& block : blocks_)
      if (published_)
        heap_.free(block.offset, block.bytes);
      else
        heap_.cancel(block);
  }
  NewBlocks(const NewBlocks&) = delete;
  NewBlocks& operator=(const NewBlocks&) = delete;

  /// Null: out of space.
  [[nodiscard]] std::uint64_t reserve(std::uint64_t bytes) {
    Reservation block = heap_.reserve(bytes);
    if (block) blocks_.push_back(block);
    return block.offset;
  }
  void publish() {
    PublishBatch batch(heap_);
    for (const Reservation& block : blocks_) batch.hold(block);
    batch.publish();
    published_ = true;
  }
  /// They stay.
  void keep() noexcept { blocks_.clear(); }

 private:
  Heap& heap_;
  std::vector<Reservation> blocks_;
  bool published_ = false;
};

/// The option that says how payloads reach memory.
struct PayloadOption {
  static constexpr const char* name = "payload";
  static constexpr std::uint64_t streams = 0;
  static constexpr std::uint64_t writes_back = 1;
  static constexpr std::uint64_t keeps = 2;
};

/// A payload that is never flushed is durable only where the caches are.
Result<void> check_payload_option(const QueuePlace& place, const SlotOwner& owner) {
  if (place.options.get(PayloadOption::name) != PayloadOption::keeps ||
      pm::persist_mode().durability == pm::Durability::eadr)
    return {};
  const std::string mode = pm::name_of(pm::persist_mode().durability);
  return Error{ErrorCode::unsupported,
               std::string(owner.queue) + " with payload=2 keeps no payload under " + mode,
               place.pool->path(), "run it with pm::Durability::eadr, or give payload=0 or 1"};
}

/// Marks and headers begin as zeros; what a payload's place holds means nothing.
void clear(std::byte* at, std::uint64_t bytes) noexcept {
  std::memset(at, 0, bytes);
  pm::flush(at, bytes);
}

}  // namespace

void SlotStore::FreeMemory::operator()(std::byte* memory) const noexcept {
  ::operator delete[](memory, std::align_val_t{alignment});
}

SlotStore::SlotStore(const SlotShape& shape)
    : shape_(shape),
      stride_(shape.stride()),
      payloads_per_chunk_(shape.payloads_per_chunk()),
      chunk_shift_(static_cast<unsigned>(std::countr_zero(payloads_per_chunk_))) {
  headers_.resize(shape.header_chunks());
  payloads_.resize(shape.payload_chunks());
}

void SlotStore::place_chunk(std::uint64_t number, std::byte* at) noexcept {
  if (number == 0) {
    marks_ = reinterpret_cast<Mark*>(at);
    return;
  }
  number -= 1;
  if (shape_.has_logs && number == 0) {
    logs_ = reinterpret_cast<UndoLog*>(at);
    return;
  }
  if (shape_.has_logs) number -= 1;
  if (number < headers_.size())
    headers_[number] = reinterpret_cast<SlotHeader*>(at);
  else
    payloads_[number - headers_.size()] = at;
}

Result<SlotStore> SlotStore::create(const QueuePlace& place, const SlotOwner& owner,
                                    const SlotShape& shape) {
  if (auto fits = check_payload_option(place, owner); !fits) return fits.error();
  Pool& pool = *place.pool;
  const std::uint64_t asked = shape.slots - owner.spare;
  if (shape.directory_bytes() > Heap::max_block_bytes) return too_many(shape, asked, pool);
  // At once, because what is reserved in vain below is written, too.
  if (bytes_in_pool(shape) > pool.heap().capacity_bytes()) return no_room(shape, asked, pool);
  SlotStore store(shape);
  store.pool_ = &pool;
  NewBlocks blocks(pool.heap());
  const std::uint64_t directory = blocks.reserve(shape.directory_bytes());
  if (directory == null_offset) return no_room(shape, asked, pool);
  auto* const first = pool.at<Directory>(directory);
  auto* const offsets = pool.at<std::uint64_t>(directory + sizeof(Directory));
  const std::uint64_t cleared = shape.chunks() - shape.payload_chunks();
  for (std::uint64_t i = 0; i < shape.chunks(); ++i) {
    const std::uint64_t chunk = blocks.reserve(shape.chunk_bytes(i));
    if (chunk == null_offset) return no_room(shape, asked, pool);
    offsets[i] = chunk;
    store.place_chunk(i, pool.at<std::byte>(chunk));
    if (i < cleared) clear(pool.at<std::byte>(chunk), shape.chunk_bytes(i));
  }
  first->chunks = shape.chunks();
  first->checksum = checksum_of(*first, offsets);
  pm::flush(first, shape.directory_bytes());
  pm::fence();
  blocks.publish();
  if (Result<void> rooted = create_index_root(pool, place.root_name, {.index = owner.queue},
                                              {asked, shape.payload_bytes, owner.value}, directory);
      !rooted)
    return rooted.error();
  blocks.keep();
  return store;
}

Result<SlotStore> SlotStore::recover(const QueuePlace& place, const SlotOwner& owner,
                                     const SlotShape& shape) {
  if (auto fits = check_payload_option(place, owner); !fits) return fits.error();
  Pool& pool = *place.pool;
  const auto root = read_index_root(pool, place.root_name, {.index = owner.queue});
  if (!root) return root.error();
  if (auto same = check_index_option(pool, "slots", root->option[0], shape.slots - owner.spare);
      !same)
    return same.error();
  if (auto same = check_index_option(pool, "payload_bytes", root->option[1], shape.payload_bytes);
      !same)
    return same.error();
  if (auto same = check_index_option(pool, owner.option, root->option[2], owner.value); !same)
    return same.error();
  SlotStore store(shape);
  store.pool_ = &pool;
  if (auto taken = store.take_back(place, root->head); !taken) return taken.error();
  return store;
}

Result<void> SlotStore::take_back(const QueuePlace& place, std::uint64_t directory) {
  if (!pool_->contains(directory, shape_.directory_bytes()))
    return corrupt("the directory of its slots lies outside the pool");
  const auto* const first = pool_->at<Directory>(directory);
  const auto* const offsets = pool_->at<std::uint64_t>(directory + sizeof(Directory));
  if (first->chunks != shape_.chunks() || first->checksum != checksum_of(*first, offsets))
    return corrupt("the directory of its slots is damaged");
  // A root that was made in this session has its blocks, and the heap marks nothing.
  const bool marks = !pool_->ready();
  const auto reach = [&](std::uint64_t offset, std::uint64_t bytes) {
    return pool_->contains(offset, bytes) && (!marks || pool_->heap().mark(offset, bytes));
  };
  if (!reach(directory, shape_.directory_bytes()))
    return corrupt("the directory of its slots is no block");
  for (std::uint64_t i = 0; i < shape_.chunks(); ++i) {
    const std::uint64_t bytes = shape_.chunk_bytes(i);
    if (offsets[i] % Heap::block_alignment(bytes) != 0 || !reach(offsets[i], bytes))
      return corrupt("chunk " + std::to_string(i) + " of its slots is no block");
    place_chunk(i, pool_->at<std::byte>(offsets[i]));
  }
  if (shape_.has_logs) {
    for (std::uint64_t i = 0; i < pm::max_threads; ++i)
      if (log(i).what.load() > static_cast<std::uint64_t>(UndoLog::What::mark) ||
          (log(i).what.load() == static_cast<std::uint64_t>(UndoLog::What::header) &&
           log(i).slot >= shape_.slots) ||
          (log(i).what.load() == static_cast<std::uint64_t>(UndoLog::What::mark) &&
           log(i).slot >= pm::max_threads))
        return corrupt("log " + std::to_string(i) + " is of no slot");
    undo();
  }
  return pool_->root_recovered(place.root_name);
}

// A header's log counts only while the header has the seq that its transaction gave it: that seq is
// used once, so the log of a push that was committed by the seq, or popped and followed by another
// in its slot, undoes nothing.
void SlotStore::undo() const noexcept {
  for (std::uint64_t i = 0; i < pm::max_threads; ++i) {
    UndoLog& undone = log(i);
    const auto what = static_cast<UndoLog::What>(undone.what.load());
    if (what == UndoLog::What::nothing) continue;
    if (what == UndoLog::What::mark) {
      mark(undone.slot).seq.store(undone.old);
      pm::persist(&mark(undone.slot), sizeof(Mark));
    } else if (header(undone.slot).seq.load() == undone.old) {
      // The seq last: until then the header says nothing, and the log still counts.
      SlotHeader& restored = header(undone.slot);
      constexpr std::size_t rest = offsetof(SlotHeader, len);
      std::uint64_t seq = 0;
      std::memcpy(&seq, undone.header.data(), sizeof seq);
      std::memcpy(reinterpret_cast<std::byte*>(&restored) + rest, undone.header.data() + rest,
                  sizeof restored - rest);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      restored.seq.store(seq);
      pm::persist(&restored, sizeof restored);
    }
    undone.what.store(static_cast<std::uint64_t>(UndoLog::What::nothing));
    pm::persist(&undone, pm::cache_line_bytes);
  }
}

SlotStore SlotStore::in_dram(const SlotShape& shape, bool huge_pages) {
  SlotStore store(shape);
  const std::uint64_t bytes = bytes_in_dram(shape);
  const bool huge = huge_pages && bytes >= huge_page_size;
  const std::size_t alignment = huge ? huge_page_size : pm::media_block_bytes;
  auto* at = static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{alignment}));
  store.memory_ = {at, FreeMemory{alignment}};
  if (huge) request_huge_pages(at, bytes, Medium::anonymous);
  std::memset(at, 0, bytes);
  // Payloads first, because only they need the alignment.
  const std::uint64_t first_payload = shape.chunks() - shape.payload_chunks();
  for (std::uint64_t i = first_payload; i < shape.chunks(); at += shape.chunk_bytes(i++))
    store.place_chunk(i, at);
  for (std::uint64_t i = 1; i < first_payload; at += shape.chunk_bytes(i++))
    store.place_chunk(i, at);
  return store;
}

Error SlotStore::corrupt(const std::string& what) const {
  return {ErrorCode::corrupt, what, pool_ == nullptr ? "" : pool_->path(),
          "restore the pool from a copy, or create a new one with PoolOptions::overwrite"};
}

Result<FoundSlots> SlotStore::look() const {
  FoundSlots found;
  found.pushed.resize(pm::max_threads);
  for (std::uint64_t i = 0; i < pm::max_threads; ++i) {
    const std::uint64_t seq = mark(i).seq.load();
    if (seq > largest_seq) return corrupt("M2: mark " + std::to_string(i) + " is damaged");
    found.last_popped = std::max(found.last_popped, seq);
    found.pushed[i] = mark(i).number.load();
  }
  found.last_seq = found.last_popped;
  for (std::uint32_t slot = 0; slot < shape_.slots; ++slot) {
    const SlotHeader& at = header(slot);
    const std::uint64_t seq = at.seq.load();
    const bool says_something = (seq & unfinished) == 0 && seq != 0;
    if (says_something) {
      if (seq > largest_seq || at.len > shape_.payload_bytes ||
          (at.number != 0 && at.producer >= pm::max_threads))
        return corrupt("M1: the header of slot " + std::to_string(slot) + " is damaged");
      if (at.number != 0) {
        std::uint64_t& pushed = found.pushed[at.producer];
        pushed = std::max(pushed, at.number);
      }
      found.last_seq = std::max(found.last_seq, seq);
    }
    if (says_something && seq > found.last_popped)
      found.live.push_back({seq, slot});
    else
      found.dead.push_back(slot);
  }
  std::ranges::sort(found.live, {}, &FoundSlots::Live::seq);
  const auto same = std::ranges::adjacent_find(found.live, {}, &FoundSlots::Live::seq);
  if (same != found.live.end())
    return corrupt("M2: two slots have the seq " + std::to_string(same->seq));
  return found;
}

std::uint64_t SlotStore::sum_of(const FoundSlots& found) const noexcept {
  std::uint64_t sum = mix64(found.live.size());
  const auto add = [&](std::uint64_t word) { sum = mix64(sum ^ word) + 0x9e3779b97f4a7c15ULL; };
  for (const FoundSlots::Live& live : found.live) {
    const SlotHeader& at = header(live.slot);
    add(at.len);
    add(at.number);
    if (at.len > inline_bytes) continue;
    for (std::size_t i = 0; i < at.len; i += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, at.short_payload.data() + i, std::min(at.len - i, sizeof word));
      add(word);
    }
  }
  for (const std::uint64_t number : found.pushed) add(number);
  return sum;
}

std::uint64_t SlotStore::content_sum() const {
  const Result<FoundSlots> found = look();
  return found ? sum_of(*found) : 0;
}

Result<void> SlotStore::check_content(const QueuePlace& place, const FoundSlots& found) const {
  if (!pool_->expects_records()) return {};
  const Result<void> same = pool_->check_records(place.root_name, sum_of(found));
  return same ? Result<void>{} : corrupt("the queue holds other payloads than when it was closed");
}

Result<void> SlotStore::check_blocks() const {
  if (pool_->roots().size() != 1) return {};
  const std::uint64_t reached = shape_.chunks() + 2;  // the directory, the root
  const std::uint64_t live = pool_->heap().usage().live_blocks;
  if (live == reached) return {};
  return corrupt(std::to_string(live) + " blocks are live, " + std::to_string(reached) +
                 " are reachable");
}

std::uint64_t SlotStore::dram_bytes() const noexcept {
  const std::uint64_t bytes =
      headers_.size() * sizeof headers_[0] + payloads_.size() * sizeof payloads_[0];
  return memory_ == nullptr ? bytes : bytes + bytes_in_dram(shape_);
}

namespace {

constexpr std::size_t word_bytes = sizeof(std::uint64_t);

/// Of any alignment and length: the place has room for the last word.
void stream_through_copy(std::byte* to, std::string_view payload) noexcept {
  alignas(pm::cache_line_bytes) std::array<std::byte, 512> copy{};
  while (!payload.empty()) {
    const std::size_t part = std::min(copy.size(), payload.size());
    std::memcpy(copy.data(), payload.data(), part);
    pm::stream(to, copy.data(), (part + word_bytes - 1) / word_bytes * word_bytes);
    to += part;
    payload.remove_prefix(part);
  }
}

}  // namespace

void write_payload(std::byte* to, std::string_view payload, PayloadPath path) noexcept {
  if (path != PayloadPath::streamed) {
    std::memcpy(to, payload.data(), payload.size());
    if (path == PayloadPath::written_back)
      pm::write_back(to, payload.size());
    else
      pm::flush(to, payload.size());
    return;
  }
  const bool aligned = reinterpret_cast<std::uintptr_t>(payload.data()) % word_bytes == 0;
  const std::size_t words = aligned ? payload.size() / word_bytes * word_bytes : 0;
  if (words != 0) pm::stream(to, payload.data(), words);
  if (words != payload.size()) stream_through_copy(to + words, payload.substr(words));
}

std::vector<IndexOption> slot_options() {
  return {{"slots", "payloads it can hold", 32768, 1, 65536},
          {"payload_bytes", "the longest payload", 4096, 0, max_payload_bytes}};
}

std::vector<IndexOption> persistent_slot_options() {
  std::vector<IndexOption> options = slot_options();
  options.push_back({PayloadOption::name,
                     "0: payloads from 256 bytes on go past the caches; 1: plain stores, and a "
                     "write-back of each line, under eADR, too; 2: plain stores only (eADR)",
                     PayloadOption::streams, PayloadOption::streams, PayloadOption::keeps});
  return options;
}

PayloadPaths::PayloadPaths(const IndexOptions& options) {
  const std::uint64_t chosen = options.get(PayloadOption::name);
  of_short_ =
      chosen == PayloadOption::writes_back ? PayloadPath::written_back : PayloadPath::cached;
  of_long_ = chosen == PayloadOption::streams ? PayloadPath::streamed : of_short_;
}

SlotShape shape_of(const IndexOptions& options, bool has_logs) {
  return {options.get("slots"), options.get("payload_bytes"), has_logs};
}

std::vector<MediaStruct> media_of_slots(const SlotShape& shape) {
  const auto lines = [](std::uint64_t bytes) { return static_cast<std::uint32_t>(bytes / 64); };
  std::vector<MediaStruct> media{media_of_root()};
  media.push_back({"directory",
                   shape.directory_bytes(),
                   {{"checksum", offsetof(Directory, checksum), 8},
                    {"chunks", offsetof(Directory, chunks), 8},
                    {"offset", sizeof(Directory), 8, static_cast<std::uint32_t>(shape.chunks())}}});
  constexpr auto marks = static_cast<std::uint32_t>(pm::max_threads);
  media.push_back({"marks",
                   SlotShape::mark_bytes,
                   {{"mark[].seq", offsetof(Mark, seq), 8, marks, sizeof(Mark)},
                    {"mark[].number", offsetof(Mark, number), 8, marks, sizeof(Mark)}}});
  if (shape.has_logs)
    media.push_back({"logs",
                     SlotShape::log_bytes,
                     {{"log[].what", offsetof(UndoLog, what), 8, marks, sizeof(UndoLog)},
                      {"log[].slot", offsetof(UndoLog, slot), 8, marks, sizeof(UndoLog)},
                      {"log[].old", offsetof(UndoLog, old), 8, marks, sizeof(UndoLog)}}});
  const std::uint64_t header_bytes = shape.header_bytes(0);
  const std::uint32_t headers = lines(header_bytes);
  media.push_back(
      {"headers",
       header_bytes,
       {{"header[].seq", offsetof(SlotHeader, seq), 8, headers, sizeof(SlotHeader)},
        {"header[].len", offsetof(SlotHeader, len), 4, headers, sizeof(SlotHeader)},
        {"header[].producer", offsetof(SlotHeader, producer), 4, headers, sizeof(SlotHeader)},
        {"header[].number", offsetof(SlotHeader, number), 8, headers, sizeof(SlotHeader)}}});
  if (shape.payload_chunks() != 0) {
    const std::uint64_t bytes = shape.payload_chunk_bytes(0);
    media.push_back({"payloads",
                     bytes,
                     {{"payload[]", 0, static_cast<std::uint32_t>(shape.stride()),
                       static_cast<std::uint32_t>(bytes / shape.stride()),
                       static_cast<std::uint32_t>(shape.stride())}}});
  }
  return media;
}

}  // namespace perdure::lockfree
