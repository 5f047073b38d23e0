// DPTree: two buffer trees in DRAM with logs on media, over a base tree whose leaves are on media.
// Source: Zhou, Shou, Chen, Chen, Chen, "DPTree: Differential Indexing for Persistent Memory",
// PVLDB 13(4), 2019; see design.md for every deviation.
//
// A change goes to the front tree and its log. A front tree that is full becomes the middle tree,
// and is merged into the base tree in the background; the new version of the base tree and the end
// of the middle log become durable with one word. A key is looked for in the front, the middle and
// the base tree. Numbered invariants: leaf.h B1-B6, log.h G1-G6, anchor.h A1-A4, buffer.h F1-F4,
// base_map.h M1-M2, snapshot.h D2-D3, workers.h D7-D8, sorted_leaf.h S1-S3, word_leaf.h W1-W2,
// record_store.h R1-R3, and
//
// D1  a record is in the index <=> its key's newest entry is a put: newest in the front tree, then
//     in the middle tree, then in the base tree.
// D4  a merge reserves all leaves it needs before it writes anything, so it ends. Changes without
//     room are left over in `leftovers_`, and keep the middle tree and its log, or are handed on to
//     the front tree and its log. What is in the middle tree and not left over is in the base tree,
//     too.
// D5  blobs that a log mentions are freed only after the log was dropped.
// D6  memory that a thread may still read is freed only after a grace period. While a merge's is
//     not all freed, the worker tries again each millisecond, or without one a change in 256.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "core/result.h"
#include "index/common/index_root.h"
#include "index/common/publish_batch.h"
#include "index/common/record_store.h"
#include "index/dptree/anchor.h"
#include "index/dptree/base_map.h"
#include "index/dptree/buffer.h"
#include "index/dptree/buffer_source.h"
#include "index/dptree/leaf.h"
#include "index/dptree/leftovers.h"
#include "index/dptree/log.h"
#include "index/dptree/retired.h"
#include "index/dptree/snapshot.h"
#include "index/dptree/spare_leaves.h"
#include "index/dptree/workers.h"
#include "index/index.h"
#include "index/registry.h"
#include "pm/asymmetric_lock.h"
#include "pm/pm.h"
#include "pool/epoch.h"
#include "pool/pool.h"

namespace perdure {

/// Opens the private parts to tests.
template <class Keys>
class DpTreePeer;

template <class Keys>
class DpTree final : public OrderedIndex<Keys> {
 public:
  using Key = typename Keys::Key;
  using Value = typename Keys::Value;
  using ValueOut = typename Keys::ValueOut;
  using Record = typename Keys::Record;
  using Scan = typename Keys::Scan;

  static constexpr IndexRootKind root_kind{"dptree", 3, Keys::kind};

  /// An empty tree, one root. Errors: exists, out_of_space, usage.
  [[nodiscard]] static Result<std::unique_ptr<OrderedIndex<Keys>>> create(const IndexPlace& place);
  /// From the pool alone. Errors: not_found, foreign, newer, corrupt.
  [[nodiscard]] static Result<std::unique_ptr<OrderedIndex<Keys>>> recover(const IndexPlace& place);
  ~DpTree() override;

  Outcome insert(Key key, Value value) override { return put(key, value, Put::insert); }
  Outcome upsert(Key key, Value value) override { return put(key, value, Put::upsert); }
  Outcome update(Key key, Value value) override { return put(key, value, Put::update); }
  Outcome remove(Key key) override;
  Outcome lookup(Key key, ValueOut& value) override;
  std::size_t scan(Key from, std::size_t count, Scan& out) override;
  Result<void> bulk_load(std::span<const Record> records) override;

  [[nodiscard]] std::uint64_t size() const override;
  [[nodiscard]] Result<void> check_invariants() const override;
  [[nodiscard]] std::uint64_t dram_bytes() const override;
  void quiesce() override;

 private:
  friend class DpTreePeer<Keys>;

  enum class Put : std::uint8_t { insert, upsert, update };
  static constexpr std::size_t puts = 3;
  using Draft = typename RecordStore<Keys>::Draft;
  using Buffer = dptree::Buffer<Keys>;
  using BaseMap = dptree::BaseMap<Keys>;
  using LeafView = dptree::LeafView;
  using Snapshot = dptree::Snapshot<Keys>;
  using CurrentSnapshot = dptree::CurrentSnapshot<Keys>;
  using Workers = dptree::Workers;

