// The two persistent modes: nodes in a pool with libpmemobj's heap.
//
//   pmem-persist  every change is flushed and fenced where it is made, in the order in which it is
//                 made, and nothing undoes it: what a power cut between two of them leaves is the
//                 structure's failure contract (its design.md).
//   pmem-trans    all of a change is one libpmemobj transaction: whole or absent.
//
// C1  a change makes all its nodes before it stores to what others can reach.
// C2  a node is filled before the first `link`, `set` or `edit`; these make it durable, and
//     allocated, before they store (pmem-persist), or `commit` does (pmem-trans).
// C3  exactly what changes is flushed (pmem-persist) or logged (pmem-trans): the 8-byte word of a
//     link, the field of a set, the range named by an edit. What a `fill` writes means nothing
//     until a later store of the change says so: it is flushed, and nothing is logged.
// C4  changes under way at the same time have no range in common: the structure's lock.
// C5  while a `Loading` lives, changes of either mode flush what they store to and do not wait for
//     it, and new nodes are published in batches. All is durable at its end; a power cut before
//     leaves anything, so nothing that recovery follows may lead there (S1 of structure_index.h).
#pragma once

#include <libpmemobj/base.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <new>
#include <optional>
#include <span>
#include <type_traits>

#include "core/assert.h"
#include "index/common/publish_batch.h"
#include "pm/persist.h"
#include "pool/pmdk_heap.h"
#include "pool/pmdk_transaction.h"
#include "pool/pool.h"
#include "structure/memory/made.h"
#include "structure/memory/refs.h"

namespace perdure::structure {

/// Enough for every range that an operation on a tree of large nodes changes; a lane of libpmemobj
/// holds 2 KiB of log.
inline constexpr std::size_t log_bytes = 64 << 10;

template <class Pointers>
class PersistentMemory {
 public:
  template <class T>
  using Ref = typename Pointers::template Ref<T>;
  static constexpr bool recovers = true;
  /// Of a table: two blocks of the heap's largest would leave runs of one.
  static constexpr std::size_t chunk_bytes = Heap::max_block_bytes / 2;
  static constexpr bool uses_object_ids = std::is_same_v<Pointers, ObjectIds>;

  explicit PersistentMemory(Pool* pool)
      : pool_(*pool), heap_(static_cast<PmdkHeap&>(pool->heap())), pool_id_(heap_.pool_id()) {}

  template <class T>
  [[nodiscard]] T* at(OffsetRef<T> ref) const noexcept {
    return ref ? pool_.at<T>(ref.offset) : nullptr;
  }
  template <class T>
  [[nodiscard]] T* at(ObjectRef<T> ref) const noexcept {
    return static_cast<T*>(pmemobj_direct(PMEMoid{ref.pool_id, ref.offset}));
  }
  template <class T>
  [[nodiscard]] Ref<T> ref(const T* node) const noexcept {
    return ref_to<T>(pool_.offset_of(node));
  }
  template <class T>
  [[nodiscard]] Ref<T> null() const noexcept {
    return ref_to<T>(null_offset);
  }
  template <class T>
  [[nodiscard]] Ref<T> ref_to(std::uint64_t offset) const noexcept {
    if constexpr (uses_object_ids)
      return {pool_id_, offset};
    else
      return {offset};
  }

  /// Recovery: what the ref leads to if it can be read; else null.
  template <class T>
  [[nodiscard]] T* peek(Ref<T> ref, std::size_t bytes) const noexcept {
    if constexpr (uses_object_ids)
      if (ref.pool_id != pool_id_) return nullptr;
    return pool_.contains(ref.offset, bytes) ? pool_.at<T>(ref.offset) : nullptr;
  }
  /// Recovery: the node if the ref can be followed and nobody else led to it; else null.
  template <class T>
  [[nodiscard]] T* admit(Ref<T> ref, std::size_t bytes) const noexcept {
    T* const node = peek(ref, bytes);
    return node != nullptr && heap_.mark(ref.offset, bytes) ? node : nullptr;
  }

  void use_huge_pages(bool) noexcept {}  // the pool has them
  [[nodiscard]] Pool& pool() const noexcept { return pool_; }
  [[nodiscard]] PmdkHeap& heap() const noexcept { return heap_; }
  [[nodiscard]] PMEMobjpool* objects() const noexcept { return heap_.objects(); }
  [[nodiscard]] std::uint64_t live_blocks() const noexcept { return heap_.usage().live_blocks; }
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept { return 0; }
  [[nodiscard]] bool is_loading() const noexcept { return batch_ != nullptr; }

