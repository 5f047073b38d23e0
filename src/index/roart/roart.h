// Roart: an adaptive radix tree on media whose small sub-trees are leaf arrays. Readers never lock
// and never wait; writers lock what they change (ROWEX). Source: Ma et al., "ROART: Range-query
// Optimized Persistent ART", FAST 2021; see design.md for every deviation.
//
// On media: the root block leads to the root, a node with one entry, and that to everything else
// (node.h, leaf_array.h, records.h). Numbered invariants: node.h N1-N4, leaf_array.h A1-A4, and
//
// T1  the root is at level 0 and never replaced. Every node has an entry.
// T2  what is below an entry has only symbols that the entry stands for. A power cut inside a split
//     may leave an array that has, besides, records of the entry added before it is replaced; one
//     inside a fork, a node below two entries side by side. Touching takes out what is too much.
// T3  a change of structure changes no record: all that was below an entry is so afterwards.
// T4  a writer takes the lock of a node, and looks again, before it changes an entry; that of an
//     array as well, before it replaces it. Locks are taken from the root downwards. What was
//     replaced is obsolete when its lock is released: whoever waited for it begins again.
// T5  before a writer changes an array, all entries on the way to it are durable: where it finds a
//     node locked after it has read an entry, it flushes the node itself.
// T6  memory that a thread may still read is freed only after a grace period.
//
// After an instant restart, until the walk has ended (restart.cpp):
// T7  a node or array is touched (judged, repaired, marked; its lock is of now then) before
//     anything of it is changed, before its entry gets another's range, and never before the node
//     above it. What a touched node or array leads to is marked in the heap.
// T8  nothing that was on media at the opening is overwritten by another block: what is left over
//     stays readable. The heap sweeps when all is touched and no reader from before is left.
// T9  once damage is found, every operation is refused.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/result.h"
#include "index/common/index_root.h"
#include "index/registry.h"
#include "index/roart/leaf_array.h"
#include "index/roart/node.h"
#include "index/roart/records.h"
#include "index/roart/restart.h"
#include "index/roart/restart_state.h"
#include "index/writable_index.h"
#include "pm/pm.h"
#include "pool/epoch.h"
#include "pool/pool.h"

namespace perdure {

/// Opens the private parts to tests.
template <class Keys>
class RoartPeer;

template <class Keys>
class Roart final : public WritableIndex<Roart<Keys>, Keys> {
 public:
  using Key = typename Keys::Key;
  using Value = typename Keys::Value;
  using ValueOut = typename Keys::ValueOut;
  using Record = typename Keys::Record;
  using Scan = typename Keys::Scan;

  static constexpr IndexRootKind root_kind{"roart", 2, Keys::kind};

  /// An empty tree. Errors: exists, out_of_space, usage.
  [[nodiscard]] static MadeIndex<Keys> create(const IndexPlace& place);
  /// From the pool alone: at once where the heap can serve before it has swept, with damage found
  /// later (T9); else after a walk. Errors: not_found, foreign, newer, corrupt.
  [[nodiscard]] static MadeIndex<Keys> recover(const IndexPlace& place);
  ~Roart() override;

  Outcome put(Key key, Value value, Put kind);
  Outcome remove(Key key) override;
  Outcome lookup(Key key, ValueOut& value) override;
  std::size_t scan(Key from, std::size_t count, Scan& out) override;
  Result<void> bulk_load(std::span<const Record> records) override;

  [[nodiscard]] std::uint64_t size() const override;
  [[nodiscard]] Result<void> check_invariants() const override;
  [[nodiscard]] std::uint64_t dram_bytes() const override {
    return sizeof *this + epochs_.retired_dram_bytes();
  }
  void quiesce() override {
    finish_walk();
    epochs_.drain();
  }

 private:
  friend class RoartPeer<Keys>;
  using Path = KeyPath<Keys>;
  using Entry = roart::Entry;
  using Kind = roart::Kind;
  using LeafArray = roart::LeafArray;
  using Node = roart::Node;
  using Slot = roart::Slot;

