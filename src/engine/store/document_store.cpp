#include "engine/store/document_store.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/store/recovery.h"
#include "engine/store/store_head.h"
#include "index/common/index_root.h"

namespace perdure::engine {
namespace {

constexpr IndexRootKind root_kind{"engine", 2, KeyKind::bytes};
constexpr std::uint64_t least_segment_bytes = 4096;
constexpr std::uint64_t most_segment_bytes = Heap::max_block_bytes;
/// A thousand segments, so that the last one's free rest matters little, but long appends each.
constexpr std::uint64_t segments_in_pool = 1024;
/// Segments of small pools are a chunk of the heap, and parts of it in images.
constexpr std::uint64_t small_pool_bytes = 4U << 20;

struct Sizes {
  std::uint64_t segment_bytes;
  std::uint64_t chunks;
  std::uint64_t segments;
};

Sizes sizes_for(const Pool& pool, std::uint64_t most_bytes) noexcept {
  const std::uint64_t least =
      pool.bytes() < small_pool_bytes ? least_segment_bytes : std::uint64_t{64} << 10;
  Sizes sizes{};
  sizes.segment_bytes =
      std::clamp(std::bit_floor(pool.bytes() / segments_in_pool), least, most_segment_bytes);
  sizes.segment_bytes = std::min(sizes.segment_bytes, std::bit_floor(most_bytes));
  sizes.chunks = RecordTable::chunks_for(pool.bytes() / record_alignment);
  sizes.segments = pool.bytes() / sizes.segment_bytes;
  return sizes;
}

/// All lines at once: the hardware's prefetchers begin anew at each page, and the key is at the
/// end.
void prefetch(const RecordHeader& record) noexcept {
  constexpr std::uint64_t most_bytes = 8192;
  const auto* at = reinterpret_cast<const std::byte*>(&record);
  const std::uint64_t bytes = std::min(record_bytes(record), most_bytes);
  for (std::uint64_t done = pm::cache_line_bytes; done < bytes; done += pm::cache_line_bytes)
    pm::prefetch_l2(at + done);
}

std::string index_root_of(const std::string& root_name) { return root_name + ".index"; }

Error damaged(const Pool& pool, const char* what) {
  return {ErrorCode::corrupt, what, pool.path(), "restore the pool from a copy"};
}

/// An index that forgets or tears its entries would lose documents, whose records are all there.
Result<void> check_suitable(std::string_view name, const Pool& pool) {
  const auto found = IndexRegistry::find(name);
  if (!found) return found.error();
  const IndexInfo& info = **found;
  if (info.index_class == IndexClass::persistent && info.ordered && info.replaces &&
      info.tearing == Tearing::nothing && info.recovers(KeyKind::bytes) &&
      info.works_on(pool.heap_kind()))
    return {};
  return Error{ErrorCode::unsupported,
               "'" + info.full_name() + "' keeps no byte strings in order in such a pool",
               "IndexRegistry::find", "give pactree, fptree or roart"};
}

}  // namespace

const char* name_of(Status status) noexcept {
  switch (status) {
    case Status::ok:
      return "ok";
    case Status::exists:
      return "exists";
    case Status::duplicate:
      return "duplicate";
    case Status::not_found:
      return "not found";
    case Status::out_of_space:
      return "out of space";
    case Status::too_long:
      return "too long";
    case Status::corrupt:
      return "corrupt";
    case Status::unchanged:
      return "unchanged";
    case Status::busy:
      return "busy";
  }
  return "?";
}

DocumentStore::DocumentStore(Pool& pool, const StoreOptions& options, EntryRule& rule, Head& head)
    : pool_(pool),
      parts_(dynamic_cast<PartsHeap*>(&pool.heap())),
      rule_(rule),
      options_(options),
      head_(head),
      reader_(pool),
      table_(pool, head.chunk_directory()),
      segments_(pool, head.segment_directory(), head.segment_bytes),
      slots_(std::make_unique<std::array<Slot, pm::max_threads>>()),
      cleaner_(pool, table_, segments_, locks_, epochs_) {}

DocumentStore::~DocumentStore() { epochs_.drain(); }

// The root first: where a cut leaves no index beside it, the next opening makes an empty one.
auto DocumentStore::create(Pool& pool, const StoreOptions& options, EntryRule& rule)
    -> Result<std::unique_ptr<DocumentStore>> {
  const Sizes sizes = sizes_for(pool, options.segment_bytes);
  const std::uint64_t bytes = Head::bytes(sizes.chunks, sizes.segments);
  if (bytes > Heap::max_block_bytes)
    return Error{ErrorCode::unsupported, "a store in a pool of more than 100 GiB", pool.path(),
                 "use several pools"};
  if (options.index.size() >= sizeof(Head::index))
    return Error{ErrorCode::usage, "no index '" + options.index + "'", "index",
                 "see perdure list indexes"};
  if (Result<void> suits = check_suitable(options.index, pool); !suits) return suits.error();
  const auto fill = [&](std::uint64_t offset) {
    auto* head = pool.at<Head>(offset);
    std::memset(static_cast<void*>(head), 0, bytes);
    std::ranges::copy(options.index, head->index.begin());
    head->segment_bytes = sizes.segment_bytes;
    head->chunks = sizes.chunks;
    head->segments = sizes.segments;
    head->check = head->sum();
    pm::flush(head, bytes);
  };
  IndexPlace place;
  place.pool = &pool;
  place.root_name = options.root_name;
  const auto at =
      create_rooted(place, root_kind, {}, {"the head of a document store", bytes}, fill);
  if (!at) return at.error();
  std::unique_ptr<DocumentStore> store(new DocumentStore(pool, options, rule, *pool.at<Head>(*at)));
  if (Result<void> made = store->create_index(options.index); !made) return made.error();
  rule.attach(*store);
  return store;
}

Result<void> DocumentStore::create_index(std::string_view name) {
  const InPart index = for_index();
  const auto info = IndexRegistry::find(name);
  if (!info) return info.error();
  const IndexPlace place{.pool = &pool_,
                         .root_name = index_root_of(options_.root_name),
                         .threads = options_.threads,
                         .huge_pages = options_.huge_pages};
  const auto roots = pool_.roots();
  const bool exists = std::ranges::find(roots, place.root_name, &PoolRoot::name) != roots.end();
  auto made = exists ? recover_index<ByteKeys>(**info, place)
                     : perdure::create_index<ByteKeys>(**info, place);
  if (!made) return made.error();
  index_ = std::move(*made);
  return {};
}

auto DocumentStore::recover(Pool& pool, const StoreOptions& options, EntryRule& rule)
    -> Result<std::unique_ptr<DocumentStore>> {
  const auto root = read_index_root(pool, options.root_name, root_kind);
  if (!root) return root.error();
  auto* head = pool.at<Head>(root->head);
  if (!pool.contains(root->head, sizeof(Head)) || head->check != head->sum() ||
      head->chunks > Heap::max_block_bytes || head->segments > Heap::max_block_bytes ||
      !std::has_single_bit(head->segment_bytes) || head->segment_bytes > most_segment_bytes ||
      !pool.contains(root->head, Head::bytes(head->chunks, head->segments)) ||
      !pool.heap().mark(root->head, Head::bytes(head->chunks, head->segments)))
    return damaged(pool, "the head of the document store is damaged");
  std::unique_ptr<DocumentStore> store(new DocumentStore(pool, options, rule, *head));
  Recovery recovery(*store);
  if (Result<void> found = recovery.find_records(); !found) return found.error();
  const std::string name(head->index_name());
  const auto roots = pool.roots();
  const bool has_index =
      std::ranges::find(roots, index_root_of(options.root_name), &PoolRoot::name) != roots.end();
  if (has_index)
    if (Result<void> opened = store->create_index(name); !opened) return opened.error();
  recovery.keep_old_extents();
  if (Result<void> told = pool.root_recovered(options.root_name); !told) return told.error();
  if (!has_index)
    if (Result<void> made = store->create_index(name); !made) return made.error();
  rule.attach(*store);
  if (Result<void> redone = recovery.redo(); !redone) return redone.error();
  return store;
}

bool DocumentStore::find_id(std::string_view key, std::uint64_t& id) const {
  std::string value;
  if (index_->lookup(key, value) != Outcome::ok || value.size() != sizeof id) return false;
  std::memcpy(&id, value.data(), sizeof id);
  return id < table_.capacity();
}

Status DocumentStore::copy_out(std::uint64_t id, std::string_view key,
                               std::string& document) const {
  const std::uint64_t word = table_.word(id).load(std::memory_order_acquire);
  if (!RecordTable::is_present(word)) return Status::not_found;
  const RecordHeader* record = reader_.at(word);
  if (record == nullptr || record->id != id) return Status::corrupt;
  prefetch(*record);
  if (reader_.key(*record) != key) {
    // Another document's by now, which has got the id since, or damaged.
    std::string other;
    return reader_.copy(*record, other, document) ? Status::not_found : Status::corrupt;
  }
  return reader_.copy_document(*record, key, document) ? Status::ok : Status::corrupt;
}

Status DocumentStore::lookup(std::string_view key, std::string& document) {
  if (observer_ != nullptr) [[unlikely]]
    return observed_lookup(key, document);
  return find_document(key, document);
}

Status DocumentStore::find_document(std::string_view key, std::string& document) const {
  const Epochs::Guard pin(epochs_);
  std::uint64_t id = 0;
  if (!find_id(key, id)) return Status::not_found;
  return copy_out(id, key, document);
}

Status DocumentStore::read(std::uint64_t id, std::string& key, std::string& document) {
  if (observer_ != nullptr) [[unlikely]]
    return observed_read(id, key, document);
  return read_id(id, key, document);
}

Status DocumentStore::read_id(std::uint64_t id, std::string& key, std::string& document) const {
  const Epochs::Guard pin(epochs_);
  if (id >= table_.capacity()) return Status::not_found;
  const std::uint64_t word = table_.word(id).load(std::memory_order_acquire);
  if (!RecordTable::is_present(word)) return Status::not_found;
  const RecordHeader* record = reader_.at(word);
  if (record == nullptr || record->id != id || !reader_.copy(*record, key, document))
    return Status::corrupt;
  return Status::ok;
}

void DocumentStore::scan_entries(std::string_view from, std::string_view to, std::size_t count,
                                 std::vector<Entry>& out, std::string& next) {
  const std::size_t before = out.size();
  entries_in(from, to, count, out, next);
  if (observer_ != nullptr) [[unlikely]]
    observer_->saw({.action = Action::scan_entries,
                    .key = from,
                    .to = to,
                    .count = count,
                    .found = out.size() - before});
}

void DocumentStore::entries_in(std::string_view from, std::string_view to, std::size_t count,
                               std::vector<Entry>& out, std::string& next) const {
  BytesScan found;
  next.clear();
  if (index_->scan(from, count, found) == 0) return;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const BytesRecord entry = found[i];
    if (!to.empty() && entry.key >= to) return;
    std::uint64_t id = 0;
    std::string_view text = entry.key;
    if (entry.value.size() == sizeof id) {
      std::memcpy(&id, entry.value.data(), sizeof id);
    } else if (text.size() >= sizeof id) {
      text.remove_suffix(sizeof id);
      std::memcpy(&id, text.data() + text.size(), sizeof id);
      id = __builtin_bswap64(id);
    }
    out.push_back({std::string(text), id});
  }
  if (found.size() < count) return;
  next = found[found.size() - 1].key;
  next += '\0';
}

