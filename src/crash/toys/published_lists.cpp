#include "crash/toys/published_lists.h"

#include <array>
#include <span>

#include "lockfree/list/harris_list.h"

namespace perdure::lockfree {
namespace {

/// Every change is flushed by whoever makes it; nobody looks whether another one's is.
struct PublishedLinks : TraversedLinks {
  static void ready(const Window&) noexcept {}
  static void depend(Link&, Node*) noexcept {}
};

struct PublishedLogFree {
  using Links = PublishedLinks;
  static constexpr ListKind kind{.mode = "published_logfree", .number = 101};
};

/// "each thread stores the operation type and its parameters in its scratch buffer and marks it as
/// in-flight. Once the operation is completed, the operation is marked as completed."
struct alignas(pm::cache_line_bytes) ScratchBuffer {
  enum Operation : std::uint64_t { none, insertion, removal };
  std::atomic<std::uint64_t> in_flight;
  std::atomic<std::uint64_t> key;
  std::atomic<std::uint64_t> value;

  void begin(Operation what, std::uint64_t its_key, std::uint64_t its_value) noexcept {
    key.store(its_key, std::memory_order_release);
    value.store(its_value, std::memory_order_release);
    in_flight.store(what, std::memory_order_release);
    pm::persist(this, sizeof *this);
  }
  void end() noexcept { pm::store_persist(in_flight, none); }
};

/// "On recovery, scratch buffers of all threads are examined and any in-flight operations are
/// redone." What else was linked behind a link that was not durable is not thought of.
class PublishedTLog : public ListIndex<PublishedTLog> {
  friend ListIndex<PublishedTLog>;

 public:
  static constexpr ListKind kind{.mode = "published_tlog",
                                 .number = 100,
                                 .log_bytes = pm::max_threads * sizeof(ScratchBuffer)};

  Outcome add(const Guard& guard, std::uint64_t key, std::uint64_t value) {
    ScratchBuffer& buffer = buffer_[guard.slot()];
    buffer.begin(ScratchBuffer::insertion, key, value);
    const Outcome outcome = insert_now(guard, key, value);
    buffer.end();
    return outcome;
  }
  Outcome take(const Guard& guard, std::uint64_t key) {
    ScratchBuffer& buffer = buffer_[guard.slot()];
    buffer.begin(ScratchBuffer::removal, key, 0);
    const Outcome outcome = remove_now(guard, key);
    buffer.end();
    return outcome;
  }
  Outcome find(const Guard&, std::uint64_t key, std::uint64_t& value) {
    Outcome outcome = Outcome::not_found;
    visit(key, [&](std::uint64_t found, std::uint64_t its_value) {
      if (found != key) return false;
      value = its_value;
      outcome = Outcome::ok;
      return false;
    });
    return outcome;
  }
  template <class Each>
  void visit(std::uint64_t from, Each&& each) {
    for (std::uint64_t offset = offset_in(head().load(std::memory_order_acquire)); offset != 0;) {
      Node& node = at(offset);
      const std::uint64_t key = node.key.load(std::memory_order_relaxed);
      const std::uint64_t next = node.next.load(std::memory_order_acquire);
      if (key >= from && !is_marked(next) && !each(key, node.value.load())) return;
      offset = offset_in(next);
    }
  }

 private:
  [[nodiscard]] Link& head() const noexcept { return slab().top().head; }

  Outcome insert_now(const Guard& guard, std::uint64_t key, std::uint64_t value) {
    const std::uint32_t node = slab().take(guard);
    if (node == no_node) return Outcome::out_of_space;
    for (Window window;;) {
      if (search(slab(), links_, guard, head(), key, window)) {
        slab().give(node);
        return Outcome::exists;
      }
      const std::uint64_t offset = place(node, key, value, window.at);
      pm::fence();
      if (links_.change(*window.link, window.at, offset)) return Outcome::ok;
    }
  }
  Outcome remove_now(const Guard& guard, std::uint64_t key) {
    for (Window window;;) {
      if (!search(slab(), links_, guard, head(), key, window)) return Outcome::not_found;
      Node& node = at(window.at);
      const std::uint64_t next = node.next.load(std::memory_order_acquire);
      if (is_marked(next) || !links_.change(node.next, next, next | marked)) continue;
      if (links_.unlink(*window.link, window.at, next))
        slab().retire(guard, window.at);
      else
        static_cast<void>(search(slab(), links_, guard, head(), key, window));
      return Outcome::ok;
    }
  }

  void prepare(const IndexPlace&) {
    buffer_ = {reinterpret_cast<ScratchBuffer*>(slab().base() + slab().top().logs),
               pm::max_threads};
  }
  [[nodiscard]] std::uint64_t hidden() const noexcept { return marked_nodes(slab(), head()); }
  [[nodiscard]] Result<void> rebuild() {
    if (const char* const wrong = relink(slab(), head())) return corrupt(wrong);
    const Guard guard(slab().reclaimer());
    for (ScratchBuffer& buffer : buffer_) {
      const std::uint64_t operation = buffer.in_flight.load(std::memory_order_relaxed);
      if (operation == ScratchBuffer::none) continue;
      if (operation == ScratchBuffer::insertion)
        static_cast<void>(insert_now(guard, buffer.key.load(), buffer.value.load()));
      else
        static_cast<void>(remove_now(guard, buffer.key.load()));
      buffer.end();
    }
    return {};
  }
  [[nodiscard]] std::uint64_t place(std::uint32_t node, std::uint64_t key, std::uint64_t value,
                                    std::uint64_t next) {
    const std::uint64_t offset = slab().offset_of(node);
    Node& words = at(offset);
    write_node(words, key, value, next);
    pm::flush(&words, sizeof words);
    return offset;
  }
  void set_first(std::uint64_t offset) { pm::store_persist(head(), offset); }
  void wipe() { pm::store_persist(head(), 0); }

  PublishedLinks links_;
  std::span<ScratchBuffer> buffer_;
};

template <class List>
IndexInfo describe_list(const char* name, const char* title) {
  IndexInfo info;
  info.name = name;
  info.title = title;
  info.replaces = false;
  info.options = list_options();
  info.create_integer = List::create;
  info.recover_integer = List::recover;
  info.media = media_of_list;
  return info;
}

}  // namespace
}  // namespace perdure::lockfree

namespace perdure::crash {

std::span<const IndexInfo> published_lists() {
  using namespace lockfree;
  static const std::array lists{
      describe_list<PublishedTLog>("toy:published_tlog", "toy: TLog as published"),
      describe_list<HarrisList<PublishedLogFree>>("toy:published_logfree",
                                                  "toy: log-free as published, with flushes")};
  return lists;
}

}  // namespace perdure::crash
