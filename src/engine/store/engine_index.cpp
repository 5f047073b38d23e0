#include "engine/store/engine_index.h"

#include <array>
#include <optional>

#include "index/common/bulk_check.h"
#include "index/common/index_root.h"

namespace perdure::engine {
namespace {

constexpr char entry_byte = '\xfe';
constexpr char key_byte = '\x01';
constexpr std::size_t entry_value_bytes = 8;

constexpr std::uint64_t most_slots = Heap::max_block_bytes / record_alignment;

/// What the option `index` chooses among.
constexpr std::array<const char*, 5> indexes{"pactree", "roart", "fptree", "utree", "dptree"};

Outcome outcome_of(Status status) noexcept {
  switch (status) {
    case Status::ok:
      return Outcome::ok;
    case Status::exists:
      return Outcome::exists;
    case Status::not_found:
      return Outcome::not_found;
    case Status::out_of_space:
      return Outcome::out_of_space;
    case Status::too_long:
    case Status::corrupt:
    case Status::duplicate:
    case Status::unchanged:
    case Status::busy:
      return Outcome::invalid;
  }
  return Outcome::invalid;
}

}  // namespace

/// The rule of a value's first bytes, or of nothing.
class EngineIndex::FirstBytes final : public EntryRule {
 public:
  explicit FirstBytes(bool has_entries) noexcept : has_entries_(has_entries) {}
  [[nodiscard]] bool has_entries(std::string_view) const override { return has_entries_; }
  void entries(std::string_view, std::string_view document, Entries& out) const override {
    std::string& entry = out.add();
    entry = entry_byte;
    entry += document.substr(0, entry_value_bytes);
  }

 private:
  const bool has_entries_;
};

EngineIndex::EngineIndex(const IndexPlace& place)
    : rule_(std::make_unique<FirstBytes>(place.options.get("secondary") != 0)),
      has_secondary_(place.options.get("secondary") != 0),
      pool_(*place.pool) {}

StoreOptions EngineIndex::store_options(const IndexPlace& place) {
  return {.index = indexes[place.options.get("index") - 1],
          .root_name = place.root_name,
          .segment_bytes = record_alignment * place.options.get("segment_slots"),
          .threads = place.threads,
          .huge_pages = place.huge_pages};
}

MadeIndex<ByteKeys> EngineIndex::with_store(std::unique_ptr<EngineIndex> index,
                                            Result<std::unique_ptr<DocumentStore>> store) {
  if (!store) return store.error();
  index->store_ = std::move(*store);
  return {std::move(index)};
}

MadeIndex<ByteKeys> EngineIndex::create(const IndexPlace& place) {
  std::unique_ptr<EngineIndex> index(new EngineIndex(place));
  EntryRule& rule = *index->rule_;
  return with_store(std::move(index),
                    DocumentStore::create(*place.pool, store_options(place), rule));
}

MadeIndex<ByteKeys> EngineIndex::recover(const IndexPlace& place) {
  std::unique_ptr<EngineIndex> index(new EngineIndex(place));
  EntryRule& rule = *index->rule_;
  return with_store(std::move(index),
                    DocumentStore::recover(*place.pool, store_options(place), rule));
}

std::string_view EngineIndex::key_in_store(std::string_view key, std::string& room) const {
  if (!has_secondary_) return key;
  room = key_byte;
  room += key;
  return room;
}

Outcome EngineIndex::put(std::string_view key, std::string_view value, Put kind) {
  if (value.size() > max_value_bytes) return Outcome::invalid;
  std::string room;
  return outcome_of(store_->put(key_in_store(key, room), value, kind));
}

Outcome EngineIndex::remove(std::string_view key) {
  std::string room;
  return outcome_of(store_->remove(key_in_store(key, room)));
}

Outcome EngineIndex::lookup(std::string_view key, std::string& value) {
  std::string room;
  return outcome_of(store_->lookup(key_in_store(key, room), value));
}

std::size_t EngineIndex::scan(std::string_view from, std::size_t count, BytesScan& out) {
  std::string room;
  std::string next;
  std::vector<DocumentStore::Found> found;
  std::uint64_t corrupt = 0;
  const std::string end(has_secondary_ ? 1 : 0, static_cast<char>(key_byte + 1));
  store_->scan(key_in_store(from, room), end, count, found, next, corrupt);
  for (const DocumentStore::Found& one : found)
    out.append(std::string_view(one.key).substr(has_secondary_ ? 1 : 0), one.document);
  return out.size();
}

// Power-cut states: empty, or all records, because what was begun is emptied at the next opening.
Result<void> EngineIndex::bulk_load(std::span<const BytesRecord> records) {
  if (std::optional<Error> refusal = bulk_load_refusal(size() == 0, records)) return *refusal;
  store_->set_filling(true);
  Outcome outcome = Outcome::ok;
  std::size_t loaded = 0;
  for (; loaded < records.size() && outcome == Outcome::ok; ++loaded)
    outcome = put(records[loaded].key, records[loaded].value, Put::insert);
  for (; outcome != Outcome::ok && loaded-- > 0;) static_cast<void>(remove(records[loaded].key));
  store_->set_filling(false);
  if (outcome == Outcome::ok) return {};
  return no_room_for("the records", pool_);
}

PERDURE_REGISTER_INDEX(
    engine,
    IndexInfo{.name = "engine",
              .title = "document store: records in segments, ids in an index",
              .index_class = IndexClass::persistent,
              .options = {{.name = "index",
                           .description = "that leads from keys to documents: 1 pactree, 2 roart,"
                                          " 3 fptree, 4 utree, 5 dptree; recovery takes the one"
                                          " that the pool has",
                           .fallback = 1,
                           .least = 1,
                           .most = indexes.size()},
                          {.name = "segment_slots",
                           .description = "64-byte slots of a segment, at most; small pools have"
                                          " smaller ones",
                           .fallback = most_slots,
                           .least = 8,
                           .most = most_slots},
                          {.name = "secondary",
                           .description = "1: a second entry for each document, of its first 8"
                                          " bytes",
                           .fallback = 0,
                           .least = 0,
                           .most = 1}},
              .parts = {"record-store", "index"},
              .create_bytes = EngineIndex::create,
              .recover_bytes = EngineIndex::recover,
              .heaps = {HeapKind::slab, HeapKind::dram}});

}  // namespace perdure::engine