void DocumentStore::scan(std::string_view from, std::string_view to, std::size_t count,
                         std::vector<Found>& out, std::string& next, std::uint64_t& corrupt) {
  const std::size_t before = out.size();
  documents_in(from, to, count, out, next, corrupt);
  if (observer_ != nullptr) [[unlikely]]
    observer_->saw({.action = Action::scan,
                    .key = from,
                    .to = to,
                    .count = count,
                    .found = out.size() - before});
}

void DocumentStore::documents_in(std::string_view from, std::string_view to, std::size_t count,
                                 std::vector<Found>& out, std::string& next,
                                 std::uint64_t& corrupt) const {
  std::vector<Entry> entries;
  std::string at(from);
  next.clear();
  for (const std::size_t end = out.size() + count; out.size() < end;) {
    entries.clear();
    entries_in(at, to, end - out.size(), entries, next);
    for (const Entry& entry : entries) {
      const Epochs::Guard pin(epochs_);
      Found found{entry.entry, {}};
      if (entry.id >= table_.capacity()) continue;
      const Status status = copy_out(entry.id, entry.entry, found.document);
      if (status == Status::ok) out.push_back(std::move(found));
      if (status == Status::corrupt) ++corrupt;
    }
    if (next.empty()) return;
    at = next;
  }
}

