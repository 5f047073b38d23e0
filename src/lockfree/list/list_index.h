// ListIndex: what all lists share: creation, recovery, the loop around an operation, walks.
//
// A list `Self` derives from it and has
//   static constexpr ListKind kind;
//   Outcome add(guard, key, value), take(guard, key), find(guard, key, value&);
//   bool visit(from, each): calls each(key, value) for the records from `from` on, ascending, until
//     that returns false; what it shows is durable;
//   Result<void> rebuild(): after a restart, from what is on media; claims every node in use;
//   void place(node, key, value, next), set_first(first): a bulk load, before anything is visible;
//   void wipe(): makes the list empty, durably: a bulk load that a power cut ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "index/common/bulk_check.h"
#include "index/common/index_root.h"
#include "index/registry.h"
#include "lockfree/base/durable_set.h"
#include "lockfree/memory/node_slab.h"

namespace perdure::lockfree {

/// What tells one list from another.
struct ListKind {
  const char* structure = "list";
  const char* mode = "";
  std::uint64_t number = 0;  ///< in the root's options: which list wrote it
  bool persistent = true;
  std::uint64_t log_bytes = 0;
  FreeNode free{};
  bool ordered = true;
};

inline constexpr std::uint64_t usual_nodes = std::uint64_t{1} << 20;

/// The options of every list. All but `nodes` are decisions of published benchmarks (design.md).
[[nodiscard]] inline std::vector<IndexOption> list_options(std::uint64_t nodes = usual_nodes) {
  return {{.name = "nodes",
           .description = "nodes in its slab, taken at creation; at most 3/4 of the pool's room",
           .fallback = nodes,
           .least = NodeSlab::least_nodes,
           .most = NodeSlab::most_nodes},
          {.name = "stride",
           .description = "bytes from one node to the next: 32, or 64; a pool keeps its own",
           .fallback = sizeof(Node),
           .least = sizeof(Node),
           .most = 2 * sizeof(Node)},
          {.name = "arenas",
           .description = "1: each thread takes nodes from a part of the slab of its own while it "
                          "lasts",
           .fallback = 0,
           .least = 0,
           .most = 1},
          {.name = "counted",
           .description = "1: every lookup adds to one counter that all threads share",
           .fallback = 0,
           .least = 0,
           .most = 1}};
}

/// For counterexamples.
[[nodiscard]] inline std::vector<MediaStruct> media_of_list(const IndexOptions& options) {
  return NodeSlab::media(options.get("nodes"), options.get("stride"),
                         {{"key", offsetof(Node, key), 8},
                          {"value", offsetof(Node, value), 8},
                          {"next", offsetof(Node, next), 8},
                          {"meta", offsetof(Node, meta), 8}});
}

template <class List>
class CountedLookups;

/// The first option in its root is the list's number, the second what a node is padded with: the
/// stride less the node.
template <class Self>
class ListIndex : public DurableSet {
 public:
  using Guard = Reclaimer::Guard;

  [[nodiscard]] static MadeIndex<IntegerKeys> create(const IndexPlace& place);
  [[nodiscard]] static MadeIndex<IntegerKeys> recover(const IndexPlace& place);

  /// Where all nodes are in use, or retired and perhaps still read by a thread that has stopped, it
  /// refuses after so many attempts: it does not wait for that thread to go on.
  Outcome insert(std::uint64_t key, std::uint64_t value) final {
    constexpr unsigned most_attempts = 128;
    constexpr unsigned attempts_before_naps = 32;
    pm::Backoff backoff;
    for (unsigned attempts = 1;; ++attempts) {
      const Outcome outcome =
          pinned([&](const Guard& guard) { return self().add(guard, key, value); });
      if (outcome != Outcome::out_of_space) [[likely]]
        return outcome;
      Reclaimer& reclaimer = slab_->reclaimer();
      if (attempts == most_attempts || !(reclaimer.collect() || reclaimer.holds_any()))
        return outcome;
      if (attempts < attempts_before_naps)
        backoff.wait();
      else
        pm::nap();
    }
  }
  Outcome remove(std::uint64_t key) final {
    return pinned([&](const Guard& guard) { return self().take(guard, key); });
  }
  Outcome lookup(std::uint64_t key, std::uint64_t& value) override {
    return pinned([&](const Guard& guard) { return self().find(guard, key, value); });
  }
  std::size_t scan(std::uint64_t from, std::size_t count, IntegerScan& out) override {
    if (count == 0) return 0;
    const Guard guard(slab_->reclaimer());
    self().visit(from, [&](std::uint64_t key, std::uint64_t value) {
      out.append(key, value);
      return out.size() < count;
    });
    return out.size();
  }
  Result<void> bulk_load(std::span<const IntegerRecord> records) override;

