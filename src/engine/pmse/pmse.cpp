#include "engine/pmse/pmse.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "index/common/bulk_check.h"

namespace perdure::engine::pmse {
namespace {

constexpr std::uint64_t bytes_per_bucket = 4096;
constexpr std::uint64_t most_buckets = Heap::max_block_bytes / 2 / sizeof(std::uint64_t);

bool is_within(std::string_view key, std::string_view value) noexcept {
  return key.size() <= max_key_bytes && value.size() <= max_value_bytes;
}

}  // namespace

MadeIndex<ByteKeys> Pmse::create_as(Mode mode, const IndexPlace& place) {
  Pool& pool = *place.pool;
  auto& heap = static_cast<PmdkHeap&>(pool.heap());
  std::uint64_t at = null_offset;
  {
    PmdkTransaction change(heap);
    at = change.allocate(sizeof(Head));
    const std::uint64_t leaf = change.allocate(sizeof(Node));
    const std::uint64_t buckets =
        std::clamp<std::uint64_t>(std::bit_floor(pool.bytes() / bytes_per_bucket), 8, most_buckets);
    const std::uint64_t table = change.allocate(buckets * sizeof(std::uint64_t));
    if (at == null_offset || leaf == null_offset || table == null_offset)
      return no_room_for("the head of pmse", pool);
    put_whole(pool.at<Node>(leaf), {.entries = 0, .is_leaf = 1, .key = {}, .child = {}});
    std::memset(pool.at<std::byte>(table), 0, buckets * sizeof(std::uint64_t));
    put_whole(pool.at<Head>(at), {.buckets = table,
                                  .bucket_count = buckets,
                                  .root = leaf,
                                  .first_leaf = leaf,
                                  .records = 0,
                                  .last_number = 0});
    change.commit();
  }
  if (auto rooted = create_index_root(pool, place.root_name, root_kind,
                                      {static_cast<std::uint64_t>(mode), 0, 0}, at);
      !rooted)
    return rooted.error();
  return {std::unique_ptr<BytesIndex>(new Pmse(pool, mode, *pool.at<Head>(at)))};
}

Outcome Pmse::insert_both(std::string_view key, std::string_view value) {
  std::uint64_t number = 0;
  if (mode_ == Mode::mended) {
    PmdkTransaction change(heap_);
    if (!add_record(change, value, number) || !add_key(change, key, number))
      return Outcome::out_of_space;
    change.commit();
    return Outcome::ok;
  }
  {
    PmdkTransaction change(heap_);
    if (!add_record(change, value, number)) return Outcome::out_of_space;
    change.commit();
  }
  {
    PmdkTransaction change(heap_);
    if (add_key(change, key, number)) {
      change.commit();
      return Outcome::ok;
    }
  }
  PmdkTransaction change(heap_);
  if (take_record(change, number)) change.commit();
  return Outcome::out_of_space;
}

Outcome Pmse::put(std::string_view key, std::string_view value, Put kind) {
  if (!is_within(key, value)) return Outcome::invalid;
  const pm::SharedLock::WriteGuard alone(lock_);
  std::uint64_t number = 0;
  const bool present = find(key, number);
  if (is_refused(kind, present)) return refusal(present);
  if (!present) return insert_both(key, value);
  PmdkTransaction change(heap_);
  if (!replace_record(change, number, value)) return Outcome::out_of_space;
  change.commit();
  return Outcome::ok;
}

Outcome Pmse::remove(std::string_view key) {
  const pm::SharedLock::WriteGuard alone(lock_);
  std::uint64_t number = 0;
  if (!find(key, number)) return Outcome::not_found;
  {
    PmdkTransaction change(heap_);
    if (!take_key(change, key)) return Outcome::out_of_space;
    if (mode_ == Mode::mended && !take_record(change, number)) return Outcome::out_of_space;
    change.commit();
  }
  if (mode_ == Mode::mended) return Outcome::ok;
  PmdkTransaction change(heap_);
  if (take_record(change, number)) change.commit();
  return Outcome::ok;
}

Outcome Pmse::lookup(std::string_view key, std::string& value) {
  const pm::SharedLock::ReadGuard reading(lock_);
  std::uint64_t number = 0;
  if (!find(key, number)) return Outcome::not_found;
  const RecordNode* record = find_record(number);
  if (record == nullptr) return Outcome::not_found;
  value.assign(reinterpret_cast<const char*>(record + 1), record->bytes);
  return Outcome::ok;
}

std::size_t Pmse::scan(std::string_view from, std::size_t count, BytesScan& out) {
  const pm::SharedLock::ReadGuard reading(lock_);
  const Node* leaf = descend(from, nullptr);
  unsigned at = position(*leaf, from);
  while (out.size() < count) {
    for (; at < leaf->entries && out.size() < count; ++at) {
      const RecordNode* record = find_record(leaf->child[at]);
      if (record == nullptr) continue;
      out.append(text_at(leaf->key[at]),
                 {reinterpret_cast<const char*>(record + 1), record->bytes});
    }
    if (leaf->child[order - 1] == null_offset) break;
    leaf = node_at(leaf->child[order - 1]);
    at = 0;
  }
  return out.size();
}

Result<void> Pmse::bulk_load(std::span<const BytesRecord> records) {
  if (std::optional<Error> refused = bulk_load_refusal(size() == 0, records)) return *refused;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (insert(records[i].key, records[i].value) == Outcome::ok) continue;
    while (i-- > 0) static_cast<void>(remove(records[i].key));
    return no_room_for("the records", pool_);
  }
  return {};
}

std::uint64_t Pmse::size() const {
  const pm::SharedLock::ReadGuard reading(lock_);
  std::uint64_t keys = 0;
  for (std::uint64_t at = head_.first_leaf; at != null_offset; at = node_at(at)->child[order - 1])
    keys += node_at(at)->entries;
  return keys;
}

namespace {

IndexInfo describe(const char* mode, const char* title, Tearing tearing) {
  IndexInfo info;
  info.name = "pmse";
  info.mode = mode;
  info.title = title;
  info.tearing = tearing;
  info.heaps = {HeapKind::pmdk};
  return info;
}

IndexInfo published() {
  IndexInfo info =
      describe("published", "MongoDB's engine for PM (pmidio, section 5)", Tearing::structure);
  info.create_bytes = Pmse::create<Mode::published>;
  info.recover_bytes = Pmse::recover<Mode::published>;
  return info;
}

IndexInfo mended() {
  IndexInfo info =
      describe("mended", "the same, with one transaction for record and key", Tearing::nothing);
  info.create_bytes = Pmse::create<Mode::mended>;
  info.recover_bytes = Pmse::recover<Mode::mended>;
  return info;
}

PERDURE_REGISTER_INDEX(pmse_published, published());
PERDURE_REGISTER_INDEX(pmse_mended, mended());

}  // namespace
}  // namespace perdure::engine::pmse