  /// Where a writer's key belongs: an entry that leads to a leaf array, or to a node whose path the
  /// key leaves.
  struct Place {
    Node* above = nullptr;  ///< of `node`; null at the root
    Node* node = nullptr;
    Entry entry;        ///< of `node`
    unsigned fork = 0;  ///< where the key leaves the path
    bool forks = false;
  };
  /// What a key is looked for with.
  struct Probe {
    Key key;
    std::uint16_t fingerprint;
    explicit Probe(Key wanted) : key(wanted), fingerprint(roart::slot_fingerprint(hash_of(key))) {}
  };

  Roart(const IndexPlace& place, const IndexRoot& root, std::uint32_t openings);

  /// A path of which the walk knows these bytes; nothing after them is looked at.
  [[nodiscard]] static Path path_of(std::string_view bytes) noexcept {
    const KeyPath<ByteKeys> known(bytes);
    if constexpr (Keys::kind == KeyKind::integer)
      return Path(known.word(0));
    else
      return known;
  }

  [[nodiscard]] Node* node_at(Entry entry) const noexcept { return pool_.at<Node>(entry.offset()); }
  [[nodiscard]] LeafArray* array_at(Entry entry) const noexcept {
    return pool_.at<LeafArray>(entry.offset());
  }
  [[nodiscard]] roart::OpeningLock& lock_of(Entry entry) const noexcept {
    return entry.is_array() ? array_at(entry)->lock : node_at(entry)->lock;
  }
  [[nodiscard]] std::uint64_t offset_of(const void* object) const noexcept {
    return pool_.offset_of(object);
  }
  [[nodiscard]] LeafArray::Found search(const LeafArray& array, const Probe& probe) const {
    return array.find(probe.fingerprint, entries_,
                      [&](Slot slot) { return records_.key_of(slot.offset()) == probe.key; });
  }
  /// The leaf array for a path. The caller is pinned.
  [[nodiscard]] const LeafArray& find_array(const Path& path) const noexcept;
  /// A3: what was read may not be durable yet, or be another array's by now.
  [[nodiscard]] static bool is_settled(const LeafArray& array) noexcept {
    return (array.lock.peek() &
            (roart::OpeningLock::locked_bit | roart::OpeningLock::obsolete_bit)) == 0;
  }
  /// The same before the walk has ended: what nobody of this opening has touched is as durable as
  /// media are.
  [[nodiscard]] bool is_settled_early(const LeafArray& array) const noexcept {
    return array.lock.opening() != opening_ || is_settled(array);
  }
  /// K1, of a lock's number.
  [[nodiscard]] bool is_of_before(std::uint16_t number) const noexcept {
    return number != opening_ && number != (opening_ | roart::OpeningLock::taking_over);
  }

  /// An integer's path is a byte for the root and its own.
  static constexpr unsigned deepest_level =
      Keys::kind == KeyKind::integer ? 8 : 1 + unsigned{max_key_bytes};

  // Changing records (change.cpp). The caller of all but `put` is pinned; for `add` and `replace`
  // the array is locked.
  [[nodiscard]] Outcome change(Key key, Value value, Put kind);
  [[nodiscard]] Outcome try_remove(Key key);
  /// No node: damage was found.
  [[nodiscard]] Place find_place(const Path& path) const;
  template <bool touching>
  [[nodiscard]] Place descend(const Path& path) const;
  [[nodiscard]] bool replace(LeafArray& array, const LeafArray::Found& found, const Probe& probe,
                             Value value);
  [[nodiscard]] bool add(LeafArray& array, unsigned free, const Probe& probe, Value value);

  // Changing the structure (restructure.cpp), which the caller looks at anew afterwards. False: out
  // of space, nothing changed.
  class Draft;
  using Hold = pm::HeldLock<roart::OpeningLock>;
  struct Halves;
  [[nodiscard]] bool split(const Place& at, const Path& path);
  [[nodiscard]] bool fork(const Place& at, const Path& path);
  [[nodiscard]] bool resize(const Place& at, const Path& path, Kind kind);
  /// Takes out the empty array at `at`, and nodes that are then superfluous. Needs no space.
  void reclaim(const Place& at, const Path& path);
  [[nodiscard]] unsigned take_out(const Place& at, const Path& path);
  bool collapse(const Place& at, const Path& path);
  [[nodiscard]] Halves halve(const LeafArray& array, unsigned level) const;
  void retire(const Node& node) { epochs_.retire(pool_.heap(), offset_of(&node), node.bytes()); }
  void retire(const LeafArray& array) {
    epochs_.retire(pool_.heap(), offset_of(&array), sizeof array);
  }

