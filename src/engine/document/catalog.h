// Catalog: which collections there are and which indexes they have. It is also the store's entry
// rule, because what entries a document has follows from it.
//
// On media a collection is a document of collection 0, so it is as crash-safe as any. In DRAM the
// whole catalog is an immutable Snapshot, which every change replaces.
//
// C1  whoever reads or writes documents of a collection has a View, which pins the snapshot; a
// change
//     waits, after it has published a new snapshot, until the views from before are gone. So a
//     writer that does not know of a new index has finished before the index is filled, and a
//     reader that uses a dropped one before its entries are removed.
// C2  what a snapshot says was durable before it was published.
// C3  a collection that is being dropped is found by no name, but its documents still have entries,
//     until they are removed; an index that is being dropped gives no entries.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/document/keys.h"
#include "engine/document/path.h"
#include "engine/store/document_store.h"
#include "pool/epoch.h"

namespace perdure::engine {

struct IndexInfo {
  enum class State : std::uint8_t { building, ready, dropping };
  std::uint16_t number = 0;  ///< from 1
  std::string name;
  FieldPath path;
  bool descends = false;  ///< as its maker said; entries ascend anyway
  bool unique = false;
  State state = State::building;
};

struct CollectionInfo {
  std::string name;  ///< "database.collection"
  std::uint32_t id = 0;
  bool dropping = false;
  std::vector<IndexInfo> indexes;

  /// Null: there is none that is not being dropped.
  [[nodiscard]] const IndexInfo* find_index(std::string_view index) const noexcept;
};

/// How a collection is kept in the catalog.
[[nodiscard]] std::string to_document(const CollectionInfo& collection);
/// Errors: invalid_bson.
[[nodiscard]] Answer<CollectionInfo> to_collection(std::string_view document);

class Catalog final : public EntryRule {
 public:
  struct Snapshot {
    std::map<std::string, std::shared_ptr<const CollectionInfo>, std::less<>> by_name;
    std::unordered_map<std::uint32_t, std::shared_ptr<const CollectionInfo>> by_id;
  };

  /// Pins what it shows. A thread has one at a time, and makes no change meanwhile.
  class View {
   public:
    explicit View(Catalog& catalog) : pin_(catalog.readers_), snapshot_(catalog.snapshot()) {}
    /// Null: no such collection.
    [[nodiscard]] const CollectionInfo* find(std::string_view name) const noexcept;
    [[nodiscard]] const CollectionInfo* find(std::uint32_t id) const noexcept;
    [[nodiscard]] const Snapshot& all() const noexcept { return snapshot_; }

   private:
    Epochs::Guard pin_;
    const Snapshot& snapshot_;
  };

  void attach(DocumentStore& store) override { store_ = &store; }
  [[nodiscard]] bool has_entries(std::string_view key) const override;
  void entries(std::string_view key, std::string_view document, Entries& out) const override;

  /// Reads all collections from the store. Errors: corrupt.
  Result<void> load();

  // Changes. The caller holds `changes()` and has no View.
  [[nodiscard]] std::mutex& changes() noexcept { return changes_; }
  /// Durable, then published. Errors: out_of_disk_space.
  Answer<Done> save(const CollectionInfo& collection);
  /// Its documents and entries are gone. Errors: as of the store.
  Answer<Done> forget(const CollectionInfo& collection);
  [[nodiscard]] Answer<std::uint32_t> new_collection_id();

 private:
  [[nodiscard]] const Snapshot& snapshot() const;
  [[nodiscard]] Result<std::unique_ptr<Snapshot>> read_all() const;
  void publish(std::unique_ptr<Snapshot> next);

  DocumentStore* store_ = nullptr;
  Epochs readers_;
  std::mutex changes_;
  mutable std::mutex loading_;
  mutable std::unique_ptr<const Snapshot> owned_;
  mutable std::atomic<const Snapshot*> current_{nullptr};
  std::uint32_t next_id_ = first_collection;
};

/// What a write or a lookup of the store ended with, where that is no value of its caller's.
[[nodiscard]] Failure failure_of(Status status, std::string_view what);

}  // namespace perdure::engine
