// DocumentStore::Recovery: from what a pool holds to a store that can be used.
//
//   find_records  intents first: the words of committed writes are set, so that the table is what
//   it
//                 shall be before anything is marked, because blocks of a document that was
//                 replaced may belong to others by now. Then every record that is present, its
//                 segment and its long document are marked.
//   redo          once index and heap serve: entries of writes that were cut off, in the order of
//                 their keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/store/document_store.h"
#include "engine/store/store_head.h"

namespace perdure::engine {

class DocumentStore::Recovery {
 public:
  explicit Recovery(DocumentStore& store) noexcept : store_(store) {}

  [[nodiscard]] Result<void> find_records();
  /// When everybody else has marked what is his, and the heap has not swept.
  void keep_old_extents();
  [[nodiscard]] Result<void> redo();

 private:
  /// A committed write that may not have come to its end.
  struct Write {
    Operation operation;
    Intent::Terms terms;
    std::string key;
    std::string document{};                     ///< of a write
    std::optional<std::string> old_document{};  ///< if it was whole
    bool old_is_kept = false;                   ///< it is still there, whatever happens
    std::vector<Extent> old_extents{};          ///< marked, and freed in the end
  };

  void read_intents();
  /// True: it is committed, and no older than what the word leads to; the word is set.
  [[nodiscard]] bool believe(Write& write);
  [[nodiscard]] bool is_overtaken(const Write& write) const;
  void keep_old(Write& write);
  [[nodiscard]] bool copy_if(std::uint64_t offset, std::uint64_t id, std::uint64_t version,
                             std::string& key, std::string& document) const;
  [[nodiscard]] Result<void> note_range(std::uint64_t begin, std::uint64_t end);
  [[nodiscard]] bool note(std::uint64_t id, std::uint64_t word);
  [[nodiscard]] Result<void> finish(Write& write);
  [[nodiscard]] Result<void> take_back(Write& write);
  void erase_all();

  DocumentStore& store_;
  std::vector<Write> writes_;
  std::atomic<std::uint64_t> documents_{0};
  std::atomic<std::uint64_t> used_{0};
  std::atomic<std::uint64_t> damaged_{0};
};

}  // namespace perdure::engine