  // Reading several records (scan.cpp).
  struct Frame;
  class Collector;
  template <bool checked>
  [[nodiscard]] bool collect(const Path& path, Collector& collector) const;

  // Before the walk has ended (restart.cpp, touch.cpp).
  enum class Walked : std::uint8_t { all, part, damaged };
  struct Walk;
  void note_damage(const Error& what) const { state_.note_damage(what, pool_); }
  [[nodiscard]] Error corrupt(const char* what, std::uint64_t offset) const {
    return detail::corrupt_record(what, offset, pool_);
  }
  [[nodiscard]] Result<bool> open_early(std::string_view root_name, std::uint64_t restart);
  /// Walks a little where no worker does. False: damaged. The caller is not pinned.
  [[nodiscard]] bool begin_early_change() const;
  [[nodiscard]] Outcome lookup_early(Key key, ValueOut& value) const;
  /// T7: the child that an entry of the touched node `above` leads to; `after` is the next entry.
  /// `path` goes through `above`. The caller is pinned and may hold the lock of `above`, none
  /// below. False: damaged.
  [[nodiscard]] bool touch(const Node& above, Entry entry, Entry after, const Path& path) const;
  [[nodiscard]] bool touch(const Node& above, Entry entry, const Path& path) const {
    return is_touched(entry) || touch(above, entry, above.next(entry.symbol() + 1), path);
  }
  [[nodiscard]] bool is_touched(Entry entry) const noexcept {
    const roart::OpeningLock& lock = lock_of(entry);
    return lock.opening() == opening_ && !roart::OpeningLock::is_locked(lock.peek());
  }
  [[nodiscard]] Result<void> touch_node(Node& node, const Node& above, Entry entry, Entry after,
                                        const Path& path) const;
  [[nodiscard]] Result<void> mark_children(Node& node) const;
  /// Reading before touching: the child is inside the pool and is what the entry says.
  [[nodiscard]] bool is_sane_child(const Node& above, Entry entry) const;
  [[nodiscard]] bool is_sane(Slot slot) const;
  void start_worker();
  void stop_worker();
  /// Touches `arrays` arrays more, and sweeps after the last. The caller is not pinned.
  void walk_on(unsigned arrays) const;
  void finish_walk() const;
  [[nodiscard]] Walked walk_below(const Node& node, std::string& path, bool bounded,
                                  unsigned& left) const;

  // The tree as a whole (build.cpp, recover.cpp). No other thread runs.
  class Builder;
  class Survey;
  /// The entries of a node, ascending. `repairs`: those that a cut fork left twice are taken out.
  [[nodiscard]] Result<std::vector<Entry>> judge_entries(Node& node, bool repairs) const;
  /// Counts the records of an array below a node at `level` of `path`, whose entry stands for the
  /// symbols from `low` to below `high`. The keys are appended to `keys`; without it what a cut
  /// split left is taken out (T2), and the rest is marked.
  [[nodiscard]] Result<std::uint64_t> judge_records(LeafArray& array, const Path& path,
                                                    unsigned level, unsigned low, unsigned high,
                                                    std::vector<Key>* keys) const;
  void free_below(Entry entry);
  /// `anew`: the numbers of openings begin again, so all locks are set durably (K2).
  [[nodiscard]] Result<void> recover_tree(bool anew);

  Pool& pool_;
  Heap& heap_;
  const unsigned threads_;
  const unsigned entries_;  ///< slots of an array that are used
  const std::uint16_t opening_;
  const bool has_restart_;  ///< a block of restart.h is there
  Node* const root_;
  mutable Epochs epochs_;
  roart::Records<Keys> records_;
  mutable roart::RestartState state_;
  std::unique_ptr<Walk> walk_;
};

}  // namespace perdure
