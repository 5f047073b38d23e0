// Link-free list (Zuriel et al., OOPSLA 2019): nodes are durable, links are not. See design.md.
//
//   node {key, value, next | marked, meta: v1 bit 0, v2 bit 1}
//
// L1  a node is in the list on media <=> v1 = v2 and `next` is not marked. Recovery finds those by
//     a scan of the slab, and links them anew.
// L2  a free node is marked, or v1 != v2. Who takes it makes v1 != v2 before it writes anything
//     else; the node lies in one line, so its stores persist in their order.
// L3  an answer that follows from a node is given when that node is durable: `flags` in DRAM say
//     which flush is still missing.
// L4  a marked node is unlinked when its mark is durable.
#include <algorithm>
#include <memory>
#include <vector>

#include "core/frame.h"
#include "lockfree/list/links.h"
#include "lockfree/list/list_index.h"
#include "lockfree/list/relink.h"

namespace perdure::lockfree {
namespace {

class LinkFreeList : public ListIndex<LinkFreeList> {
  friend ListIndex<LinkFreeList>;

 public:
  static constexpr ListKind kind{.mode = "linkfree", .number = 6, .free = {.next = marked}};

  Outcome add(const Guard& guard, std::uint64_t key, std::uint64_t value) {
    std::uint32_t node = no_node;
    Window window;
    for (;;) {
      if (search(guard, key, window)) {
        if (node != no_node) slab().give(node);  // invalid on media (L2)
        make_durable(window.at);
        return Outcome::exists;
      }
      if (node == no_node && (node = slab().take(guard)) == no_node) return Outcome::out_of_space;
      const std::uint64_t offset = slab().offset_of(node);
      write(node, offset, key, value, window.at);
      if (!swap_link(*window.link, window.at, offset)) continue;
      make_durable(offset);
      return Outcome::ok;
    }
  }

  Outcome take(const Guard& guard, std::uint64_t key) {
    Window window;
    for (;;) {
      if (!search(guard, key, window)) return Outcome::not_found;
      Node& node = at(window.at);
      const std::uint64_t next = node.next.load(std::memory_order_acquire);
      if (is_marked(next)) continue;
      make_valid(node);
      if (!swap_link(node.next, next, next | marked)) continue;
      make_removal_durable(window.at);
      if (swap_link(*window.link, window.at, next))
        slab().retire(guard, window.at);
      else
        static_cast<void>(search(guard, key, window));
      return Outcome::ok;
    }
  }

  PERDURE_FRAME Outcome find(const Guard&, std::uint64_t key, std::uint64_t& value) {
    std::uint64_t offset = head_.load(std::memory_order_acquire);
    while (offset != 0) {
      Node& node = at(offset);
      const std::uint64_t found = node.key.load(std::memory_order_relaxed);
      if (found >= key) {
        if (found != key || !shows(offset)) break;
        value = node.value.load(std::memory_order_relaxed);
        return Outcome::ok;
      }
      offset = offset_in(node.next.load(std::memory_order_acquire));
    }
    return Outcome::not_found;
  }

  template <class Each>
  void visit(std::uint64_t from, Each&& each) {
    for (std::uint64_t offset = head_.load(std::memory_order_acquire); offset != 0;) {
      Node& node = at(offset);
      const std::uint64_t key = node.key.load(std::memory_order_relaxed);
      if (key >= from && shows(offset) && !each(key, node.value.load(std::memory_order_relaxed)))
        return;
      offset = offset_in(node.next.load(std::memory_order_acquire));
    }
  }

 private:
  static constexpr std::uint64_t first_valid = 1;
  static constexpr std::uint64_t second_valid = 2;
  static constexpr std::uint8_t insert_flushed = 1;
  static constexpr std::uint8_t removal_flushed = 2;

  [[nodiscard]] static bool is_valid(std::uint64_t meta) noexcept {
    return (meta & first_valid) == (meta >> 1 & first_valid);
  }
  [[nodiscard]] std::atomic<std::uint8_t>& flags(std::uint64_t offset) noexcept {
    return flags_[slab().node_at(offset)];
  }