std::uint64_t DocumentStore::size() const noexcept {
  std::int64_t documents = 0;
  for (const Slot& slot : *slots_) documents += slot.documents.load(std::memory_order_relaxed);
  return static_cast<std::uint64_t>(documents);
}

std::string_view DocumentStore::index_name() const noexcept { return head_.index_name(); }

StoreUsage DocumentStore::usage() const {
  StoreUsage usage;
  usage.documents = size();
  usage.live_bytes = segments_.live_bytes();
  usage.segment_bytes = segments_.total_bytes();
  usage.moved_bytes = cleaner_.moved_bytes();
  usage.dram_bytes = sizeof *this + table_.dram_bytes() + segments_.dram_bytes() + sizeof *slots_ +
                     epochs_.retired_dram_bytes() + index_->dram_bytes();
  return usage;
}

void DocumentStore::settle() {
  for (Slot& slot : *slots_) {
    if (slot.pending != nullptr) pm::flush(slot.pending, sizeof *slot.pending);
    slot.pending = nullptr;
    segments_.seal(slot.open);
  }
  pm::fence();
  clear_intents();
  cleaner_.let_go();
  epochs_.drain();
  segments_.free_empty();
  settle_index(*index_, &pool_, index_root_of(options_.root_name));
}

// The words that they were for are durable.
void DocumentStore::clear_intents() {
  for (IntentPair& pair : head_.intents)
    for (Intent& intent : pair)
      if (intent.state.load(std::memory_order_relaxed) != 0) intent.clear();
  pm::fence();
}

void DocumentStore::set_filling(bool filling) { pm::store_persist(head_.filling, filling ? 1 : 0); }

}  // namespace perdure::engine