  /// A snapshot, and the base leaf in it that covers a key; null: there is none.
  struct Aim {
    const Snapshot* trees;
    dptree::LeafLink leaf;
    [[nodiscard]] bool has_leaf() const noexcept { return leaf.offset() != null_offset; }
  };
  struct BasePlace {
    LeafView view;
    unsigned which;
    unsigned slot;
    RecordWords words;
  };
  /// How much a change must know about its key before its log record is written.
  enum class Ask : std::uint8_t {
    nothing,
    buffers,  ///< whether they have it; where they do not, the base tree is asked afterwards
    all,
  };
  /// What to prefetch of a base leaf: for inserts the key is normally absent, so the prefetch of
  /// its record would be wasted.
  enum class Expect : std::uint8_t { none, record };
  /// Where a change goes, its leaf locked; the rest unless nobody asked.
  struct Target {
    typename Buffer::Position position;
    bool present = false;         ///< the key
    bool is_speculative = false;  ///< or absent: the base tree decides, and was not searched
    RecordWords below;  ///< its record where the front tree has none and nothing is speculative
    Aim aim{};          ///< speculative: where to search
  };
  /// A change that waits for its merge. Three words, because a merge goes through all of them
  /// several times, in memory that it has to ask the system for.
  class Pending {
   public:
    explicit Pending(RecordWords record) noexcept : words(record) {}
    /// Of a log record at this offset.
    Pending(RecordWords record, std::uint64_t offset, bool is_removal) noexcept
        : words(record),
          source_(offset / sizeof(dptree::LogRecord) & source_mask),
          removal_(is_removal ? 1 : 0) {}
    [[nodiscard]] std::uint64_t source() const noexcept {
      return source_ * sizeof(dptree::LogRecord);
    }
    [[nodiscard]] bool removal() const noexcept { return removal_ != 0; }
    /// What the base leaf has with its fingerprint, as the merge finds out a few leaves ahead.
    [[nodiscard]] LeafView::Suspects suspects() const noexcept {
      return {any_ != 0, others_ != 0, static_cast<unsigned>(first_), static_cast<unsigned>(last_)};
    }
    void set_suspects(const LeafView::Suspects& found) noexcept {
      any_ = found.any ? 1 : 0;
      others_ = found.others ? 1 : 0;
      first_ = found.first & slot_mask;
      last_ = found.last & slot_mask;
    }

    RecordWords words;

   private:
    static constexpr unsigned source_bits = 44;  // 512 TiB, more than a process can map
    static constexpr unsigned slot_bits = 8;
    static constexpr std::uint64_t source_mask = (std::uint64_t{1} << source_bits) - 1;
    static constexpr unsigned slot_mask = (1U << slot_bits) - 1;

    std::uint64_t source_ : source_bits = 0;
    std::uint64_t removal_ : 1 = 0;
    std::uint64_t any_ : 1 = 0;
    std::uint64_t others_ : 1 = 0;
    std::uint64_t first_ : slot_bits = 0;
    std::uint64_t last_ : slot_bits = 0;
  };
  static_assert(sizeof(Pending) == 24);
  /// What a merge has come to: there was nothing to do, or no room for any of it; some is left
  /// over; all is done.
  enum class Merged : std::uint8_t { nothing, some, all };
  enum class Effort : std::uint8_t {
    usual,
    for_room,  ///< what is left over is handed on, so that the front tree can be merged
    thorough,
  };
  class Merge;
  class Cursor;

  DpTree(const IndexPlace& place, std::uint64_t anchor, unsigned leaf_entries,
         unsigned log_entries);

  [[nodiscard]] LeafView leaf_at(std::uint64_t offset) const noexcept {
    return {pool_.at<dptree::BaseLeaf>(offset), leaf_entries_};
  }
  [[nodiscard]] LeafView leaf_at(dptree::LeafLink leaf) const noexcept {
    return leaf_at(leaf.offset());
  }
  [[nodiscard]] const Snapshot& snapshot() const noexcept { return current_.get(); }
  // Reading. The caller is pinned.
  [[nodiscard]] static Aim aim_in(const Snapshot& trees, Key key) noexcept {
    return {&trees, trees.base->find(key).leaf};
  }
  /// The current trees. Prefetches the lines of their filters.
  [[nodiscard]] const Snapshot& prefetch_filters(std::uint64_t hash) const noexcept;
  [[nodiscard]] Aim aim_at(const Snapshot& trees, dptree::LeafLink leaf, std::uint64_t hash,
                           Expect expected) const noexcept;
  /// Finds the base leaf of a key in the current trees, and prefetches it, its record and the
  /// filters.
  [[nodiscard]] Aim aim_at(Key key, std::uint64_t hash) const noexcept;
  [[nodiscard]] std::optional<BasePlace> find_in_base(const Aim& aim, Key key,
                                                      std::uint64_t hash) const;
  [[nodiscard]] std::optional<BasePlace> find_in_leaf(const LeafView& view, unsigned which, Key key,
                                                      std::uint64_t hash) const;
  /// The words of the record under the front tree; false: absent.
  [[nodiscard]] [[gnu::always_inline]] bool find_below(const Aim& aim, Key key, std::uint64_t hash,
                                                       RecordWords& found) const;
  [[nodiscard]] bool find_pinned(Key key, std::uint64_t hash, RecordWords& found) const;
  /// The same without the front tree, for a writer, under whom that stays.
  [[nodiscard]] bool find_below_front(Aim aim, Key key, std::uint64_t hash,
                                      RecordWords& found) const;
  /// True when neither buffer tree, but the base tree, has the key if anybody does; the front
  /// tree's filter was asked.
  [[nodiscard]] [[gnu::always_inline]] static bool base_decides(const Aim& aim,
                                                                std::uint64_t hash) noexcept;
  /// Whether the base tree has the key, where it decides.
  [[nodiscard]] [[gnu::always_inline]] bool is_confirmed(const Aim& aim, Key key,
                                                         std::uint64_t hash) const;

