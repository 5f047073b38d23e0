// StructureIndex: what all structures share: locking, outcomes, counting, bulk load, creation,
// recovery. A structure (`Self`) adds its nodes and how they change.
//
// On media:
//   IndexRoot  option: uses object ids | variant | size (of the structure's own), head: top
//   top        | loading | log | lock | the structure's own |
//   log        memory into which a transaction's log grows in a full pool
//   lock       the mutex, if it is to lie in PM (lock.h)
//
// S1  `loading` is set while a bulk load is under way; recovery then empties the structure.
// S2  an operation's change is durable before its lock is released, so that no reader returns what
//     a power cut could take back.
// S3  the count of records lives in DRAM; recovery counts anew.
// S4  recovery from a crash gives the log up and takes another: libpmemobj has freed it if it undid
//     a transaction that the log was lent to.
//
// Self has:
//   struct Top : Anchor            static name, variant
//   prepare(creation, options)     makes what is there from the start, fills in `top()`
//   reopen(walk, size)             recovery: enters and opens the table, `table_size()` elements
//   walk(walk)                     enters every block but the top; checks the invariants
//   adopt()                        after a walk that recovers: builds what lives in DRAM
//   clear(creation)                leads to no record any more
//   find(key)                      the key's slot, or what else has a value(), or null
//   put(change, key, value, how)   take(change, key)    collect(from, count, out)
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "index/common/index_root.h"
#include "index/registry.h"
#include "index/writable_index.h"
#include "structure/base/lock.h"
#include "structure/base/slot.h"
#include "structure/base/walk.h"
#include "structure/memory/persistent_memory.h"
#include "structure/memory/volatile_memory.h"

namespace perdure::structure {

enum class Effect : std::uint8_t { added, replaced, removed, exists, not_found };

struct Anchor {
  std::uint64_t loading = 0;
  std::uint64_t log = null_offset;
  LockPlace lock;
};

/// What the registration makes before it creates or recovers.
class Structure : public SlotIndex {
 public:
  [[nodiscard]] virtual Result<void> create(const IndexPlace& place) = 0;
  [[nodiscard]] virtual Result<void> recover(const IndexPlace& place) = 0;
};

template <class Self, class Memory>
class StructureIndex : public WritableIndex<StructureIndex<Self, Memory>, SlotKeys, Structure> {
 public:
  using Change = typename Memory::Change;
  using Creation = typename Memory::Creation;
  template <class T>
  using Ref = typename Memory::template Ref<T>;

  explicit StructureIndex(Pool* pool) : memory_(pool) {}

  Result<void> create(const IndexPlace& place) override;
  Result<void> recover(const IndexPlace& place) override;

  Outcome put(std::uint64_t key, std::string_view value, Put how) {
    if (value.size() > max_slot_value_bytes) return Outcome::invalid;
    return attempt(key, [&](Change& change) { return self().put(change, key, value, how); });
  }
  Outcome remove(std::uint64_t key) override {
    return attempt(key, [&](Change& change) { return self().take(change, key); });
  }
  Outcome lookup(std::uint64_t key, std::string& value) override {
    const Lock::ReadGuard guard(lock_, locked_group(key));
    const auto* const slot = self().find(key);
    if (slot == nullptr) return Outcome::not_found;
    value.assign(slot->value());
    return Outcome::ok;
  }
  std::size_t scan(std::uint64_t from, std::size_t count, SlotScan& out) override {
    const Lock::ReadGuard guard(lock_, 0);
    if (count > 0) self().collect(from, count, out);
    return out.size();
  }
  Result<void> bulk_load(std::span<const SlotRecord> records) override;

  [[nodiscard]] std::uint64_t size() const override {
    return records_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] Result<void> check_invariants() const override;
  [[nodiscard]] std::uint64_t dram_bytes() const override {
    return sizeof(Self) + memory_.dram_bytes() + self().extra_dram_bytes();
  }