  class Loading {
   public:
    explicit Loading(PersistentMemory& memory) noexcept : memory_(memory), batch_(memory.heap_) {
      memory_.batch_ = &batch_;
    }
    ~Loading() {
      batch_.publish();
      memory_.batch_ = nullptr;
    }
    Loading(const Loading&) = delete;
    Loading& operator=(const Loading&) = delete;

   private:
    PersistentMemory& memory_;
    PublishBatch batch_;
  };

 protected:
  template <class>
  friend class PersistChange;

  Pool& pool_;
  PmdkHeap& heap_;
  std::uint64_t pool_id_;
  PublishBatch* batch_ = nullptr;  ///< of the load under way
};

/// A change that is durable step by step.
template <class Memory>
class PersistChange {
 public:
  template <class T>
  using Ref = typename Memory::template Ref<T>;

  explicit PersistChange(Memory& memory, bool = false) noexcept
      : memory_(memory), batch_(memory.batch_) {}
  ~PersistChange() {
    for (Reservation& block : made_.blocks()) memory_.heap_.cancel(block);
  }
  PersistChange(const PersistChange&) = delete;
  PersistChange& operator=(const PersistChange&) = delete;

  template <class T>
  [[nodiscard]] T* make(std::size_t bytes = sizeof(T)) {
    PERDURE_ASSERT(!stored_);  // C1
    const Reservation block = memory_.heap_.reserve(bytes);
    if (!block) throw NoRoom{};
    made_.add(block);
    return new (memory_.pool_.template at<void>(block.offset)) T;
  }
  /// Cost with new nodes: their lines and 1 fence, and libpmemobj's redo log, which also sets the
  /// ref; without: 1 flushed line, 1 fence.
  template <class T>
  void link(Ref<T>& ref, Ref<T> to) noexcept {
    auto* const word = reinterpret_cast<std::atomic<std::uint64_t>*>(&ref.offset);
    if (batch_ != nullptr)
      edit(word, sizeof *word, [&] { word->store(to.offset, std::memory_order_relaxed); });
    else if (made_.empty())
      pm::store_persist(*word, to.offset);
    else
      publish(word, to.offset);
    stored_ = true;
  }
  /// The key first, so that it is flushed with the ref: what a power cut in between leaves,
  /// recovery makes right. Cost: as above, and 1 flushed line where a line ends between the two.
  template <class R>
  void link(KeyedRef<R>& ref, const KeyedRef<R>& to) noexcept {
    ref.key = to.key;
    if (reinterpret_cast<std::uintptr_t>(&ref.key) % pm::cache_line_bytes == 0)
      pm::flush(&ref.key, sizeof ref.key);
    link(ref.to, to.to);
  }
  template <class T>
  void set(T& field, const std::type_identity_t<T>& value) noexcept {
    edit(&field, sizeof field, [&] { field = value; });
  }
  template <class Stores>
  void edit(const void* begin, std::size_t bytes, Stores&& stores) noexcept {
    edit({{begin, bytes}}, stores);
  }
  /// Several ranges under one fence.
  template <class Stores>
  void edit(std::initializer_list<Range> ranges, Stores&& stores) noexcept {
    if (batch_ == nullptr) publish(nullptr, 0);
    stores();
    for (const Range& range : ranges)
      if (range.bytes != 0) pm::flush(range.begin, range.bytes);
    fence();
    stored_ = true;
  }
  /// Stores to bytes of a block that is there already which nobody reads yet.
  template <class Stores>
  void fill(const void* begin, std::size_t bytes, Stores&& stores) noexcept {
    stores();
    pm::flush(begin, bytes);
    fence();
  }
  /// Call after what led to the node has changed.
  template <class T>
  void drop(T* node, std::size_t bytes = sizeof(T)) noexcept {
    if (batch_ != nullptr) batch_->publish();  // the node among them, perhaps
    memory_.heap_.free(memory_.pool_.offset_of(node), bytes);
  }
  void commit() noexcept { publish(nullptr, 0); }

 private:
  void fence() const noexcept {
    if (batch_ == nullptr) pm::fence();
  }
  void publish(std::atomic<std::uint64_t>* word, std::uint64_t value) noexcept {
    if (made_.empty()) return;
    for (const Reservation& block : made_.blocks())  // C2
      pm::flush(memory_.pool_.base() + block.offset, block.bytes);
    if (batch_ != nullptr) {
      for (const Reservation& block : made_.blocks()) batch_->hold(block);
    } else {
      pm::fence();
      memory_.heap_.publish(made_.blocks(), word, value);
    }
    made_.clear();
  }

