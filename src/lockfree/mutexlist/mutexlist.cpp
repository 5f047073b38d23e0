// Sorted list under one lock, durable: what the lock-free lists are compared with. See design.md.
//
//   head -> node {key, value, next, -} -> ... -> 0
//
// M1  a node is in the list <=> it can be reached from the head; keys ascend.
// M2  a node is durable before the link that leads to it, and that link before the lock is free.
#include "core/frame.h"
#include "lockfree/list/list_index.h"
#include "lockfree/list/relink.h"
#include "pm/shared_lock.h"

namespace perdure::lockfree {
namespace {

class MutexList : public ListIndex<MutexList> {
  friend ListIndex<MutexList>;

 public:
  static constexpr ListKind kind{.mode = "mutexlist", .number = 9};

  Outcome add(const Guard& guard, std::uint64_t key, std::uint64_t value) {
    const Held held(lock_);
    Link& link = place_of(key);
    const std::uint64_t next = link.load(std::memory_order_relaxed);
    if (holds(next, key)) return Outcome::exists;
    const std::uint32_t node = slab().take(guard);
    if (node == no_node) return Outcome::out_of_space;
    const std::uint64_t offset = place(node, key, value, next);
    pm::fence();
    pm::store_persist(link, offset);
    return Outcome::ok;
  }
  Outcome take(const Guard&, std::uint64_t key) {
    const Held held(lock_);
    Link& link = place_of(key);
    const std::uint64_t offset = link.load(std::memory_order_relaxed);
    if (!holds(offset, key)) return Outcome::not_found;
    pm::store_persist(link, at(offset).next.load(std::memory_order_relaxed));
    slab().give(slab().node_at(offset));  // nobody reads without the lock
    return Outcome::ok;
  }
  PERDURE_FRAME Outcome find(const Guard&, std::uint64_t key, std::uint64_t& value) {
    const Held held(lock_);
    const std::uint64_t offset = place_of(key).load(std::memory_order_relaxed);
    if (!holds(offset, key)) return Outcome::not_found;
    value = at(offset).value.load(std::memory_order_relaxed);
    return Outcome::ok;
  }
  template <class Each>
  void visit(std::uint64_t from, Each&& each) {
    const Held held(lock_);
    for (std::uint64_t offset = place_of(from).load(std::memory_order_relaxed); offset != 0;) {
      const Node& node = at(offset);
      if (!each(node.key.load(std::memory_order_relaxed),
                node.value.load(std::memory_order_relaxed)))
        return;
      offset = node.next.load(std::memory_order_relaxed);
    }
  }

 private:
  class Held {
   public:
    explicit Held(pm::SharedLock& lock) noexcept : lock_(lock) { lock.exclude(); }
    ~Held() { lock_.readmit(); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    pm::SharedLock& lock_;
  };

  [[nodiscard]] bool holds(std::uint64_t offset, std::uint64_t key) const noexcept {
    return offset != 0 && at(offset).key.load(std::memory_order_relaxed) == key;
  }
  /// The link to the first node whose key is not less. The caller holds the lock.
  [[nodiscard]] Link& place_of(std::uint64_t key) const noexcept {
    Link* link = &slab().top().head;
    for (std::uint64_t offset; (offset = link->load(std::memory_order_relaxed)) != 0;) {
      Node& node = at(offset);
      if (node.key.load(std::memory_order_relaxed) >= key) break;
      link = &node.next;
    }
    return *link;
  }
  [[nodiscard]] static std::uint64_t hidden() noexcept { return 0; }
  [[nodiscard]] Result<void> rebuild() {
    const char* const wrong = relink(slab(), slab().top().head);
    return wrong == nullptr ? Result<void>() : corrupt(wrong);
  }
  [[nodiscard]] std::uint64_t place(std::uint32_t node, std::uint64_t key, std::uint64_t value,
                                    std::uint64_t next) {
    const std::uint64_t offset = slab().offset_of(node);
    Node& words = at(offset);
    write_node(words, key, value, next);
    pm::flush(&words, sizeof words);
    return offset;
  }
  void set_first(std::uint64_t offset) { pm::store_persist(slab().top().head, offset); }
  void wipe() { pm::store_persist(slab().top().head, 0); }

  pm::SharedLock lock_;
};

PERDURE_REGISTER_INDEX(list_mutexlist, IndexInfo{
                                           .name = "list",
                                           .mode = "mutexlist",
                                           .title = "sorted list under a mutex",
                                           .replaces = false,
                                           .is_linear = true,
                                           .options = list_options(),
                                           .create_integer = MutexList::create,
                                           .recover_integer = MutexList::recover,
                                           .media = media_of_list,
                                           .heaps = {HeapKind::slab, HeapKind::dram},
                                       });

}  // namespace
}  // namespace perdure::lockfree