 protected:
  [[nodiscard]] auto& top() const noexcept { return *static_cast<typename Self::Top*>(top_); }
  static constexpr std::uint32_t layout_version = 1;
  // What a structure without a table says, and one without state in DRAM.
  [[nodiscard]] static bool reopen(Walk<Memory>&, std::uint64_t) noexcept { return true; }
  [[nodiscard]] static std::uint64_t table_size() noexcept { return 0; }
  [[nodiscard]] std::uint64_t extra_dram_bytes() const noexcept { return 0; }
  [[nodiscard]] static Result<void> adopt() { return {}; }
  [[nodiscard]] static std::uint64_t lock_group(std::uint64_t) noexcept { return 0; }
  /// Replaces a value in place. Power-cut states with pmem-persist: old, new, or a mixture.
  static void rewrite(Change& change, Slot& slot, std::string_view value) {
    change.edit(&slot, Slot::written_bytes(value), [&] { slot.write(value); });
  }
  /// What `work` reads, as one reader.
  template <class Work>
  auto read(Work&& work) const {
    const Lock::ReadGuard guard(lock_, 0);
    return work();
  }
  /// What `work` changes, as the only writer.
  template <class Work>
  Outcome change(Work&& work) {
    return attempt(0, work);
  }
  /// Frees every node of a volatile structure: the first thing its destructor does.
  void dismantle() noexcept;

  Memory memory_;
  bool huge_pages_ = false;  ///< for DRAM parts

 private:
  [[nodiscard]] Self& self() noexcept { return static_cast<Self&>(*this); }
  [[nodiscard]] const Self& self() const noexcept { return static_cast<const Self&>(*this); }