  [[nodiscard]] std::uint64_t size() const override {
    std::uint64_t count = 0;
    const Guard guard(slab_->reclaimer());
    const_cast<ListIndex*>(this)->self().visit(0, [&](std::uint64_t, std::uint64_t) {
      ++count;
      return true;
    });
    return count;
  }
  [[nodiscard]] std::uint64_t most_records() const final { return slab_->nodes(); }
  [[nodiscard]] Result<void> check_invariants() const override;
  [[nodiscard]] std::uint64_t dram_bytes() const override { return slab_->dram_bytes(); }
  void quiesce() final {
    while (slab_->reclaimer().collect()) {
    }
  }

 protected:
  [[nodiscard]] NodeSlab& slab() const noexcept { return *slab_; }
  [[nodiscard]] Node& at(std::uint64_t offset) const noexcept { return slab_->at(offset); }
  [[nodiscard]] Error corrupt(std::string what) const {
    return {ErrorCode::corrupt, std::string(Self::kind.mode) + " list: " + std::move(what), "",
            "restore the pool from a copy, or create a new one with PoolOptions::overwrite"};
  }
  /// Before `rebuild` or the first operation: the list's own state.
  void prepare(const IndexPlace& /*place*/) {}

 private:
  [[nodiscard]] Self& self() noexcept { return static_cast<Self&>(*this); }
  template <class Operation>
  [[gnu::always_inline]] Outcome pinned(Operation&& operation) {
    const Guard guard(slab_->reclaimer());
    return operation(guard);
  }
  [[nodiscard]] static IndexRootKind root_kind() {
    return {.index = Self::kind.structure, .layout_version = 1, .key_kind = KeyKind::integer};
  }
  [[nodiscard]] static SlabPlan plan(const IndexPlace& place, std::uint64_t stride) {
    return {.nodes = place.options.get("nodes"),
            .log_bytes = Self::kind.log_bytes,
            .free = Self::kind.free,
            .stride = stride,
            .arenas = place.options.get("arenas") != 0};
  }
  [[nodiscard]] static std::unique_ptr<Self> make(const IndexPlace& place) {
    if (place.options.get("counted") != 0) return std::make_unique<CountedLookups<Self>>();
    return std::make_unique<Self>();
  }
  [[nodiscard]] Result<void> take_up(const IndexPlace& place);

  std::unique_ptr<NodeSlab> slab_;
};

/// A list whose lookups all count themselves in one place, as in the published harness.
template <class List>
class CountedLookups final : public List {
 public:
  Outcome lookup(std::uint64_t key, std::uint64_t& value) override {
    lookups_.fetch_add(1);
    return List::lookup(key, value);
  }

  [[nodiscard]] std::uint64_t lookups() const noexcept { return lookups_.load(); }