  [[nodiscard]] std::uint64_t count_over_base(const Snapshot& trees, const Buffer& tree,
                                              const Buffer* newer) const;

  // Changing (change.cpp). Outcomes come in a register: one that was put together in memory is read
  // when all flushes before have drained. Inlined by force: a change overlaps with the one before
  // as far as the reorder buffer reaches.
  [[nodiscard]] [[gnu::always_inline]] Target lock_target(Buffer& front, Key key,
                                                          std::uint64_t hash, Ask ask,
                                                          Expect expected);
  [[nodiscard]] [[gnu::always_inline]] dptree::LogRecord* take_slot(
      Buffer& front, typename Buffer::Position& position, Key key, std::uint64_t hash,
      std::uint64_t blob_bytes);
  [[nodiscard]] Ask what_to_ask(Put kind) const noexcept;
  /// Notes whether a put has succeeded, for the next one.
  void presume(Put kind, bool succeeds) noexcept;
  [[nodiscard]] Outcome put(Key key, Value value, Put kind);
  /// `out_of_space`: the log has no room. `needs_maintenance`: call `merge_if_full` afterwards.
  [[nodiscard]] [[gnu::always_inline]] Outcome try_put(Key key, Value value, std::uint64_t hash,
                                                       Put kind, bool& needs_maintenance);
  [[nodiscard]] Outcome try_remove(Key key, std::uint64_t hash, bool& needs_maintenance);
  void log_put(dptree::LogRecord& record, Draft& draft, std::uint64_t seal,
               dptree::Change change) noexcept;
  [[nodiscard]] Outcome remove_in_place(Key key, std::uint64_t hash);
  void clear_in_base(const BasePlace& place) noexcept;
  /// An update or upsert of a key that is there.
  [[nodiscard]] Outcome replace_in_place(Key key, Value value, std::uint64_t hash, Put kind,
                                         Block block, bool& lacks_blob);
  [[nodiscard]] Outcome replace_where_it_is(const Snapshot& trees, Key key, std::uint64_t hash,
                                            Draft& draft, Outcome absent);
  void replace_in_log(const Buffer& tree, dptree::LogRecord& record, Draft& draft) noexcept;
  void replace_in_base(const BasePlace& place, Draft& draft) noexcept;
  [[nodiscard]] bool turn_to_removal(Buffer& tree, Key key, Outcome& outcome);
  [[nodiscard]] std::uint64_t logged_value(const Buffer& tree, Key key, std::uint64_t hash) const;
  [[nodiscard]] bool turn_nothing_to_removal(Buffer& tree, Key key, std::uint64_t hash);

