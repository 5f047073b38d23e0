// A linked list of records in blocks of the heap.
//
// L1  whatever the list reaches was durable before it was linked.
// L2  a block is freed only when the word that unlinks it is durable.
// L3  a node without a value is dead: its record was removed, and another one may take it.
#include "crash/toys/toy.h"

namespace perdure::crash {
namespace {

struct Node {
  Word key;
  Word value;
  Word next;
};
struct Root {
  Word head;
};

constexpr std::uint64_t no_value = ~std::uint64_t{0};

class ListToy final : public Toy {
 public:
  ListToy(Pool& pool, Root& root, Defect defect, bool repaired)
      : Toy(defect, repaired), pool_(pool), root_(root) {}

  Outcome insert(std::uint64_t key, std::uint64_t value) override {
    return locked([&] {
      Word* const link = link_of(key);
      return is_present(*link) ? Outcome::exists : put(link, key, value);
    });
  }
  Outcome upsert(std::uint64_t key, std::uint64_t value) override {
    return locked([&] {
      Word* const link = link_of(key);
      return put(link, key, value);
    });
  }
  Outcome update(std::uint64_t key, std::uint64_t value) override {
    return locked([&] {
      Word* const link = link_of(key);
      return is_present(*link) ? replace(*link, key, value) : Outcome::not_found;
    });
  }
  Outcome remove(std::uint64_t key) override {
    return locked([&] {
      Word* const link = link_of(key);
      const std::uint64_t gone = link->load(relaxed);
      if (!is_present(*link)) return Outcome::not_found;
      if (is(Defect::dead_nodes_stay)) {
        pm::store_persist(node(gone).value, no_value);
        return Outcome::ok;
      }
      pm::store_persist(*link, node(gone).next.load(relaxed));
      pool_.heap().free(gone, sizeof(Node));
      return Outcome::ok;
    });
  }
  Outcome lookup(std::uint64_t key, std::uint64_t& value) override {
    return locked([&] {
      const std::uint64_t at = link_of(key)->load(relaxed);
      if (!is_present(at)) return Outcome::not_found;
      value = node(at).value.load(relaxed);
      return Outcome::ok;
    });
  }
  [[nodiscard]] std::uint64_t size() const override {
    std::uint64_t records = 0;
    for (std::uint64_t at = root_.head.load(relaxed); at != null_offset; at = node(at).next)
      if (is_present(at)) ++records;
    return records;
  }
  [[nodiscard]] Result<void> check_invariants() const override {
    if (is(Defect::old_node_not_freed)) return {};  // as most structures do not ask the heap
    std::uint64_t nodes = 0;
    for (std::uint64_t at = root_.head.load(relaxed); at != null_offset; at = node(at).next)
      ++nodes;
    if (pool_.heap().usage().live_blocks != nodes + 1)
      return damaged("the heap holds other blocks than the list reaches");
    return {};
  }
  [[nodiscard]] Result<void> recover() {
    for (std::uint64_t at = root_.head.load(relaxed); at != null_offset; at = node(at).next)
      if (!pool_.contains(at, sizeof(Node)) || !pool_.heap().mark(at, sizeof(Node)))
        return damaged("L1: the list leads to no block, or twice to one");
    return {};
  }

 private:
  template <class Work>
  Outcome locked(Work&& work) {
    inside_.fetch_add(1);
    while (!lock_.lock()) {
    }
    const Outcome outcome = work();
    lock_.unlock();
    inside_.fetch_sub(1);
    return outcome;
  }
  [[nodiscard]] Node& node(std::uint64_t at) const { return *pool_.at<Node>(at); }

  [[nodiscard]] bool is_present(std::uint64_t at) const {
    return at != null_offset && node(at).value.load(relaxed) != no_value;
  }

  /// The link to the key's node, or to a dead one in which it may be put, or the last.
  [[nodiscard]] Word* link_of(std::uint64_t key) const {
    Word* unused = nullptr;
    Word* link = &root_.head;
    for (; *link != null_offset; link = &node(*link).next) {
      if (is_present(*link) && node(*link).key.load(relaxed) == key) return link;
      if (!is_present(*link) && !has(Defect::dead_nodes_stay)) unused = link;
    }
    return unused != nullptr ? unused : link;
  }

  Outcome put(Word* link, std::uint64_t key, std::uint64_t value) {
    return *link == null_offset ? add(key, value) : replace(*link, key, value);
  }

  void fill(std::uint64_t at, std::uint64_t key, std::uint64_t value, std::uint64_t next) {
    Node& made = node(at);
    made.key.store(key, relaxed);
    made.value.store(value, relaxed);
    made.next.store(next, relaxed);
    pm::persist(&made, sizeof made);
  }

  Outcome add(std::uint64_t key, std::uint64_t value) {
    Reservation block = pool_.heap().reserve(sizeof(Node));
    if (!block) return Outcome::out_of_space;
    const std::uint64_t next = root_.head.load(relaxed);
    const std::uint64_t at = block.offset;
    if (has(Defect::publish_before_init)) {
      pool_.heap().publish({&block, 1}, &root_.head, at);
      fill(at, key, value, next);
    } else {
      fill(at, key, value, next);
      pool_.heap().publish({&block, 1}, &root_.head, at);
    }
    return Outcome::ok;
  }

  /// A new node takes the old one's place.
  Outcome replace(Word& link, std::uint64_t key, std::uint64_t value) {
    const std::uint64_t old = link.load(relaxed);
    const std::uint64_t next = node(old).next.load(relaxed);
    if (has(Defect::free_before_unlink)) {
      pool_.heap().free(old, sizeof(Node));
      link.store(next, relaxed);
      const Outcome outcome = add(key, value);
      pm::persist(&link, sizeof link);
      return outcome;
    }
    Reservation block = pool_.heap().reserve(sizeof(Node));
    if (!block) return Outcome::out_of_space;
    fill(block.offset, key, value, next);
    pool_.heap().publish({&block, 1}, &link, block.offset);
    // The defect: whoever has others waiting leaves it for later, and nobody does it.
    if (has(Defect::old_node_not_freed) && inside_.load() > 1) return Outcome::ok;
    pool_.heap().free(old, sizeof(Node));
    return Outcome::ok;
  }

  Pool& pool_;
  Root& root_;
  pm::VersionLock lock_;
  std::atomic<unsigned> inside_{0};  ///< operations that hold the lock or wait for it
};

}  // namespace

std::vector<MediaStruct> list_media(const IndexOptions&) {
  return {{"root", sizeof(Root), {{"head", 0, 8}}},
          {"node",
           sizeof(Node),
           {{"key", offsetof(Node, key), 8},
            {"value", offsetof(Node, value), 8},
            {"next", offsetof(Node, next), 8}}}};
}

Result<std::unique_ptr<IntegerIndex>> open_list(const IndexPlace& place, Defect defect,
                                                bool repaired, bool create) {
  Pool& pool = *place.pool;
  if (create) {
    Reservation block = pool.heap().reserve(sizeof(Root));
    if (!block) return Error{ErrorCode::out_of_space, "no room for a toy", "", ""};
    auto& root = *pool.at<Root>(block.offset);
    root.head.store(null_offset, relaxed);
    pm::persist(&root, sizeof root);
    if (auto done = pool.add_root(place.root_name, block); !done) return done.error();
    return std::unique_ptr<IntegerIndex>(std::make_unique<ListToy>(pool, root, defect, repaired));
  }
  return recovered(place, [&](std::uint64_t at) {
    return std::make_unique<ListToy>(pool, *pool.at<Root>(at), defect, repaired);
  });
}

}  // namespace perdure::crash
