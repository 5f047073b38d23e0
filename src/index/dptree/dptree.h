// DPTree: two buffer trees in DRAM with logs on media, over a base tree whose leaves are on media.
// Source: Zhou, Shou, Chen, Chen, Chen, "DPTree: Differential Indexing for Persistent Memory",
// PVLDB 13(4), 2019; see design.md for every deviation.
//
// A change goes to the front tree and its log. A front tree that is full becomes the middle tree,
// and is merged into the base tree in the background; the new version of the base tree and the end
// of the middle log become durable with one word. A key is looked for in the front, the middle and
// the base tree. Numbered invariants: leaf.h B1-B6, log.h G1-G6, anchor.h A1-A4, buffer.h F1-F4,
// base_map.h M1-M2, snapshot.h D2-D3, maintenance.h D4-D6, workers.h D7-D8, sorted_leaf.h S1-S3,
// word_leaf.h W1-W2, record_store.h R1-R3, and
//
// D1  a record is in the index <=> its key's newest entry is a put: newest in the front tree, then
//     in the middle tree, then in the base tree.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <span>

#include "core/result.h"
#include "index/common/index_root.h"
#include "index/dptree/in_place.h"
#include "index/dptree/maintenance.h"
#include "index/dptree/parts.h"
#include "index/registry.h"
#include "index/writable_index.h"

namespace perdure {

/// Opens the private parts to tests.
template <class Keys>
class DpTreePeer;

template <class Keys>
class DpTree final : public WritableIndex<DpTree<Keys>, Keys> {
 public:
  using Key = typename Keys::Key;
  using Value = typename Keys::Value;
  using ValueOut = typename Keys::ValueOut;
  using Record = typename Keys::Record;
  using Scan = typename Keys::Scan;

  static constexpr IndexRootKind root_kind{"dptree", 3, Keys::kind};

  /// An empty tree, one root. Errors: exists, out_of_space, usage.
  [[nodiscard]] static MadeIndex<Keys> create(const IndexPlace& place);
  /// From the pool alone. Errors: not_found, foreign, newer, corrupt.
  [[nodiscard]] static MadeIndex<Keys> recover(const IndexPlace& place);
  ~DpTree() override;

  Outcome put(Key key, Value value, Put kind);
  Outcome remove(Key key) override;
  Outcome lookup(Key key, ValueOut& value) override;
  std::size_t scan(Key from, std::size_t count, Scan& out) override;
  Result<void> bulk_load(std::span<const Record> records) override;

  [[nodiscard]] std::uint64_t size() const override;
  [[nodiscard]] Result<void> check_invariants() const override;
  [[nodiscard]] std::uint64_t dram_bytes() const override;
  void quiesce() override { maintenance_.settle(); }

 private:
  friend class DpTreePeer<Keys>;

  using Draft = typename RecordStore<Keys>::Draft;
  using Buffer = dptree::Buffer<Keys>;
  using Route = dptree::Route<Keys>;
  using Prefetch = dptree::Prefetch;

  /// Which trees a change reads before its log record is written.
  enum class ReadFirst : std::uint8_t {
    none,
    buffers,  ///< where they do not have the key, the base tree is read afterwards
    all,
  };
  /// Where a change goes, its leaf locked; the rest unless nothing was read.
  struct LockedKey {
    typename Buffer::Position position;
    bool present = false;
    bool is_speculative = false;  ///< present or absent: the base tree decides, and was not read
    RecordWords below;  ///< its record where the front tree has none and nothing is speculative
    Route route;        ///< speculative: where to read
  };

  DpTree(const IndexPlace& place, std::uint64_t anchor, unsigned leaf_entries, unsigned log_entries)
      : parts_(place, anchor, leaf_entries, log_entries),
        maintenance_(parts_, place.options.get("workers")),
        in_place_(parts_, maintenance_.leftovers()) {}

  // Outcomes come in a register: one that was put together in memory is read when all flushes
  // before have drained. Inlined by force: a change overlaps with the one before as far as the
  // reorder buffer reaches.
  [[nodiscard]] [[gnu::always_inline]] LockedKey lock_key(Buffer& front, Key key,
                                                          std::uint64_t hash, ReadFirst read,
                                                          Prefetch prefetch);
  [[nodiscard]] [[gnu::always_inline]] dptree::LogRecord* take_slot(
      Buffer& front, typename Buffer::Position& position, Key key, std::uint64_t hash,
      std::uint64_t blob_bytes);
  /// True when neither buffer tree, but the base tree, has the key if any has; the front tree's
  /// filter was read.
  [[nodiscard]] [[gnu::always_inline]] static bool base_decides(const Route& route,
                                                                std::uint64_t hash) noexcept;
  /// Whether the base tree has the key, where it decides.
  [[nodiscard]] [[gnu::always_inline]] bool is_in_base(const Route& route, Key key,
                                                       std::uint64_t hash) const;
  [[nodiscard]] ReadFirst read_before(Put kind) const noexcept;
  void note_outcome(Put kind, bool succeeds) noexcept;
  /// `out_of_space`: the log has no room. `needs_maintenance`: call `Maintenance::run` afterwards.
  [[nodiscard]] [[gnu::always_inline]] Outcome try_put(Key key, Value value, std::uint64_t hash,
                                                       Put kind, bool& needs_maintenance);
  [[nodiscard]] Outcome try_remove(Key key, std::uint64_t hash, bool& needs_maintenance);
  void log_put(dptree::LogRecord& record, Draft& draft, std::uint64_t seal,
               dptree::Change change) noexcept;

  dptree::Parts<Keys> parts_;
  dptree::Maintenance<Keys> maintenance_;
  dptree::InPlace<Keys> in_place_;
  /// Whether the last put of a kind has succeeded: then the next one's log record is written before
  /// the base tree is read. The record of a change that fails is wasted.
  std::array<std::atomic<bool>, 3> last_succeeded_{true, true, true};
};

extern template class DpTree<IntegerKeys>;
extern template class DpTree<ByteKeys>;

}  // namespace perdure
