#include "engine/document/scan.h"

#include <algorithm>

namespace perdure::engine {
namespace {

/// Of documents in one piece, about.
constexpr std::size_t piece_bytes = 4U << 20;

}  // namespace

Answer<Done> Scan::next(std::size_t most, std::vector<DocumentStore::Found>& out) {
  if (is_done()) return Done{};
  found_.clear();
  {
    const Catalog::View view(catalog_);
    if (!is_valid(view))
      return {Code::operation_failed, "the collection or the index was dropped during the query"};
    if (plan_.index)
      read_entries(limited(most));
    else if (plan_.is_points)
      read_points(limited(most));
    else
      read_documents(limited(most));
  }
  std::size_t bytes = 0;
  for (DocumentStore::Found& one : found_) {
    bytes += one.document.size();
    if (!filter_.is_empty()) {
      const Answer<bool> matched = filter_.matches(one.document);
      if (!matched) return matched.failure();
      if (!*matched) continue;
    }
    out.push_back(std::move(one));
  }
  if (!found_.empty()) mean_bytes_ = std::max<std::size_t>(bytes / found_.size(), 1);
  return Done{};
}

std::size_t Scan::limited(std::size_t most) const noexcept {
  return std::clamp<std::size_t>(std::min(most, piece_bytes / mean_bytes_), 1, most_in_piece);
}

bool Scan::is_valid(const Catalog::View& view) const {
  const CollectionInfo* collection = view.find(plan_.collection);
  if (collection == nullptr || collection->dropping) return false;
  if (!plan_.index) return true;
  return std::ranges::any_of(collection->indexes, [&](const IndexInfo& index) {
    return index.number == plan_.index->number && index.state == IndexInfo::State::ready &&
           index.path.text() == plan_.index->path.text();
  });
}

void Scan::go_on(std::string next) {
  if (next.empty() && ++range_ < plan_.ranges.size()) next = plan_.ranges[range_].from;
  from_ = std::move(next);
}

void Scan::read_points(std::size_t most) {
  for (; most > 0 && !is_done(); --most) {
    DocumentStore::Found one{from_, {}};
    const Status status = store_.lookup(one.key, one.document);
    if (status == Status::ok) found_.push_back(std::move(one));
    if (status == Status::corrupt) ++corrupt_;
    go_on({});
  }
}

void Scan::read_documents(std::size_t most) {
  std::string next;
  store_.scan(from_, plan_.ranges[range_].to, most, found_, next, corrupt_);
  go_on(std::move(next));
}

void Scan::read_entries(std::size_t most) {
  std::vector<DocumentStore::Entry> entries;
  std::string next;
  store_.scan_entries(from_, plan_.ranges[range_].to, most, entries, next);
  for (const DocumentStore::Entry& entry : entries) {
    DocumentStore::Found one;
    const Status status = store_.read(entry.id, one.key, one.document);
    if (status == Status::corrupt) ++corrupt_;
    if (status != Status::ok || collection_of(one.key) != plan_.collection) continue;
    if (is_first_entry(entry.entry, one.document)) found_.push_back(std::move(one));
  }
  go_on(std::move(next));
}

bool Scan::is_first_entry(std::string_view entry, std::string_view document) {
  bool through_array = false;
  if (index_values(plan_.index->path, document, values_, through_array) != Indexable::yes)
    return false;
  const std::string prefix = index_prefix(plan_.collection, plan_.index->number);
  for (const std::string& value : values_) {
    const std::string candidate = prefix + value;
    if (std::ranges::any_of(plan_.ranges,
                            [&](const KeyRange& range) { return range.contains(candidate); }))
      return candidate == entry;
  }
  return false;
}

}  // namespace perdure::engine
