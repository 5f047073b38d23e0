#include "lockfree/tlog/tlog.h"

#include "core/frame.h"
#include "lockfree/list/harris_list.h"
#include "lockfree/tlog/log.h"
#include "lockfree/tlog/recovery.h"

namespace perdure::lockfree {
namespace {

/// Unlinks are flushed (T6); all else is done by the operations.
struct LoggedLinks : VolatileLinks {
  static bool unlink(Link& link, std::uint64_t from, std::uint64_t to) noexcept {
    if (!swap_link(link, from, to)) return false;
    pm::flush(&link, sizeof link);
    return true;
  }
};

class TLogList : public ListIndex<TLogList> {
  friend ListIndex<TLogList>;

 public:
  static constexpr ListKind kind{.mode = "tlog",
                                 .number = 8,
                                 .log_bytes = pm::max_threads * sizeof(Log),
                                 .free = {.next = marked}};

  Outcome add(const Guard& guard, std::uint64_t key, std::uint64_t value) {
    Log& log = log_[guard.slot()];
    std::uint32_t node = no_node;
    Window window;
    for (;;) {
      if (search(slab(), links_, guard, head(), key, window)) {
        if (node != no_node) take_back(log, node);
        return Outcome::exists;
      }
      if (node == no_node) {
        if ((node = slab().take(guard)) == no_node) return Outcome::out_of_space;
        write(log, node, key, value, window.at);
      } else {
        Node& again = at(slab().offset_of(node));
        again.next.store(window.at, std::memory_order_release);
        pm::flush(&again, sizeof again);  // the swap is the fence
      }
      if (!swap_link(*window.link, window.at, slab().offset_of(node))) continue;
      pm::persist(window.link, sizeof *window.link);
      settle(at(slab().offset_of(node)));
      log.end();
      return Outcome::ok;
    }
  }

  Outcome take(const Guard& guard, std::uint64_t key) {
    Log& log = log_[guard.slot()];
    Window window;
    for (;;) {
      if (!search(slab(), links_, guard, head(), key, window)) return Outcome::not_found;
      Node& node = at(window.at);
      if (is_in_flight(node)) pm::persist(window.link, sizeof *window.link);  // T4
      log.begin(window.at, generation_of(node), Change::removal);
      pm::fence();
      const std::uint64_t next = node.next.load(std::memory_order_acquire);
      if (is_marked(next) || !swap_link(node.next, next, next | marked)) {
        log.end();
        pm::fence();  // another thread's removal, or a new neighbour
        continue;
      }
      pm::persist(&node.next, sizeof node.next);
      const bool unlinked = links_.unlink(*window.link, window.at, next);
      if (!unlinked) static_cast<void>(search(slab(), links_, guard, head(), key, window));
      log.end();
      if (unlinked) slab().retire(guard, window.at);
      return Outcome::ok;
    }
  }

  PERDURE_FRAME Outcome find(const Guard&, std::uint64_t key, std::uint64_t& value) {
    Link* link = &head();
    std::uint64_t offset = offset_in(link->load(std::memory_order_acquire));
    while (offset != 0) {
      Node& node = at(offset);
      const std::uint64_t found = node.key.load(std::memory_order_relaxed);
      if (found >= key) {
        if (found != key) break;
        return shows(*link, node, value) ? Outcome::ok : Outcome::not_found;
      }
      link = &node.next;
      offset = offset_in(link->load(std::memory_order_acquire));
    }
    return Outcome::not_found;
  }

  template <class Each>
  void visit(std::uint64_t from, Each&& each) {
    Link* link = &head();
    for (std::uint64_t offset; (offset = offset_in(link->load(std::memory_order_acquire))) != 0;) {
      Node& node = at(offset);
      const std::uint64_t key = node.key.load(std::memory_order_relaxed);
      std::uint64_t value = 0;
      if (key >= from && shows(*link, node, value) && !each(key, value)) return;
      link = &node.next;
    }
  }

 private:
  [[nodiscard]] Link& head() const noexcept { return slab().top().head; }

  /// Logs the insertion; durable on return (T1, T2).
  void write(Log& log, std::uint32_t node, std::uint64_t key, std::uint64_t value,
             std::uint64_t next) noexcept {
    const std::uint64_t offset = slab().offset_of(node);
    Node& words = at(offset);
    const std::uint64_t generation = generation_of(words) + 1;
    words.meta.store(generation << 1 | in_flight, std::memory_order_release);
    write_node(words, key, value, next);
    pm::flush(&words, sizeof words);
    log.begin(offset, generation, Change::insertion);
    pm::fence();
  }
  /// T2
  void take_back(Log& log, std::uint32_t node) noexcept {
    log.end();
    Node& words = at(slab().offset_of(node));
    words.next.store(marked, std::memory_order_release);
    pm::persist(&words, sizeof words);
    slab().give(node);
  }
  [[nodiscard]] static bool shows(Link& link, Node& node, std::uint64_t& value) noexcept {
    if (is_in_flight(node)) [[unlikely]]
      pm::persist(&link, sizeof link);  // T5
    if (is_marked(node.next.load(std::memory_order_acquire))) return false;
    value = node.value.load(std::memory_order_relaxed);
    return true;
  }

  void prepare(const IndexPlace&) {
    log_ = {reinterpret_cast<Log*>(slab().base() + slab().top().logs), pm::max_threads};
  }
  [[nodiscard]] std::uint64_t hidden() const noexcept { return marked_nodes(slab(), head()); }
  [[nodiscard]] Result<void> rebuild() {
    const char* const wrong = TLogRecovery(slab(), head(), log_).run();
    return wrong == nullptr ? Result<void>() : corrupt(wrong);
  }
  [[nodiscard]] std::uint64_t place(std::uint32_t node, std::uint64_t key, std::uint64_t value,
                                    std::uint64_t next) {
    const std::uint64_t offset = slab().offset_of(node);
    Node& words = at(offset);
    words.meta.store((generation_of(words) + 1) << 1, std::memory_order_release);
    write_node(words, key, value, next);
    pm::flush(&words, sizeof words);
    return offset;
  }
  void set_first(std::uint64_t offset) { pm::store_persist(head(), offset); }
  void wipe() { pm::store_persist(head(), 0); }

  LoggedLinks links_;
  std::span<Log> log_;
};

}  // namespace

PERDURE_REGISTER_INDEX(list_tlog, IndexInfo{
                                      .name = "list",
                                      .mode = "tlog",
                                      .title = "TLog sorted list (pmidio, section 6.2)",
                                      .replaces = false,
                                      .is_linear = true,
                                      .progress = Progress::lock_free,
                                      .options = list_options(),
                                      .create_integer = TLogList::create,
                                      .recover_integer = TLogList::recover,
                                      .media = media_of_list,
                                      .heaps = {HeapKind::slab, HeapKind::dram},
                                  });

}  // namespace perdure::lockfree
