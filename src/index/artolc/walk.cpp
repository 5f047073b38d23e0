// Walks of ArtOlc in key order: scan and size.
#include "index/artolc/artolc.h"

namespace perdure {

// Puts a frame for the node at `at` (level: before its prefix), unless all below lies before the
// walk's start. False: something changed.
template <class Keys>
bool ArtOlc<Keys>::open(std::vector<Frame>& frames, Position at, const Path& from, bool bounded,
                        bool after) {
  Frame frame{at};
  if (bounded) {
    Fork fork;
    if (!compare_prefix(at, from, fork)) return false;
    const unsigned level = at.level + fork.common;
    if (fork.differs) {
      if (level < from.size() && fork.byte < from[level]) return true;
    } else if (level == from.size()) {
      frame.next = after ? 1 : 0;
    } else {
      frame.at.level = level;
      frame.next = from[level] + 1U;
      frame.bounded = true;
    }
  }
  frames.push_back(frame);
  return true;
}

template <class Keys>
template <class Visit>
bool ArtOlc<Keys>::walk(const Position& root, Key from, bool after, std::vector<Frame>& frames,
                        Visit&& visit) {
  const Path path(from);
  frames.clear();
  if (!open(frames, root, path, true, after)) return false;
  while (!frames.empty()) {
    Frame& frame = frames.back();
    const Node& node = *frame.at.node;
    Child child = art::no_child;
    bool bounded = false;
    bool ended = false;
    if (frame.next == 0) {
      child = node.here.load(std::memory_order_acquire);
      frame.next = 1;
    } else {
      const unsigned byte = node.next_byte(frame.next - 1);
      ended = byte == Node::no_byte;
      if (!ended) child = node.find(static_cast<std::uint8_t>(byte));
      bounded = frame.bounded && !ended && byte == path[frame.at.level];
      frame.next = byte + 2;
    }
    if (!frame.at.holds()) return false;
    if (ended) {
      frames.pop_back();
    } else if (art::is_record(child)) {
      const TrieRecord& record = *record_of(child);
      if (bounded && (record.key() < from || (after && record.key() == from))) continue;
      if (!visit(record)) return true;
    } else if (child != art::no_child) {
      Position below = frame.at;
      if (!enter(below, child) || !open(frames, below, path, bounded, after)) return false;
    }
  }
  return true;
}

template <class Keys>
template <class Visit>
void ArtOlc<Keys>::walk_from(Key from, Visit&& visit) const {
  constexpr std::size_t usual_depth = 16;
  const Epochs::Guard guard(epochs_);
  std::vector<Frame> frames;
  frames.reserve(usual_depth);
  const TrieRecord* last = nullptr;  // pinned: it stays readable when it is taken out
  const auto note = [&](const TrieRecord& record) {
    last = &record;
    return visit(record);
  };
  for (pm::Backoff backoff;; backoff.wait())
    if (walk(start(), last == nullptr ? from : last->key(), last != nullptr, frames, note)) return;
}

template <class Keys>
std::size_t ArtOlc<Keys>::scan(Key from, std::size_t count, Scan& out) {
  out.clear();
  if (count == 0) return 0;
  walk_from(from, [&](const TrieRecord& record) {
    out.append(record.key(), value_of(record));
    return out.size() < count;
  });
  return out.size();
}

template <class Keys>
std::uint64_t ArtOlc<Keys>::size() const {
  std::uint64_t records = 0;
  walk_from(Key{}, [&](const TrieRecord&) {
    ++records;
    return true;
  });
  return records;
}

template std::size_t ArtOlc<IntegerKeys>::scan(Key, std::size_t, Scan&);
template std::size_t ArtOlc<ByteKeys>::scan(Key, std::size_t, Scan&);
template std::uint64_t ArtOlc<IntegerKeys>::size() const;
template std::uint64_t ArtOlc<ByteKeys>::size() const;

}  // namespace perdure