  /// Which group it is costs a hash: only where there are groups.
  [[nodiscard]] std::uint64_t locked_group(std::uint64_t key) const noexcept {
    return lock_.admits_writers_together() ? self().lock_group(key) : 0;
  }
  // These two in the frame of the operation, or what `work` holds by reference goes through memory.
  template <class Work>
  [[gnu::always_inline]] Outcome attempt(std::uint64_t key, Work&& work) {
    const Lock::WriteGuard guard(lock_, locked_group(key));
    return perform(work);
  }
  /// Caller holds the lock of what changes.
  template <class Work>
  Outcome perform(Work&& work);
  /// Empty: no room, and nothing has changed.
  template <class Work>
  std::optional<Effect> change_with(Work& work, bool lends_log);
  template <class Work>
  [[gnu::noinline]] std::optional<Effect> change_with_log(Work& work);
  /// Caller holds the lock of what changed. A locked instruction would wait until every store
  /// before it is done, the misses of the operations before among them: only where writers need it.
  void count(std::int64_t more) noexcept {
    const auto change = static_cast<std::uint64_t>(more);
    if (lock_.admits_writers_together())
      records_.fetch_add(change, std::memory_order_relaxed);
    else
      records_.store(records_.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
  }
  [[nodiscard]] std::size_t load(std::span<const SlotRecord> records);
  [[nodiscard]] Result<void> recover_top(const IndexRoot& root);
  void complete_log();
  void choose_lock(LockKind kind) { lock_.choose(kind, top_->lock, memory_.objects()); }
  [[nodiscard]] IndexRootKind root_kind() const {
    return {
        .index = Self::name, .layout_version = Self::layout_version, .key_kind = KeyKind::slots};
  }
  [[nodiscard]] Error no_room() const {
    return {ErrorCode::out_of_space, std::string("no room for ") + Self::name, "",
            "make the pool larger"};
  }

  Anchor* top_ = nullptr;
  std::atomic<std::uint64_t> records_{0};
  mutable Lock lock_;
  GroupLock log_is_lent_;
};

template <class Self, class Memory>
template <class Work>
[[gnu::always_inline]] inline Outcome StructureIndex<Self, Memory>::perform(Work&& work) {
  std::optional<Effect> effect = change_with(work, false);
  if constexpr (Memory::lends_log)
    if (!effect) effect = change_with_log(work);
  if (!effect) return Outcome::out_of_space;
  switch (*effect) {
    case Effect::replaced:
      return Outcome::ok;
    case Effect::added:
      count(1);
      return Outcome::ok;
    case Effect::removed:
      count(-1);
      return Outcome::ok;
    case Effect::exists:
      return Outcome::exists;
    case Effect::not_found:
      break;
  }
  return Outcome::not_found;
}

template <class Self, class Memory>
template <class Work>
[[gnu::always_inline]] inline std::optional<Effect> StructureIndex<Self, Memory>::change_with(
    Work& work, bool lends_log) {
  try {
    Change change(memory_, lends_log);
    const Effect effect = work(change);
    change.commit();
    return effect;
  } catch (const NoRoom&) {
    return std::nullopt;
  }
}

template <class Self, class Memory>
template <class Work>
std::optional<Effect> StructureIndex<Self, Memory>::change_with_log(Work& work) {
  const GroupLock::WriteGuard lent(log_is_lent_);
  complete_log();
  return change_with(work, true);
}

template <class Self, class Memory>
Result<void> StructureIndex<Self, Memory>::create(const IndexPlace& place) {
  huge_pages_ = place.huge_pages;
  memory_.use_huge_pages(huge_pages_);
  try {
    Creation creation(memory_);
    top_ = creation.template make<typename Self::Top>();
    if constexpr (Memory::lends_log) {
      auto* const log = creation.template make<std::byte>(log_bytes);
      top_->log = memory_.pool().offset_of(log);
      memory_.own_log(log);
    }
    self().prepare(creation, place.options);
    creation.commit();
    choose_lock(place.lock);
  } catch (const NoRoom&) {
    top_ = nullptr;
    return no_room();
  }
  if constexpr (Memory::recovers)
    return create_index_root(memory_.pool(), place.root_name, root_kind(),
                             {Memory::uses_object_ids, Self::variant, self().table_size()},
                             memory_.pool().offset_of(top_));
  return {};
}

template <class Self, class Memory>
Result<void> StructureIndex<Self, Memory>::recover(const IndexPlace& place) {
  if constexpr (Memory::recovers) {
    huge_pages_ = place.huge_pages;
    Pool& pool = memory_.pool();
    const auto root = read_index_root(pool, place.root_name, root_kind());
    if (!root) return root.error();
    if (root->layout_version != Self::layout_version)
      return Error{ErrorCode::foreign,
                   "root '" + std::string(place.root_name) + "' has layout " +
                       std::to_string(root->layout_version) + " of " + Self::name +
                       ", this build reads " + std::to_string(Self::layout_version),
                   pool.path(), "use the version that wrote it"};
    if (auto same =
            check_index_option(pool, "offsets", root->option[0] == 0, !Memory::uses_object_ids);
        !same)
      return same;
    if (auto same = check_index_option(pool, "embedded", root->option[1], Self::variant); !same)
      return same;
    if (auto done = recover_top(*root); !done) return done;
    if (auto done = pool.root_recovered(place.root_name); !done) return done;
    if (pool.ready()) complete_log();  // else when it is wanted
    choose_lock(place.lock);
    return {};
  }
  return no_room();
}

template <class Self, class Memory>
Result<void> StructureIndex<Self, Memory>::recover_top(const IndexRoot& root) {
  if constexpr (Memory::recovers) {
    Heap& heap = memory_.heap();
    if (!memory_.pool().contains(root.head, sizeof(typename Self::Top)) ||
        !heap.mark(root.head, sizeof(typename Self::Top)))
      return corrupt(std::string(Self::name) + ": the top lies where no block can lie");
    top_ = memory_.pool().template at<typename Self::Top>(root.head);
    if (top_->log != null_offset && !memory_.pool().was_clean()) {  // S4
      Creation creation(memory_);
      creation.set(top_->log, null_offset);
    }
    if (top_->log != null_offset &&
        (!memory_.pool().contains(top_->log, log_bytes) || !heap.mark(top_->log, log_bytes)))
      return corrupt(std::string(Self::name) + ": the log lies where no block can lie");
    Walk<Memory> walk(memory_, Walk<Memory>::Purpose::recover);
    if (!self().reopen(walk, root.option[2]))
      return corrupt(std::string(Self::name) + ": its table is damaged");
    if (top_->loading != 0) {  // S1
      Creation creation(memory_);
      self().clear(creation);
      creation.set(top_->loading, 0);
    }
    if (auto sound = self().walk(walk); !sound) return sound;
    records_.store(walk.records(), std::memory_order_relaxed);
    return self().adopt();
  }
  return {};
}

/// After a recovery (S4), or in a pool made by the other persistent mode.
template <class Self, class Memory>
void StructureIndex<Self, Memory>::complete_log() {
  if constexpr (Memory::lends_log) {
    if (top_->log == null_offset) {
      Reservation block = memory_.heap().reserve(log_bytes);
      if (!block) return;
      memory_.heap().publish({&block, 1}, reinterpret_cast<std::atomic<std::uint64_t>*>(&top_->log),
                             block.offset);
    }
    memory_.own_log(memory_.pool().template at<void>(top_->log));
  }
}

/// How many of the records were inserted: those before the first that is too long or finds no room.
template <class Self, class Memory>
std::size_t StructureIndex<Self, Memory>::load(std::span<const SlotRecord> records) {
  const typename Memory::Loading loading(memory_);
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto& [key, value] = records[i];
    if (value.size() > max_slot_value_bytes) return i;
    const Outcome outcome =
        perform([&](Change& change) { return self().put(change, key, value, Put::insert); });
    if (outcome != Outcome::ok) return i;
  }
  return records.size();
}

/// Record by record; a crash before the end leaves the structure empty (S1).
template <class Self, class Memory>
Result<void> StructureIndex<Self, Memory>::bulk_load(std::span<const SlotRecord> records) {
  const Lock::WholeGuard guard(lock_);
  const auto descends = [](const auto& a, const auto& b) { return a.key >= b.key; };
  if (size() != 0 || std::ranges::adjacent_find(records, descends) != records.end())
    return Error{ErrorCode::usage, "bulk_load needs an empty index and ascending keys", "", ""};
  const auto mark_loading = [&](std::uint64_t loading) {
    Creation creation(memory_);
    creation.set(top_->loading, loading);
    creation.commit();
  };
  mark_loading(1);
  const std::size_t loaded = load(records);
  const bool whole = loaded == records.size();
  const bool fits = whole || records[loaded].value.size() <= max_slot_value_bytes;
  for (std::size_t i = loaded; !whole && i-- > 0;)
    perform([&](Change& change) { return self().take(change, records[i].key); });
  mark_loading(0);
  if (!fits) return Error{ErrorCode::usage, "a value is longer than a slot", "", ""};
  return whole ? Result<void>{} : no_room();
}

template <class Self, class Memory>
Result<void> StructureIndex<Self, Memory>::check_invariants() const {
  const Lock::WholeGuard guard(lock_);
  Walk<Memory> walk(memory_, Walk<Memory>::Purpose::check);
  if (auto sound = self().walk(walk); !sound) return sound;
  if (walk.records() != size())
    return corrupt("S3: " + std::to_string(walk.records()) + " records are reachable, " +
                   std::to_string(size()) + " were counted");
  std::uint64_t reached = walk.blocks() + 1;
  if constexpr (Memory::recovers) {
    reached += 1 + (top_->log != null_offset ? 1 : 0);  // the root's block
    if (memory_.pool().roots().size() != 1) return {};
  }
  if (reached == memory_.live_blocks()) return {};
  return corrupt(std::to_string(memory_.live_blocks()) + " blocks are live, " +
                 std::to_string(reached) + " are reachable");
}

template <class Self, class Memory>
void StructureIndex<Self, Memory>::dismantle() noexcept {
  if constexpr (!Memory::recovers) {
    if (top_ == nullptr) return;
    Walk<Memory> walk(memory_, Walk<Memory>::Purpose::collect);
    static_cast<void>(self().walk(walk));
    for (const auto& [block, bytes] : walk.collected()) memory_.release(block, bytes);
    memory_.release(top_, sizeof(typename Self::Top));
  }
}

}  // namespace perdure::structure
