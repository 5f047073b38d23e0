// Scan: follows a plan, a piece at a time. Between pieces it holds no lock and no pin, only the key
// at which it goes on; so a document that is written meanwhile may be seen or not, but none twice,
// unless its indexed field changes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/document/plan.h"

namespace perdure::engine {

class Scan {
 public:
  /// How many documents are looked at in one piece, at most.
  static constexpr std::size_t most_in_piece = 256;

  Scan(DocumentStore& store, Catalog& catalog, Plan plan, Filter filter)
      : store_(store), catalog_(catalog), plan_(std::move(plan)), filter_(std::move(filter)) {
    if (!plan_.ranges.empty()) from_ = plan_.ranges.front().from;
  }

  /// Appends documents that match, or none yet, until `is_done`. About `most` are looked at.
  /// Errors: operation_failed where the collection or the index is gone; those of the filter.
  [[nodiscard]] Answer<Done> next(std::size_t most, std::vector<DocumentStore::Found>& out);
  [[nodiscard]] bool is_done() const noexcept { return range_ == plan_.ranges.size(); }
  [[nodiscard]] const Plan& plan() const noexcept { return plan_; }
  /// Records that did not agree with their checksums and were left out.
  [[nodiscard]] std::uint64_t corrupt() const noexcept { return corrupt_; }

 private:
  [[nodiscard]] bool is_valid(const Catalog::View& view) const;
  void read_points(std::size_t most);
  void read_documents(std::size_t most);
  void read_entries(std::size_t most);
  /// Several entries may lead to one document: the first of them in the ranges counts. False also
  /// where the entry is no longer the document's.
  [[nodiscard]] bool is_first_entry(std::string_view entry, std::string_view document);
  void go_on(std::string next);
  [[nodiscard]] std::size_t limited(std::size_t most) const noexcept;

  DocumentStore& store_;
  Catalog& catalog_;
  Plan plan_;
  Filter filter_;
  std::size_t range_ = 0;
  std::string from_;
  std::vector<DocumentStore::Found> found_;
  std::vector<std::string> values_;
  std::size_t mean_bytes_ = 4096;  ///< of the documents so far, so that a piece has bounded memory
  std::uint64_t corrupt_ = 0;
};

}  // namespace perdure::engine
