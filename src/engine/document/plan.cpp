#include "engine/document/plan.h"

#include <algorithm>

namespace perdure::engine {
namespace {

using Kind = Filter::Kind;

/// Ranges of encoded values, and how good they are to search by.
struct Restriction {
  enum class Quality : std::uint8_t { none, range, list, point };
  Quality quality = Quality::none;
  std::vector<KeyRange> ranges;
};

std::string tag_of(Rank rank) { return std::string(1, static_cast<char>(rank)); }

/// Null, undefined and missing match each other.
KeyRange range_of_nothing() { return {tag_of(Rank::undefined), end_of_prefix(tag_of(Rank::null))}; }

/// False: no index can tell.
bool range_of_equal(const bson_iter_t& operand, KeyRange& range) {
  const Rank rank = rank_of(bson_iter_type(&operand));
  if (rank == Rank::null) {
    range = range_of_nothing();
    return true;
  }
  std::string value;
  if (!encode(operand, value)) return false;
  range = range_of_prefix(std::move(value));
  return true;
}

/// Values that may be greater, or less. False: all, or no index can tell.
bool range_of_order(Kind kind, const bson_iter_t& operand, KeyRange& range) {
  const Rank rank = rank_of(bson_iter_type(&operand));
  const bool is_lower = kind == Kind::greater || kind == Kind::greater_or_equal;
  if (rank == (is_lower ? Rank::min_key : Rank::max_key)) return false;
  if (rank == Rank::null) {
    range = range_of_nothing();
    return true;
  }
  std::string value;
  if (!encode(operand, value)) return false;
  range = range_of_prefix(tag_of(rank));
  switch (kind) {
    case Kind::greater:
      range.from = end_of_prefix(std::move(value));
      break;
    case Kind::greater_or_equal:
      range.from = std::move(value);
      break;
    case Kind::less:
      range.to = std::move(value);
      break;
    default:
      range.to = end_of_prefix(std::move(value));
      break;
  }
  return true;
}

bool is_order(Kind kind) noexcept {
  return kind == Kind::greater || kind == Kind::greater_or_equal || kind == Kind::less ||
         kind == Kind::less_or_equal;
}

Restriction restriction_of(const Filter::Node& node) {
  Restriction found;
  KeyRange range;
  if (node.kind == Kind::equal && range_of_equal(node.operands.front().at, range)) {
    found = {Restriction::Quality::point, {std::move(range)}};
  } else if (node.kind == Kind::one_of) {
    found.quality = Restriction::Quality::list;
    for (const Value& operand : node.operands) {
      if (!range_of_equal(operand.at, range)) return {};
      found.ranges.push_back(range);
    }
    std::ranges::sort(found.ranges, {}, &KeyRange::from);
    const auto same = std::ranges::unique(found.ranges, {}, &KeyRange::from);
    found.ranges.erase(same.begin(), same.end());
  } else if (is_order(node.kind) && range_of_order(node.kind, node.operands.front().at, range)) {
    found = {Restriction::Quality::range, {std::move(range)}};
  }
  return found;
}

/// What the filter says of `path`. Where a document has one value there, all bounds hold for it;
/// of several values each may satisfy another bound, so one is taken.
Restriction restriction_on(const Filter& filter, const std::string& path, bool has_one_value) {
  Restriction best;
  for (const Filter::Node& node : filter.conditions()) {
    if (node.path.text() != path) continue;
    Restriction one = restriction_of(node);
    const bool joins = has_one_value && one.quality == Restriction::Quality::range &&
                       best.quality == Restriction::Quality::range;
    if (joins) {
      KeyRange& range = best.ranges.front();
      range.from = std::max(range.from, one.ranges.front().from);
      range.to = std::min(range.to, one.ranges.front().to);
    } else if (one.quality > best.quality) {
      best = std::move(one);
    }
  }
  std::erase_if(best.ranges, [](const KeyRange& range) { return range.from >= range.to; });
  return best;
}

std::vector<KeyRange> with_prefix(std::vector<KeyRange> ranges, const std::string& prefix) {
  for (KeyRange& range : ranges) range = {prefix + range.from, prefix + range.to};
  return ranges;
}

bool is_multikey(DocumentStore& store, const std::string& prefix) {
  const KeyRange arrays = range_of_prefix(prefix + tag_of(Rank::array));
  std::vector<DocumentStore::Entry> found;
  std::string next;
  store.scan_entries(arrays.from, arrays.to, 1, found, next);
  return !found.empty();
}

class Planner {
 public:
  Planner(DocumentStore& store, const CollectionInfo& collection, const Filter& filter,
          const Sort& sort)
      : store_(store), collection_(collection), filter_(filter), sort_(sort) {}