  /// L2
  void write(std::uint32_t node, std::uint64_t offset, std::uint64_t key, std::uint64_t value,
             std::uint64_t next) noexcept {
    Node& words = at(offset);
    flags_[node].store(0, std::memory_order_relaxed);
    const std::uint64_t meta = words.meta.load(std::memory_order_relaxed);
    if (is_valid(meta)) words.meta.store(meta ^ first_valid, std::memory_order_release);
    write_node(words, key, value, next);
  }
  static void make_valid(Node& node) noexcept {
    const std::uint64_t meta = node.meta.load(std::memory_order_acquire);
    if (!is_valid(meta)) node.meta.store(meta ^ second_valid, std::memory_order_release);
  }
  void make_durable(std::uint64_t offset) noexcept {
    Node& node = at(offset);
    make_valid(node);
    std::atomic<std::uint8_t>& done = flags(offset);
    if ((done.load(std::memory_order_acquire) & insert_flushed) != 0) return;
    pm::persist(&node, sizeof node);
    done.fetch_or(insert_flushed, std::memory_order_acq_rel);
  }
  void make_removal_durable(std::uint64_t offset) noexcept {
    std::atomic<std::uint8_t>& done = flags(offset);
    if ((done.load(std::memory_order_acquire) & removal_flushed) != 0) return;
    pm::persist(&at(offset), sizeof(Node));
    done.fetch_or(removal_flushed, std::memory_order_acq_rel);
  }
  /// True where the node is in the list; what follows from it is durable either way (L3).
  [[nodiscard]] bool shows(std::uint64_t offset) noexcept {
    const bool removed = is_marked(at(offset).next.load(std::memory_order_acquire));
    if (removed)
      make_removal_durable(offset);
    else
      make_durable(offset);
    return !removed;
  }

  [[nodiscard]] bool search(const Guard& guard, std::uint64_t key, Window& window) {
    for (;;) {
      window = {.link = &head_, .at = head_.load(std::memory_order_acquire)};
      for (;;) {
        if (window.at == 0) return false;
        Node& node = at(window.at);
        const std::uint64_t next = node.next.load(std::memory_order_acquire);
        if (is_marked(next)) [[unlikely]] {
          make_removal_durable(window.at);  // L4
          if (!swap_link(*window.link, window.at, offset_in(next))) break;
          slab().retire(guard, window.at);
          window.at = offset_in(next);
          continue;
        }
        const std::uint64_t found = node.key.load(std::memory_order_relaxed);
        if (found >= key) return found == key;
        window.link = &node.next;
        window.at = next;
      }
    }
  }

  void prepare(const IndexPlace&) {
    flags_ = std::make_unique<std::atomic<std::uint8_t>[]>(slab().nodes());
  }
  [[nodiscard]] std::uint64_t hidden() const noexcept { return marked_nodes(slab(), head_); }

  [[nodiscard]] Result<void> rebuild() {
    constexpr auto relaxed = std::memory_order_relaxed;
    std::vector<std::uint32_t> live;
    for (std::uint32_t node = 0; node < slab().nodes(); ++node) {
      const Node& words = at(slab().offset_of(node));
      if (is_valid(words.meta.load(relaxed)) && !is_marked(words.next.load(relaxed)))
        live.push_back(node);
    }
    const auto key_of = [&](std::uint32_t node) {
      return at(slab().offset_of(node)).key.load(relaxed);
    };
    std::ranges::sort(live, {}, key_of);
    if (std::ranges::adjacent_find(live, {}, key_of) != live.end())
      return corrupt("two nodes hold one key");
    Link* link = &head_;
    for (const std::uint32_t node : live) {
      static_cast<void>(slab().free_nodes().claim(node));
      flags_[node].store(insert_flushed, relaxed);
      const std::uint64_t offset = slab().offset_of(node);
      link->store(offset, relaxed);
      link = &at(offset).next;
    }
    link->store(0, relaxed);
    return {};
  }
  [[nodiscard]] std::uint64_t place(std::uint32_t node, std::uint64_t key, std::uint64_t value,
                                    std::uint64_t next) {
    const std::uint64_t offset = slab().offset_of(node);
    write(node, offset, key, value, next);
    make_valid(at(offset));
    pm::flush(&at(offset), sizeof(Node));
    flags_[node].store(insert_flushed, std::memory_order_release);
    return offset;
  }
  void set_first(std::uint64_t offset) { head_.store(offset, std::memory_order_release); }
  void wipe() {
    for (std::uint32_t node = 0; node < slab().nodes(); ++node) {
      Node& words = at(slab().offset_of(node));
      words.next.store(marked, std::memory_order_release);
      pm::flush(&words, sizeof words);
    }
    pm::fence();
  }

  Link head_{0};
  std::unique_ptr<std::atomic<std::uint8_t>[]> flags_;
};

PERDURE_REGISTER_INDEX(list_linkfree,
                       IndexInfo{
                           .name = "list",
                           .mode = "linkfree",
                           .title = "link-free sorted list (Zuriel et al., OOPSLA 2019)",
                           .replaces = false,
                           .is_linear = true,
                           .progress = Progress::lock_free,
                           .options = list_options(),
                           .create_integer = LinkFreeList::create,
                           .recover_integer = LinkFreeList::recover,
                           .media = media_of_list,
                           .heaps = {HeapKind::slab, HeapKind::dram},
                       });

}  // namespace
}  // namespace perdure::lockfree
