#include <algorithm>
#include <deque>

#include "engine/document/parts.h"
#include "engine/document/projection.h"
#include "engine/document/scan.h"

namespace perdure::engine {
namespace {

constexpr std::uint64_t no_limit = ~std::uint64_t{0};

struct Query {
  Filter filter;
  Projection projection;
  Sort sort;
};

template <class Part>
Answer<Done> parse_part(std::string_view document, Part& part) {
  if (document.empty()) return Done{};
  if (Answer<Done> checked = check_document(document); !checked) return checked;
  Answer<Part> parsed = Part::parse(document);
  if (!parsed) return parsed.failure();
  part = std::move(*parsed);
  return Done{};
}

Answer<Query> parse_query(const FindOptions& options) {
  Query query;
  if (Answer<Done> done = parse_part(options.filter, query.filter); !done) return done.failure();
  if (Answer<Done> done = parse_part(options.projection, query.projection); !done)
    return done.failure();
  if (Answer<Done> done = parse_part(options.sort, query.sort); !done) return done.failure();
  return query;
}

}  // namespace

struct Cursor::State {
  std::optional<Scan> scan{};  ///< none: the collection does not exist
  std::string collection{};
  bool skips_damaged = false;
  Projection projection{};
  std::optional<Sorter> sorter{};  ///< until all is read
  std::deque<std::string> ready{};
  std::uint64_t skip = 0;
  std::uint64_t left = no_limit;  ///< of the limit
  std::size_t piece = 1;          ///< grows while the filter rejects most

  [[nodiscard]] bool reads_on() const noexcept { return scan && !scan->is_done() && left > 0; }
  /// A damaged document was met, which must be said: an answer without it would be a wrong one.
  [[nodiscard]] bool must_fail() const noexcept {
    return scan && scan->corrupt() != 0 && !skips_damaged;
  }

  /// Makes more documents ready, or comes to the end.
  Answer<Done> read() {
    const std::uint64_t wanted = left > no_limit - skip ? no_limit : left + skip;
    piece = static_cast<std::size_t>(
        std::min<std::uint64_t>(sorter ? no_limit : wanted, Scan::most_in_piece));
    std::vector<DocumentStore::Found> found;
    while (reads_on() && ready.empty()) {
      found.clear();
      if (Answer<Done> read = scan->next(piece, found); !read) return read;
      piece = std::min(2 * piece, Scan::most_in_piece);
      for (DocumentStore::Found& one : found) {
        if (!sorter) {
          add(std::move(one.document));
        } else if (Answer<Done> added = sorter->add(std::move(one.document)); !added) {
          return added;
        }
      }
      if (!sorter || !scan->is_done()) continue;
      for (std::string& document : sorter->take()) add(std::move(document));
      sorter.reset();
    }
    return Done{};
  }

  void add(std::string document) {
    if (skip > 0) {
      --skip;
    } else if (left > 0) {
      if (left != no_limit) --left;
      ready.push_back(std::move(document));
    }
  }
};

Cursor::Cursor(std::unique_ptr<State> state) : state_(std::move(state)) {}
Cursor::Cursor(Cursor&&) noexcept = default;
Cursor& Cursor::operator=(Cursor&&) noexcept = default;
Cursor::~Cursor() = default;

Answer<std::vector<std::string>> Cursor::next_batch(std::size_t most_documents,
                                                    std::size_t most_bytes) {
  std::vector<std::string> batch;
  std::size_t bytes = 0;
  std::string projected;
  while (batch.size() < most_documents) {
    if (state_->ready.empty())
      if (Answer<Done> read = state_->read(); !read) return read.failure();
    if (state_->ready.empty()) break;
    std::string& document = state_->ready.front();
    if (!batch.empty() && bytes + document.size() > most_bytes) break;
    if (!state_->projection.wants_all()) {
      state_->projection.apply(document, projected);
      document = projected;
    }
    bytes += document.size();
    batch.push_back(std::move(document));
    state_->ready.pop_front();
  }
  const bool is_at_end = state_->ready.empty() && !state_->reads_on();
  const bool is_last_chance = batch.empty() ? most_documents != 0 : state_->left == 0;
  if (is_at_end && is_last_chance)
    if (Answer<Done> whole = check_whole(); !whole) return whole.failure();
  return batch;
}

Answer<std::optional<std::string>> Cursor::next() {
  Answer<std::vector<std::string>> batch = next_batch(1, 0);
  if (!batch) return batch.failure();
  return batch->empty() ? std::optional<std::string>() : std::optional(std::move(batch->front()));
}

bool Cursor::is_exhausted() const noexcept {
  return state_->ready.empty() && !state_->reads_on() && !state_->must_fail();
}

std::uint64_t Cursor::corrupt() const noexcept {
  return state_->scan ? state_->scan->corrupt() : 0;
}

Answer<Done> Cursor::check_whole() const {
  if (state_->must_fail()) return failure_of(Status::corrupt, state_->collection);
  return Done{};
}

Answer<Cursor> Collection::find(const FindOptions& options) {
  Answer<Query> query = parse_query(options);
  if (!query) return query.failure();
  Engine::Parts& parts = engine_->parts();
  auto state = std::make_unique<Cursor::State>();
  state->collection = name_;
  state->skips_damaged = options.skips_damaged;
  state->projection = std::move(query->projection);
  state->skip = options.skip;
  state->left = options.limit != 0 ? options.limit : no_limit;
  const Catalog::View view(parts.catalog);
  if (const CollectionInfo* collection = view.find(name_)) {
    Plan plan = make_plan(*parts.store, *collection, query->filter, query->sort);
    if (!plan.is_sorted) {
      const bool is_bounded = options.limit != 0 && options.skip < no_limit - options.limit;
      state->sorter.emplace(query->sort, is_bounded ? options.skip + options.limit : 0);
    }
    state->scan.emplace(*parts.store, parts.catalog, std::move(plan), std::move(query->filter));
  }
  return Cursor(std::move(state));
}

Answer<std::uint64_t> Collection::count(std::string_view filter, std::uint64_t skip,
                                        std::uint64_t limit) {
  Filter parsed;
  if (Answer<Done> done = parse_part(filter, parsed); !done) return done.failure();
  const std::uint64_t most = limit == 0 || limit > no_limit - skip ? no_limit : limit + skip;
  Engine::Parts& parts = engine_->parts();
  std::uint64_t count = 0;
  std::optional<Scan> scan;
  KeyRange keys;
  {
    const Catalog::View view(parts.catalog);
    const CollectionInfo* collection = view.find(name_);
    if (collection == nullptr) return count;
    keys = range_of_prefix(collection_prefix(collection->id));
    scan.emplace(*parts.store, parts.catalog, make_plan(*parts.store, *collection, parsed, Sort()),
                 parsed);
  }
  if (parsed.is_empty()) {
    std::vector<DocumentStore::Entry> entries;
    for (std::string from = keys.from, next; !from.empty() && count < most; from.swap(next)) {
      entries.clear();
      parts.store->scan_entries(from, keys.to, 1024, entries, next);
      count += entries.size();
    }
  } else {
    std::vector<DocumentStore::Found> found;
    while (!scan->is_done() && count < most) {
      found.clear();
      if (Answer<Done> read = scan->next(Scan::most_in_piece, found); !read) return read.failure();
      count += found.size();
    }
    if (scan->corrupt() != 0) return failure_of(Status::corrupt, name_);
  }
  count = std::min(count, most);
  return count > skip ? count - skip : 0;
}

}  // namespace perdure::engine