  Plan plan() {
    best_.collection = collection_.id;
    consider_ids();
    for (const IndexInfo& index : collection_.indexes)
      if (index.state == IndexInfo::State::ready && quality_ < Restriction::Quality::point)
        consider(index);
    if (quality_ == Restriction::Quality::none && !best_.is_sorted) consider_order();
    return std::move(best_);
  }

 private:
  void consider_ids() {
    Restriction found = restriction_on(filter_, "_id", true);
    const std::string prefix = collection_prefix(collection_.id);
    quality_ = found.quality;
    best_.is_points = quality_ >= Restriction::Quality::list && !holds_nothing(found);
    best_.ranges = quality_ == Restriction::Quality::none
                       ? std::vector<KeyRange>{range_of_prefix(prefix)}
                       : with_prefix(std::move(found.ranges), prefix);
    best_.is_sorted =
        sort_.is_empty() || ascends_by("_id") || quality_ == Restriction::Quality::point;
  }

  /// The range of null has several keys.
  static bool holds_nothing(const Restriction& found) {
    return std::ranges::any_of(found.ranges, [](const KeyRange& range) {
      return range.from.front() == static_cast<char>(Rank::undefined);
    });
  }

  void consider(const IndexInfo& index) {
    const std::string prefix = index_prefix(collection_.id, index.number);
    Restriction found = restriction_on(filter_, index.path.text(), false);
    if (found.quality <= quality_) return;
    const bool is_one_value =
        found.quality != Restriction::Quality::point && !is_multikey(store_, prefix);
    if (is_one_value) found = restriction_on(filter_, index.path.text(), true);
    quality_ = found.quality;
    best_.index = index;
    best_.is_points = false;
    best_.ranges = with_prefix(std::move(found.ranges), prefix);
    best_.is_sorted = sort_.is_empty() || (is_one_value && ascends_by(index.path.text()));
  }

  void consider_order() {
    for (const IndexInfo& index : collection_.indexes) {
      const std::string prefix = index_prefix(collection_.id, index.number);
      if (index.state != IndexInfo::State::ready || !ascends_by(index.path.text()) ||
          is_multikey(store_, prefix))
        continue;
      best_.index = index;
      best_.ranges = {range_of_prefix(prefix)};
      best_.is_sorted = true;
      return;
    }
  }

  /// An index on this field gives the order. Fields after _id have no say.
  [[nodiscard]] bool ascends_by(std::string_view path) const {
    return !sort_.is_empty() && !sort_.fields().front().descends &&
           sort_.fields().front().path.text() == path &&
           (sort_.fields().size() == 1 || path == "_id");
  }

  DocumentStore& store_;
  const CollectionInfo& collection_;
  const Filter& filter_;
  const Sort& sort_;
  Restriction::Quality quality_ = Restriction::Quality::none;
  Plan best_;
};

}  // namespace

Plan make_plan(DocumentStore& store, const CollectionInfo& collection, const Filter& filter,
               const Sort& sort) {
  return Planner(store, collection, filter, sort).plan();
}

}  // namespace perdure::engine