  Memory& memory_;
  PublishBatch* const batch_;
  Made<Reservation> made_;
  bool stored_ = false;
};

/// A change that is durable as a whole.
template <class Memory>
class TransactionChange {
 public:
  template <class T>
  using Ref = typename Memory::template Ref<T>;

  /// `lends_log`: the log may grow into memory of the structure's own, where the pool has no room.
  explicit TransactionChange(Memory& memory, bool lends_log = false) noexcept
      : memory_(memory), lends_log_(lends_log) {
    if (memory.is_loading()) load_.emplace(memory);
  }
  TransactionChange(const TransactionChange&) = delete;
  TransactionChange& operator=(const TransactionChange&) = delete;

  template <class T>
  [[nodiscard]] T* make(std::size_t bytes = sizeof(T)) {
    if (load_) return load_->template make<T>(bytes);
    const std::uint64_t offset = transaction().allocate(bytes);
    if (offset == null_offset) throw NoRoom{};
    return new (memory_.pool().template at<void>(offset)) T;
  }
  template <class T>
  void link(Ref<T>& ref, Ref<T> to) {
    edit(&ref.offset, sizeof ref.offset, [&] { ref.offset = to.offset; });
  }
  /// The key is logged as well: taken back, the ref and it agree.
  template <class R>
  void link(KeyedRef<R>& ref, const KeyedRef<R>& to) {
    edit(&ref.to.offset, sizeof ref.to.offset + sizeof ref.key, [&] {
      ref.key = to.key;
      ref.to.offset = to.to.offset;
    });
  }
  template <class T>
  void set(T& field, const std::type_identity_t<T>& value) {
    edit(&field, sizeof field, [&] { field = value; });
  }
  template <class Stores>
  void edit(const void* begin, std::size_t bytes, Stores&& stores) {
    edit({{begin, bytes}}, stores);
  }
  template <class Stores>
  void edit(std::initializer_list<Range> ranges, Stores&& stores) {
    if (load_) return load_->edit(ranges, stores);
    for (const Range& range : ranges)
      if (range.bytes != 0 && !transaction().snapshot(range.begin, range.bytes)) throw NoRoom{};
    stores();
    // At once, so that these lines are on their way while the transaction ends.
    for (const Range& range : ranges) pm::flush(range.begin, range.bytes);
  }
  /// The commit's fence comes before what makes the transaction count.
  template <class Stores>
  void fill(const void* begin, std::size_t bytes, Stores&& stores) {
    stores();
    pm::flush(begin, bytes);
  }
  template <class T>
  void drop(T* node, std::size_t bytes = sizeof(T)) {
    if (load_) return load_->drop(node, bytes);
    if (!transaction().free(memory_.pool().offset_of(node), bytes)) throw NoRoom{};
  }
  void commit() noexcept {
    if (load_) return load_->commit();
    if (transaction_) transaction_->commit();
    transaction_.reset();
  }

 private:
  /// Begun by the first thing that changes: an operation that finds nothing to do costs nothing.
  PmdkTransaction& transaction() {
    if (!transaction_) {
      transaction_.emplace(memory_.heap());
      if (lends_log_ && !transaction_->lend_log(memory_.log(), log_bytes)) throw NoRoom{};
    }
    return *transaction_;
  }

  Memory& memory_;
  const bool lends_log_;
  std::optional<PmdkTransaction> transaction_;
  std::optional<PersistChange<Memory>> load_;  ///< C5
};

template <class Pointers>
class PmemPersistMemory : public PersistentMemory<Pointers> {
 public:
  using PersistentMemory<Pointers>::PersistentMemory;
  using Change = PersistChange<PmemPersistMemory>;
  using Creation = Change;
  static constexpr const char* mode = "pmem-persist";
  static constexpr bool lends_log = false;
};

template <class Pointers>
class PmemTransMemory : public PersistentMemory<Pointers> {
 public:
  using PersistentMemory<Pointers>::PersistentMemory;
  using Change = TransactionChange<PmemTransMemory>;
  using Creation = PersistChange<PmemTransMemory>;
  static constexpr const char* mode = "pmem-trans";
  static constexpr bool lends_log = true;

  void own_log(void* log) noexcept { log_ = log; }
  [[nodiscard]] void* log() const noexcept { return log_; }

 private:
  void* log_ = nullptr;
};

}  // namespace perdure::structure
