// DocumentStore: checking. No other operation runs.
#include "engine/store/document_store.h"

namespace perdure::engine {
namespace {

/// Collects findings up to a number.
class Findings {
 public:
  explicit Findings(std::size_t most) noexcept : most_(most) {}
  [[nodiscard]] bool is_full() const noexcept { return found_.size() >= most_; }
  void add(std::string what, std::uint64_t id) {
    if (!is_full()) found_.push_back({std::move(what), id});
  }
  [[nodiscard]] std::vector<Finding> take() { return std::move(found_); }

 private:
  const std::size_t most_;
  std::vector<Finding> found_;
};

}  // namespace

std::vector<Finding> DocumentStore::check(std::size_t most) const {
  Findings findings(most);
  std::uint64_t expected = 0;
  std::uint64_t documents = 0;
  std::uint64_t live_bytes = 0;
  std::string key;
  std::string document;
  Entries entries;
  for (std::uint64_t id = 0; id < table_.capacity() && !findings.is_full(); ++id) {
    const std::uint64_t word = table_.word(id).load(std::memory_order_relaxed);
    if (!RecordTable::is_present(word)) continue;
    ++documents;
    const RecordHeader* record = reader_.at(word);
    if (record == nullptr || record->id != id ||
        !segments_.holds(record->segment, word, record_bytes(*record))) {
      findings.add("S1: the table leads to no record (offset " + std::to_string(word) + ")", id);
      continue;
    }
    live_bytes += record_bytes(*record);
    if (!reader_.copy(*record, key, document)) {
      findings.add("B2: the record does not agree with its checksum", id);
      continue;
    }
    std::uint64_t held = 0;
    if (!find_id(key, held) || held != id)
      findings.add("S6: the index has no entry for the key of a record", id);
    ++expected;
    if (!rule_.has_entries(key)) continue;
    entries_of(key, document, entries);
    for (const EntryText& entry : entries.all())
      if (!is_in_index(entry, id)) findings.add("S6: the index lacks an entry of a record", id);
    expected += entries.size();
  }
  if (findings.is_full()) return findings.take();
  if (documents != size())
    findings.add("S1: the table leads to " + std::to_string(documents) + " records, and " +
                     std::to_string(size()) + " were counted",
                 0);
  if (live_bytes != segments_.live_bytes())
    findings.add("G2: records take " + std::to_string(live_bytes) + " bytes, and " +
                     std::to_string(segments_.live_bytes()) + " were counted",
                 0);
  if (const std::uint64_t entries_held = index_->size(); entries_held != expected)
    findings.add("S6: the index has " + std::to_string(entries_held) + " entries, and records " +
                     std::to_string(expected),
                 0);
  return findings.take();
}

Result<void> DocumentStore::check_invariants() const {
  if (Result<void> sound = index_->check_invariants(); !sound) return sound;
  const std::vector<Finding> findings = check(1);
  if (findings.empty()) return {};
  return Error{ErrorCode::corrupt,
               findings.front().what + " (id " + std::to_string(findings.front().id) + ")",
               pool_.path(), "restore the pool from a copy"};
}

}  // namespace perdure::engine