 private:
  alignas(pm::cache_line_bytes) std::atomic<std::uint64_t> lookups_{0};
};

[[nodiscard]] constexpr bool is_stride(std::uint64_t bytes) noexcept {
  return bytes == sizeof(Node) || bytes == 2 * sizeof(Node);
}
[[nodiscard]] inline Result<void> check_stride(const IndexOptions& options) {
  const std::string stride = std::to_string(options.get("stride"));
  if (is_stride(options.get("stride"))) return {};
  return Error{ErrorCode::usage, "a list has no stride of " + stride + " bytes", "stride=" + stride,
               "give 32 or 64"};
}

template <class Self>
MadeIndex<IntegerKeys> ListIndex<Self>::create(const IndexPlace& place) {
  if (auto checked = check_stride(place.options); !checked) return checked.error();
  const std::uint64_t stride = place.options.get("stride");
  std::unique_ptr<Self> list = make(place);
  auto slab = Self::kind.persistent ? NodeSlab::create(*place.pool, plan(place, stride))
                                    : NodeSlab::in_dram(plan(place, stride), place.huge_pages);
  if (!slab) return slab.error();
  list->slab_ = std::move(slab).value();
  list->prepare(place);
  if (Self::kind.persistent) {
    const auto rooted =
        create_index_root(*place.pool, place.root_name, root_kind(),
                          {Self::kind.number, stride - sizeof(Node), 0}, list->slab_->top_offset());
    if (!rooted) {
      list->slab_->destroy();
      return rooted.error();
    }
  }
  return std::unique_ptr<IntegerIndex>(std::move(list));
}

template <class Self>
MadeIndex<IntegerKeys> ListIndex<Self>::recover(const IndexPlace& place) {
  if (auto checked = check_stride(place.options); !checked) return checked.error();
  std::unique_ptr<Self> list = make(place);
  if (auto done = list->take_up(place); !done) return done.error();
  return std::unique_ptr<IntegerIndex>(std::move(list));
}

template <class Self>
Result<void> ListIndex<Self>::take_up(const IndexPlace& place) {
  Pool& pool = *place.pool;
  const auto root = read_index_root(pool, place.root_name, root_kind());
  if (!root) return root.error();
  if (root->option[0] != Self::kind.number)
    return Error{ErrorCode::foreign,
                 "root '" + place.root_name + "' holds another " + Self::kind.structure + " than " +
                     Self::kind.mode,
                 pool.path(), "open it with the mode that made it"};
  const std::uint64_t stride = sizeof(Node) + root->option[1];
  if (!is_stride(stride)) return corrupt("its root has no stride of a list");
  auto slab = NodeSlab::recover(pool, root->head, plan(place, stride));
  if (!slab) return slab.error();
  slab_ = std::move(slab).value();
  self().prepare(place);
  if (slab_->top().loading.load(std::memory_order_relaxed) != 0) {
    self().wipe();
    pm::store_persist(slab_->top().loading, 0);
  }
  if (auto sound = self().rebuild(); !sound) return sound;
  slab_->spread();
  return pool.root_recovered(place.root_name);
}

template <class Self>
Result<void> ListIndex<Self>::bulk_load(std::span<const IntegerRecord> records) {
  if (auto refused = bulk_load_refusal(size() == 0, records)) return *refused;
  if (records.size() > slab_->free_nodes().free_count())
    return Error{ErrorCode::out_of_space, "the list's slab has too few nodes", "bulk load",
                 "create it with more nodes"};
  if (Self::kind.persistent) pm::store_persist(slab_->top().loading, 1);
  {
    const Guard guard(slab_->reclaimer());
    std::uint64_t next = 0;
    for (std::size_t i = records.size(); i-- > 0;) {  // each leads to the one behind it
      const std::uint32_t node = slab_->take(guard);
      PERDURE_ASSERT(node != no_node);
      next = self().place(node, records[i].key, records[i].value, next);
    }
    if (Self::kind.persistent) pm::fence();
    self().set_first(next);
  }
  if (Self::kind.persistent) pm::store_persist(slab_->top().loading, 0);
  return {};
}

template <class Self>
Result<void> ListIndex<Self>::check_invariants() const {
  std::uint64_t count = 0;
  std::uint64_t before = 0;
  bool ascends = true;
  Self& list = const_cast<ListIndex*>(this)->self();
  {
    const Guard guard(slab_->reclaimer());
    list.visit(0, [&](std::uint64_t key, std::uint64_t) {
      ascends = ascends && (count == 0 || key > before || !Self::kind.ordered);
      before = key;
      ++count;
      return ascends;
    });
  }
  if (!ascends) return corrupt("its keys do not ascend at " + std::to_string(before));
  return slab_->check_count(count + list.hidden());
}

}  // namespace perdure::lockfree
