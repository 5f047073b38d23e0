#include "structure/graph/edge_log.h"

#include <string>
#include <utility>

#include "core/assert.h"
#include "structure/base/modes.h"

namespace perdure::structure {

template <class Memory>
void EdgeLog<Memory>::prepare(Creation&, const IndexOptions& options) {
  this->top().newest = this->memory_.template null<Chunk>();
  this->top().spare = this->memory_.template null<Chunk>();
  chunk_entries_ = options.get("chunk_entries");
  index_ = EdgeIndex<Where>(options.get("records"), this->huge_pages_);
}

template <class Memory>
bool EdgeLog<Memory>::reopen(Walk<Memory>&, std::uint64_t chunk_entries) noexcept {
  chunk_entries_ = chunk_entries;
  return chunk_entries >= least_entries && chunk_entries <= most_entries;
}

template <class Memory>
void EdgeLog<Memory>::clear(Creation& creation) {
  creation.link(this->top().newest, this->memory_.template null<Chunk>());
  creation.link(this->top().spare, this->memory_.template null<Chunk>());
}

template <class Memory>
template <class Visit>
std::size_t EdgeLog<Memory>::read_entries(Chunk& chunk, Visit&& visit) const {
  std::size_t position = 0;
  while (position <= capacity()) {
    Entry* const entry = entry_at(chunk, position);
    if (entry->mark == 0) return position;
    if (!entry->is_sound() || position + entry->bytes() > capacity()) break;
    position += entry->bytes();
    visit(*entry);
  }
  return capacity() + 1;
}

template <class Memory>
Result<void> EdgeLog<Memory>::walk(Walk<Memory>& walk) {
  if constexpr (Memory::recovers)
    if (walk.recovers()) return rebuild(walk);
  return std::as_const(*this).walk(walk);
}

template <class Memory>
Result<void> EdgeLog<Memory>::walk(Walk<Memory>& walk) const {
  Number number = newest_;
  std::size_t in_rings = 0;
  for (Ref<Chunk> ref = this->top().newest; ref;) {
    Chunk* const chunk = walk.template enter<Chunk>(ref, chunk_bytes());
    if (chunk == nullptr) return corrupt("E1: a link leads to no chunk of its own");
    if (number == none || segments_[number].chunk != chunk)
      return corrupt("E6: the chunks of the log are not those that DRAM knows");
    bool known = true;
    std::size_t live_bytes = 0;
    const std::size_t end = read_entries(*chunk, [&](const Entry& entry) {
      if (entry.state() != Entry::live) return;
      known = known && find(entry.edge) == &entry;
      if (!known) return;
      live_bytes += entry.bytes();
      in_rings += index_.ring_entered_at(entry.edge);
      walk.count_record();
    });
    if (end > capacity() || (number == newest_ && end != tail_))
      return corrupt("E2: a chunk does not end where it should");
    if (!known || live_bytes != segments_[number].live_bytes)
      return corrupt("E6: DRAM knows other live entries than the log has");
    number = segments_[number].older;
    ref = chunk->older;
  }
  if (this->top().spare && walk.template enter<Chunk>(this->top().spare, chunk_bytes()) == nullptr)
    return corrupt("E4: the spare is no chunk of its own");
  if (number != none || walk.records() != index_.size())
    return corrupt("E6: DRAM knows what the log has not");
  if (in_rings != index_.size()) return corrupt("X1: an edge is not in the ring of its source");
  return {};
}

/// From the newest chunk to the oldest, so that of two entries the first that is met counts, but
/// for two in one chunk.
template <class Memory>
Result<void> EdgeLog<Memory>::rebuild(Walk<Memory>& walk) {
  index_ = EdgeIndex<Where>(0, this->huge_pages_);
  Creation creation(this->memory_);
  auto& top = this->top();
  if (top.spare == top.newest) creation.link(top.spare, this->memory_.template null<Chunk>());
  bool met_spare = !top.spare;
  std::vector<Entry*> stale;
  for (Ref<Chunk>* link = &top.newest; *link;) {
    Chunk* const chunk = walk.template enter<Chunk>(*link, chunk_bytes());
    if (chunk == nullptr) return corrupt("E1: a link leads to no chunk of its own");
    if (*link == top.spare) {  // E4
      met_spare = true;
      creation.link(*link, chunk->older);
      continue;
    }
    if (!read_in(*chunk, walk, stale)) return corrupt("E2: a chunk is damaged");
    link = &chunk->older;
  }
  if (!met_spare && walk.template enter<Chunk>(top.spare, chunk_bytes()) == nullptr)
    return corrupt("E4: the spare is no chunk of its own");
  for (Entry* const entry : stale)  // E3
    creation.set(entry->mark, Entry::mark_of(entry->value().size(), Entry::dead));
  complete_spare(creation);
  return {};
}

/// Adds a chunk older than all so far. False: it is damaged.
template <class Memory>
bool EdgeLog<Memory>::read_in(Chunk& chunk, Walk<Memory>& walk, std::vector<Entry*>& stale) {
  const Number number = add_segment(&chunk, oldest_, none);
  const std::size_t end = read_entries(chunk, [&](Entry& entry) {
    if (entry.state() != Entry::live) return;
    Where* const known = index_.find(entry.edge);
    if (known != nullptr && known->segment != number) {
      stale.push_back(&entry);
      return;
    }
    if (known != nullptr) {
      stale.push_back(known->entry);
      segments_[number].live_bytes -= static_cast<std::uint32_t>(known->entry->bytes());
      known->entry = &entry;
    } else {
      index_.add(entry.edge, {&entry, number});
      walk.count_record();
    }
    segments_[number].live_bytes += static_cast<std::uint32_t>(entry.bytes());
  });
  if (number == newest_) tail_ = end;
  return end <= capacity();
}

/// A compaction that was cut off before it named the emptied chunk has left the log without a
/// spare, and that chunk in the log (E4).
template <class Memory>
void EdgeLog<Memory>::complete_spare(Creation& creation) {
  if (this->top().spare) return;
  for (Number number = 0; number < segments_.size(); ++number) {
    if (number == newest_ || segments_[number].live_bytes != 0) continue;
    Chunk* const chunk = segments_[number].chunk;
    creation.link(this->top().spare, this->memory_.ref(chunk));
    creation.link(link_to(number), chunk->older);
    return remove_segment(number);
  }
}

template <class Memory>
std::size_t EdgeLog<Memory>::neighbours(Vertex source, SlotScan& out) {
  return this->read([&] {
    index_.visit_edges_of(source, [&](std::uint64_t edge, const Where& where) {
      out.append(edge, where.entry->value());
    });
    return out.size();
  });
}

template <class Memory>
Effect EdgeLog<Memory>::put(Change& change, std::uint64_t key, std::string_view value, Put how) {
  const bool present = index_.find(key) != nullptr;
  if (present && how == Put::insert) return Effect::exists;
  if (!present && how == Put::update) return Effect::not_found;
  const std::size_t bytes = Entry::bytes_with(value.size());
  if (newest_ == none || tail_ + bytes > capacity()) make_room(bytes);
  Where* const found = index_.find(key);
  Entry* const entry = append(change, key, value);
  if (found != nullptr) {
    const Where old = *found;
    const std::size_t old_bytes = old.entry->bytes();
    retire(change, old);  // E3
    forget(old.segment, old_bytes);
    *found = {entry, newest_};
  } else {
    index_.add(key, {entry, newest_});
  }
  // Only here, where nothing can find no room any more.
  tail_ += bytes;
  segments_[newest_].live_bytes += static_cast<std::uint32_t>(bytes);
  return found != nullptr ? Effect::replaced : Effect::added;
}

template <class Memory>
Effect EdgeLog<Memory>::take(Change& change, std::uint64_t key) {
  const Where* const found = index_.find(key);
  if (found == nullptr) return Effect::not_found;
  const Where old = *found;
  const std::size_t bytes = old.entry->bytes();
  retire(change, old);
  forget(old.segment, bytes);
  index_.remove(key);
  return Effect::removed;
}

/// Cost, pmem-persist: the entry's lines, 2 fences.
template <class Memory>
auto EdgeLog<Memory>::append(Change& change, std::uint64_t key, std::string_view value) -> Entry* {
  const std::size_t bytes = Entry::bytes_with(value.size());
  Entry* const entry = entry_at(*segments_[newest_].chunk, tail_);
  Entry* const end = entry_at(*segments_[newest_].chunk, tail_ + bytes);
  change.fill(&entry->edge, bytes, [&] {  // from after the mark up to the end's
    entry->edge = key;
    if (!value.empty()) std::memcpy(entry->text(), value.data(), value.size());
    end->mark = 0;
  });
  change.set(entry->mark, Entry::mark_of(value.size(), Entry::live));  // E2
  return entry;
}

template <class Memory>
void EdgeLog<Memory>::retire(Change& change, const Where& where) {
  const Segment& segment = segments_[where.segment];
  Entry& entry = *where.entry;
  if (where.segment == newest_ || segment.live_bytes > entry.bytes()) {
    change.set(entry.mark, Entry::mark_of(entry.value().size(), Entry::dead));
  } else {
    change.link(link_to(where.segment), segment.chunk->older);
    change.drop(segment.chunk, chunk_bytes());
  }
}

template <class Memory>
void EdgeLog<Memory>::forget(Number number, std::size_t bytes) {
  segments_[number].live_bytes -= static_cast<std::uint32_t>(bytes);
  if (number != newest_ && segments_[number].live_bytes == 0) remove_segment(number);
}

/// A chunk to append `bytes` to, before the operation itself begins to change anything.
template <class Memory>
void EdgeLog<Memory>::make_room(std::size_t bytes) {
  const Number sparse = sparsest();
  const bool compacts = sparse != none && this->top().spare;
  if (compacts && segments_[sparse].live_bytes <= capacity() / 2) return compact(sparse);
  try {
    return grow();
  } catch (const NoRoom&) {
    if (!compacts || segments_[sparse].live_bytes + bytes > capacity()) throw;
  }
  compact(sparse);
}

/// Power-cut states: no new chunk; one, without a spare where there was none; both.
template <class Memory>
void EdgeLog<Memory>::grow() {
  Change change(this->memory_);
  auto& top = this->top();
  auto* const fresh = change.template make<Chunk>(chunk_bytes());
  fresh->older = top.newest;
  entry_at(*fresh, 0)->mark = 0;
  Chunk* const spare = top.spare ? nullptr : change.template make<Chunk>(chunk_bytes());
  if (spare != nullptr) spare->older = this->memory_.template null<Chunk>();  // R1
  change.link(top.newest, this->memory_.ref(fresh));
  if (spare != nullptr) change.link(top.spare, this->memory_.ref(spare));
  change.commit();
  static_cast<void>(add_segment(fresh, none, newest_));
  tail_ = 0;
}

/// Cost: what is alive in the victim is written again, at most half a chunk where there is room for
/// another.
template <class Memory>
void EdgeLog<Memory>::compact(Number victim) {
  Change change(this->memory_);
  auto& top = this->top();
  Chunk& old = *segments_[victim].chunk;
  Chunk& fresh = *at(top.spare);
  const std::size_t live_bytes = segments_[victim].live_bytes;
  change.fill(&fresh, sizeof(Chunk) + live_bytes + sizeof(Entry::mark), [&] {
    fresh.older = top.newest;
    std::size_t end = 0;
    read_entries(old, [&](const Entry& entry) {
      if (entry.state() != Entry::live) return;
      std::memcpy(entry_at(fresh, end), &entry, entry.bytes());
      end += entry.bytes();
    });
    PERDURE_ASSERT(end == live_bytes);
    entry_at(fresh, end)->mark = 0;
  });
  change.link(top.newest, this->memory_.ref(&fresh));  // E4
  change.link(top.spare, this->memory_.ref(&old));
  change.link(victim == newest_ ? fresh.older : link_to(victim), old.older);
  change.commit();
  const Number number = add_segment(&fresh, none, newest_);
  segments_[number].live_bytes = static_cast<std::uint32_t>(live_bytes);
  tail_ = live_bytes;
  read_entries(fresh, [&](Entry& entry) { *index_.find(entry.edge) = {&entry, number}; });
  remove_segment(victim);
}

template <class Memory>
auto EdgeLog<Memory>::sparsest() const noexcept -> Number {
  Number least = none;
  for (Number number = 0; number < segments_.size(); ++number)
    if (segments_[number].chunk != nullptr &&
        (least == none || segments_[number].live_bytes < segments_[least].live_bytes))
      least = number;
  return least;
}

template <class Memory>
auto EdgeLog<Memory>::add_segment(Chunk* chunk, Number newer, Number older) -> Number {
  if (free_numbers_.empty()) {
    free_numbers_.push_back(static_cast<Number>(segments_.size()));
    segments_.emplace_back();
  }
  const Number number = free_numbers_.back();
  free_numbers_.pop_back();
  segments_[number] = {chunk, 0, newer, older};
  (newer == none ? newest_ : segments_[newer].older) = number;
  (older == none ? oldest_ : segments_[older].newer) = number;
  return number;
}

template <class Memory>
void EdgeLog<Memory>::remove_segment(Number number) {
  const auto [chunk, live_bytes, newer, older] = segments_[number];
  (newer == none ? newest_ : segments_[newer].older) = older;
  (older == none ? oldest_ : segments_[older].newer) = newer;
  segments_[number].chunk = nullptr;
  free_numbers_.push_back(number);
}

namespace {

PERDURE_REGISTER_INDEX(
    graph_log,
    IndexInfo{.name = "graph_log",
              .title = "Graph: a log of edges with a DRAM index (Islam et al., MSST 2020)",
              .ordered = false,
              .options = options({records_option("edges of the index, to begin with"),
                                  {.name = "chunk_entries",
                                   .description = "edges of the longest kind that a chunk takes",
                                   .fallback = 480,
                                   .least = EdgeLog<VolatileMemory>::least_entries,
                                   .most = EdgeLog<VolatileMemory>::most_entries}}),
              .modes = modes<Family<EdgeLog>>(Tearing::nothing)});

}  // namespace
}  // namespace perdure::structure
