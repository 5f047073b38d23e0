#include "engine/document/sort.h"

#include <algorithm>

namespace perdure::engine {

Answer<Sort> Sort::parse(std::string_view document) {
  Sort sort;
  bson_iter_t entry = fields_of(document);
  while (bson_iter_next(&entry)) {
    std::int64_t direction = 0;
    if (!as_whole(entry, direction) || (direction != 1 && direction != -1))
      return {Code::bad_value,
              "the sort order of '" + std::string(name_of(entry)) + "' must be 1 or -1"};
    Answer<FieldPath> path = FieldPath::parse(name_of(entry));
    if (!path) return path.failure();
    sort.fields_.push_back({std::move(*path), direction < 0});
  }
  return sort;
}

Answer<std::string> Sort::key_of(std::string_view document) const {
  std::string key;
  std::string candidate;
  for (const Field& field : fields_) {
    std::string best;
    bool has_decimal = false;
    field.path.walk(document, [&](const Reached& reached) {
      candidate.clear();
      if (reached.is_whole_array) {
        if (!best.empty()) return true;
        candidate += static_cast<char>(Rank::undefined);  // an empty array is less than null
      } else if (reached.value == nullptr) {
        encode_missing(candidate);
      } else if (!encode(*reached.value, candidate)) {
        has_decimal = true;
        return false;
      }
      if (best.empty() || (field.descends ? candidate > best : candidate < best)) best = candidate;
      return true;
    });
    if (has_decimal)
      return {Code::unsupported_format, "sorting by values of type Decimal128 is not supported"};
    if (best.empty()) encode_missing(best);
    if (field.descends)
      for (char& byte : best) byte = static_cast<char>(~byte);
    key += best;
  }
  return key;
}

Answer<Done> Sorter::add(std::string document) {
  Answer<std::string> key = sort_.key_of(document);
  if (!key) return key.failure();
  Item item{std::move(*key), count_++, std::move(document)};
  const bool is_full = most_ != 0 && items_.size() == most_;
  if (is_full && !(item < items_.front())) return Done{};
  bytes_ += item.bytes();
  if (is_full) {
    std::ranges::pop_heap(items_, std::less<>());
    bytes_ -= items_.back().bytes();
    items_.pop_back();
  }
  items_.push_back(std::move(item));
  if (most_ != 0) std::ranges::push_heap(items_, std::less<>());
  if (bytes_ > max_bytes)
    return {Code::query_exceeded_memory_limit,
            "sorting takes more than " + std::to_string(max_bytes) +
                " bytes of memory; sort by an indexed field, or limit the results"};
  return Done{};
}

std::vector<std::string> Sorter::take() {
  std::ranges::sort(items_, std::less<>());
  std::vector<std::string> documents;
  documents.reserve(items_.size());
  for (Item& item : items_) documents.push_back(std::move(item.document));
  items_.clear();
  return documents;
}

}  // namespace perdure::engine