  // When to merge (schedule.cpp).
  /// After a change: true when there may be something to do for `merge_if_full`. The caller is
  /// pinned.
  [[nodiscard]] bool may_need_maintenance(const Buffer& front, std::uint64_t hash) const noexcept {
    const bool may_collect =
        !workers_.exist() && front.changes_beside(hash) % changes_before_collecting == 0;
    return may_collect || front.is_full_beside(hash, 1) ||
           (!workers_.exist() && workers_.is_sharing());
  }
  void merge_if_full();
  /// Empties the logs as far as it can; false: that made no room, and neither did any merge since
  /// there were `merges`.
  [[nodiscard]] bool make_room(std::uint64_t merges);
  void start_workers();
  // The caller holds `merging_`.
  void merge_what_is_full();
  [[nodiscard]] Merged flush_one(Effort effort);
  void rotate();
  [[nodiscard]] Merged merge_middle(Effort effort);
  void leave(std::span<const std::size_t> left, std::span<const Pending> changes);
  [[nodiscard]] bool hand_on(const Snapshot& trees, const Merge& merge,
                             std::span<const Pending> changes);
  [[nodiscard]] std::size_t likely_splits(const Snapshot& trees) const;
  [[nodiscard]] bool splits_are_scarce();
  void count_claims();
  /// So many are worth a merge, which looks at all leaves. The caller holds `merging_`.
  [[nodiscard]] std::uint64_t paying_changes() const noexcept {
    return snapshot().base->size() / 16;
  }
  /// For so many splits a merge joins leaves, where the heap has no room for another leaf: a share
  /// of all, because the next merge looks at all leaves again.
  [[nodiscard]] std::size_t splits_to_join_for() const noexcept {
    constexpr std::size_t leaves_per_split = 128;
    return 1 + snapshot().base->size() / leaves_per_split;
  }
  [[nodiscard]] bool lacks_leaves() { return spare_.are_scarce() && !spare_.could_claim(1); }
  /// Whether so many records are gone that a look for leaves to join is worth it.
  [[nodiscard]] bool may_join(Effort effort) const noexcept {
    return leftovers_.removed() > (effort == Effort::thorough ? 0 : paying_changes());
  }
  [[nodiscard]] bool claim_split();
  [[nodiscard]] bool needs_split(Key key, std::uint64_t hash) const;
  template <class Visit>
  static void each_pending(const Buffer& tree, const BaseMap& base, std::size_t leaf,
                           Visit&& visit);
  [[nodiscard]] std::size_t pending_in(const Snapshot& trees, dptree::LeafPlace place,
                                       std::size_t most, bool exact) const;
  void drop_middle(const Snapshot& trees, std::vector<RecordWords>& dropped, std::uint64_t records);
  void keep_what_is_logged(Buffer& middle, std::vector<RecordWords>& dropped);
  void collect_retired(unsigned attempts);
  void collect_what_is_left();

  // The tree as a whole (build.cpp, recover.cpp, check.cpp). No operation runs.
  [[nodiscard]] Result<void> load(std::span<const Record> records);
  [[nodiscard]] Result<void> check_all() const;
  [[nodiscard]] Result<void> recover_all();
  [[nodiscard]] Result<std::unique_ptr<BaseMap>> recover_base();
  [[nodiscard]] Result<std::uint64_t> recover_leaf(std::uint64_t offset, BaseMap& base,
                                                   std::optional<RecordWords>& last);
  [[nodiscard]] Result<std::vector<std::uint64_t>> mark_log(std::uint64_t head);
  /// `below`: the trees under `tree`, which is none of them.
  [[nodiscard]] Result<std::vector<std::uint64_t>> replay(std::uint64_t head, Buffer& tree,
                                                          const Snapshot& below);
  void prefetch_below(const dptree::LogRecord& record, const Snapshot& trees) const noexcept;
  [[nodiscard]] bool is_below(const Snapshot& trees, Key key, std::uint64_t hash) const;
  [[nodiscard]] Result<bool> replay_record(dptree::LogRecord& record, Buffer& tree,
                                           const Snapshot& below);
  [[nodiscard]] std::vector<std::uint64_t> segments(std::uint64_t head) const;
  [[nodiscard]] Result<void> check_base(const BaseMap& base,
                                        std::unordered_set<std::uint64_t>& blobs) const;
  [[nodiscard]] Result<void> check_buffer(const Buffer& tree,
                                          std::unordered_set<std::uint64_t>& blobs) const;

  Pool& pool_;
  Heap& heap_;
  const unsigned leaf_entries_;
  dptree::Anchor& anchor_;
  mutable Epochs epochs_;
  RecordStore<Keys> records_;
  dptree::BufferSource<Keys> buffers_;
  CurrentSnapshot current_;
  /// Whether the last put of a kind has succeeded: then the next one's log record is written before
  /// the key's is read. The record of a change that fails is wasted.
  std::array<std::atomic<bool>, puts> presumed_{true, true, true};
  pm::AsymmetricLock writers_;
  mutable pm::VersionLock merging_;
  dptree::Leftovers leftovers_;
  dptree::SpareLeaves spare_;
  dptree::Retired retired_;
  static constexpr std::uint64_t changes_before_collecting = 256;
  Workers workers_;
};

template <class Keys>
inline auto DpTree<Keys>::prefetch_filters(std::uint64_t hash) const noexcept -> const Snapshot& {
  const Snapshot& trees = snapshot();
  trees.front->prefetch(hash);
  if (trees.middle != nullptr) trees.middle->prefetch(hash);
  return trees;
}

template <class Keys>
inline auto DpTree<Keys>::aim_at(const Snapshot& trees, dptree::LeafLink leaf, std::uint64_t hash,
                                 Expect expected) const noexcept -> Aim {
  const Aim aim{&trees, leaf};
  if (!aim.has_leaf()) return aim;
  const LeafView view = leaf_at(leaf);
  if (leaf.is_home(view.home_of(hash)))
    view.prefetch(leaf.which(), hash);
  else
    view.prefetch(leaf.which());
  if (expected == Expect::record) view.prefetch_record(hash);
  return aim;
}

}  // namespace perdure
