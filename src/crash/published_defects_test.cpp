// Defects of published structures, written again in structures of our own that join the explorer as
// any other index does: each is found, and the sound structure is not objected to.
//
//   sibling_unflushed   a split truncates the old node before the link to the new one is durable
//                       (FAST & FAIR; found by RECIPE's authors and by Witcher)
//   two_words           a directory's address and capacity are two words (CCEH; RECIPE)
//   lock_kept           a lock lies beside the data, is flushed with it, and recovery leaves it
//                       (P-CLHT, Level hashing; Witcher)
//   moved_in_two_steps  a record is deleted here before, or after, it is durable there, and
//                       recovery does not tell which (Level hashing; Witcher)
//   log_without_fence   a log entry and its valid flag under one fence (PMDK examples; Agamotto)
//   read_before_flush   a reader returns what its writer has not flushed yet (P-Masstree, P-ART;
//                       Durinn)
#include <gtest/gtest.h>

#include <bit>

#include "crash/search.h"
#include "crash/smells.h"
#include "pm/pm.h"

namespace perdure::crash {
namespace {

enum class Flaw : std::uint8_t {
  none,
  sibling_unflushed,
  two_words,
  lock_kept,
  moved_in_two_steps,
  log_without_fence,
  read_before_flush,
  needless_flush,
  unseen_store,  ///< one that the compiler gives no hook
};

using Word = std::atomic<std::uint64_t>;
constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;
using Opened = Result<std::unique_ptr<IntegerIndex>>;

Error corrupt(const char* what) { return {ErrorCode::corrupt, what, "", ""}; }

std::uint64_t root_of(const IndexPlace& place) {
  for (const PoolRoot& root : place.pool->roots())
    if (root.name == place.root_name) return root.offset;
  return null_offset;
}

__attribute__((no_sanitize("thread"), noinline)) void store_unseen(Word& word,
                                                                   std::uint64_t value) {
  *reinterpret_cast<volatile std::uint64_t*>(&word) = value;
}

/// What both structures leave out.
class Part : public IntegerIndex {
 public:
  explicit Part(Pool& pool) : pool_(pool) {}
  std::size_t scan(std::uint64_t, std::size_t, IntegerScan&) override { return 0; }
  Result<void> bulk_load(std::span<const IntegerRecord>) override {
    return Error{ErrorCode::unsupported, "no bulk load", "", ""};
  }
  [[nodiscard]] Result<void> check_invariants() const override { return {}; }
  [[nodiscard]] std::uint64_t dram_bytes() const override { return 0; }

 protected:
  Pool& pool_;
};

/// A chain of nodes in key order, each with four records; updates go through a log of one entry.
template <Flaw flaw>
class Chain final : public Part {
 public:
  static constexpr unsigned slots = 4;
  struct alignas(64) Node {
    Word used;  ///< bit i: record i is there
    Word lock;
    Word mended;  ///< 1 where recovery was
    alignas(64) Word next;
    Word low;  ///< never changes
    struct Record {
      Word key;
      Word value;
    };
    alignas(64) Record record[slots];
  };
  struct Root {
    Word head;
    alignas(64) Word log_valid;
    alignas(64) Word log_node;
    Word log_slot;
    Word log_value;
  };

  Chain(Pool& pool, Root& root) : Part(pool), root_(root) {}

  static Opened create(const IndexPlace& place) {
    Pool& pool = *place.pool;
    Reservation block = pool.heap().reserve(sizeof(Root));
    Reservation first = pool.heap().reserve(sizeof(Node));
    if (!block || !first) return Error{ErrorCode::out_of_space, "no room", "", ""};
    format(*pool.at<Node>(first.offset), 0, null_offset);
    auto& root = *pool.at<Root>(block.offset);
    root.head.store(first.offset, relaxed);
    root.log_valid.store(0, relaxed);
    pm::persist(pool.at<Node>(first.offset), sizeof(Node));
    pm::persist(&root, sizeof root);
    pool.heap().publish({&first, 1});
    if (auto done = pool.add_root(place.root_name, block); !done) return done.error();
    return std::unique_ptr<IntegerIndex>(std::make_unique<Chain>(pool, root));
  }

  static Opened recover(const IndexPlace& place) {
    Pool& pool = *place.pool;
    const std::uint64_t at = root_of(place);
    if (at == null_offset) return Error{ErrorCode::not_found, "no chain", "", ""};
    auto chain = std::make_unique<Chain>(pool, *pool.at<Root>(at));
    if (auto done = chain->mend(); !done) return done.error();
    if (auto done = pool.root_recovered(place.root_name); !done) return done.error();
    return std::unique_ptr<IntegerIndex>(std::move(chain));
  }

  Outcome insert(std::uint64_t key, std::uint64_t value) override {
    return locked(key, [&](Node& node) {
      return find(node, key) < slots ? Outcome::exists : add(node, key, value);
    });
  }
  Outcome upsert(std::uint64_t key, std::uint64_t value) override {
    return locked(key, [&](Node& node) {
      const unsigned slot = find(node, key);
      return slot < slots ? change(node, slot, value) : add(node, key, value);
    });
  }
  Outcome update(std::uint64_t key, std::uint64_t value) override {
    return locked(key, [&](Node& node) {
      const unsigned slot = find(node, key);
      return slot < slots ? change(node, slot, value) : Outcome::not_found;
    });
  }
  Outcome remove(std::uint64_t key) override {
    return locked(key, [&](Node& node) {
      const unsigned slot = find(node, key);
      if (slot == slots) return Outcome::not_found;
      pm::store_persist(node.used, node.used.load(relaxed) & ~bit(slot));
      return Outcome::ok;
    });
  }
  Outcome lookup(std::uint64_t key, std::uint64_t& value) override {
    const auto read = [&](Node& node) {
      const unsigned slot = find(node, key);
      if (slot < slots) value = node.record[slot].value.load(acquire);
      return slot < slots ? Outcome::ok : Outcome::not_found;
    };
    return flaw == Flaw::read_before_flush ? read(node_of(key)) : locked(key, read);
  }
  [[nodiscard]] std::uint64_t size() const override {
    std::uint64_t records = 0;
    for (std::uint64_t at = root_.head.load(relaxed); at != null_offset;
         at = pool_.at<Node>(at)->next.load(relaxed))
      records += static_cast<unsigned>(std::popcount(pool_.at<Node>(at)->used.load(relaxed)));
    return records;
  }

 private:
  static constexpr std::uint64_t bit(unsigned slot) { return std::uint64_t{1} << slot; }

  static void format(Node& node, std::uint64_t low, std::uint64_t next) {
    node.used.store(0, relaxed);
    node.lock.store(0, relaxed);
    node.mended.store(0, relaxed);
    node.next.store(next, relaxed);
    node.low.store(low, relaxed);
  }

  [[nodiscard]] Node& node_of(std::uint64_t key) const {
    Node* node = pool_.at<Node>(root_.head.load(relaxed));
    for (;;) {
      const std::uint64_t next = node->next.load(acquire);
      if (next == null_offset || key < pool_.at<Node>(next)->low.load(relaxed)) return *node;
      node = pool_.at<Node>(next);
    }
  }
  static unsigned find(const Node& node, std::uint64_t key) {
    unsigned slot = 0;
    while (slot < slots && ((node.used.load(acquire) & bit(slot)) == 0 ||
                            node.record[slot].key.load(relaxed) != key))
      ++slot;
    return slot;
  }

  /// One lock for the structure: that of its first node, on media, where `lock_kept` leaves it.
  template <class Work>
  Outcome locked(std::uint64_t key, Work&& work) {
    Word& lock = pool_.at<Node>(root_.head.load(relaxed))->lock;
    for (std::uint64_t open = 0; !lock.compare_exchange_weak(open, 1); open = 0) pm::pause();
    const Outcome outcome = work(node_of(key));
    lock.store(0, release);
    return outcome;
  }

  Outcome add(Node& node, std::uint64_t key, std::uint64_t value) {
    const std::uint64_t used = node.used.load(relaxed);
    const auto slot = static_cast<unsigned>(std::countr_one(used));
    if (slot >= slots) return split(node) ? add(node_of(key), key, value) : Outcome::out_of_space;
    fill(node, slot, key, value);
    if (flaw == Flaw::needless_flush) pm::persist(&node.low, sizeof node.low);
    pm::store_persist(node.used, used | bit(slot));
    return Outcome::ok;
  }
  static void fill(Node& node, unsigned slot, std::uint64_t key, std::uint64_t value) {
    node.record[slot].key.store(key, relaxed);
    if (flaw == Flaw::unseen_store)
      store_unseen(node.record[slot].value, value);
    else
      node.record[slot].value.store(value, relaxed);
    pm::persist(&node.record[slot], sizeof node.record[slot]);
  }

  bool split(Node& node) {
    Reservation block = pool_.heap().reserve(sizeof(Node));
    if (!block) return false;
    std::uint64_t keys[slots];
    for (unsigned i = 0; i < slots; ++i) keys[i] = node.record[i].key.load(relaxed);
    std::sort(std::begin(keys), std::end(keys));
    Node& right = *pool_.at<Node>(block.offset);
    format(right, keys[slots / 2], node.next.load(relaxed));
    std::uint64_t gone = 0;
    for (unsigned i = 0; i < slots; ++i) {
      if (node.record[i].key.load(relaxed) < right.low.load(relaxed)) continue;
      right.record[i].key.store(node.record[i].key.load(relaxed), relaxed);
      right.record[i].value.store(node.record[i].value.load(relaxed), relaxed);
      gone |= bit(i);
    }
    right.used.store(gone, relaxed);
    pm::persist(&right, sizeof right);
    pool_.heap().publish({&block, 1});
    node.next.store(block.offset, release);
    if (flaw != Flaw::sibling_unflushed) pm::persist(&node.next, sizeof node.next);
    pm::store_persist(node.used, node.used.load(relaxed) & ~gone);
    return true;
  }

  Outcome change(Node& node, unsigned slot, std::uint64_t value) {
    const std::uint64_t used = node.used.load(relaxed);
    const auto free = static_cast<unsigned>(std::countr_one(used));
    if (free < slots) {
      fill(node, free, node.record[slot].key.load(relaxed), value);
      if (flaw == Flaw::moved_in_two_steps) pm::store_persist(node.used, used | bit(free));
      pm::store_persist(node.used, (used | bit(free)) & ~bit(slot));
      return Outcome::ok;
    }
    root_.log_node.store(pool_.offset_of(&node), relaxed);
    root_.log_slot.store(slot, relaxed);
    root_.log_value.store(value, relaxed);
    pm::flush(&root_.log_node, 3 * sizeof(Word));
    if (flaw != Flaw::log_without_fence) pm::fence();
    pm::store_persist(root_.log_valid, 1);
    replay();
    pm::store_persist(root_.log_valid, 0);
    return Outcome::ok;
  }
  void replay() {
    Node& node = *pool_.at<Node>(root_.log_node.load(relaxed));
    pm::store_persist(node.record[root_.log_slot.load(relaxed)].value,
                      root_.log_value.load(relaxed));
  }

  Result<void> mend() {
    if (root_.log_valid.load(relaxed) != 0) {
      if (!pool_.contains(root_.log_node.load(relaxed), sizeof(Node)) ||
          root_.log_slot.load(relaxed) >= slots)
        return corrupt("the log names no record");
      replay();
      pm::store_persist(root_.log_valid, 0);
    }
    for (std::uint64_t at = root_.head.load(relaxed); at != null_offset;) {
      if (!pool_.contains(at, sizeof(Node)) || !pool_.heap().mark(at, sizeof(Node)))
        return corrupt("the chain leads to no block");
      Node& node = *pool_.at<Node>(at);
      if (flaw != Flaw::lock_kept) node.lock.store(0, relaxed);
      node.mended.store(1, relaxed);
      const std::uint64_t found = node.used.load(relaxed);
      if (found >= bit(slots) || node.mended.load(relaxed) != 1)
        return corrupt("a node has too many records, or lost what was stored to it");
      at = node.next.load(relaxed);
      if (at == null_offset) break;
      if (!pool_.contains(at, sizeof(Node))) return corrupt("the chain leads to no block");
      // A split was cut between its two steps: the records it gave away are there twice.
      std::uint64_t used = node.used.load(relaxed);
      for (unsigned i = 0; i < slots; ++i)
        if (node.record[i].key.load(relaxed) >= pool_.at<Node>(at)->low.load(relaxed))
          used &= ~bit(i);
      if (used != node.used.load(relaxed)) pm::store_persist(node.used, used);
    }
    return {};
  }

  Root& root_;
};

/// A hash table that doubles. Sound: one word leads to a block that knows its capacity.
template <Flaw flaw>
class Doubling final : public Part {
 public:
  static constexpr std::uint64_t free = 0, live = 1, removed = 2;
  struct Entry {
    Word key;
    Word value;
    Word state;
    Word unused;
  };
  struct Table {
    Word capacity;
    std::uint64_t unused[7];
    Entry entry[1];
  };
  struct Root {
    Word table;
    alignas(64) Word capacity;  ///< of the flawed one
  };

  Doubling(Pool& pool, Root& root) : Part(pool), root_(root) {}

  static Opened create(const IndexPlace& place) {
    Pool& pool = *place.pool;
    Reservation block = pool.heap().reserve(sizeof(Root));
    if (!block) return Error{ErrorCode::out_of_space, "no room", "", ""};
    auto table = std::make_unique<Doubling>(pool, *pool.at<Root>(block.offset));
    if (!table->replace(8)) return Error{ErrorCode::out_of_space, "no room", "", ""};
    pm::persist(&table->root_, sizeof(Root));
    if (auto done = pool.add_root(place.root_name, block); !done) return done.error();
    return std::unique_ptr<IntegerIndex>(std::move(table));
  }
  static Opened recover(const IndexPlace& place) {
    Pool& pool = *place.pool;
    const std::uint64_t at = root_of(place);
    if (at == null_offset) return Error{ErrorCode::not_found, "no table", "", ""};
    auto table = std::make_unique<Doubling>(pool, *pool.at<Root>(at));
    if (!pool.heap().mark(table->root_.table.load(relaxed), bytes_of(table->capacity())))
      return corrupt("the table is no block");
    if (auto done = pool.root_recovered(place.root_name); !done) return done.error();
    return std::unique_ptr<IntegerIndex>(std::move(table));
  }

  Outcome insert(std::uint64_t key, std::uint64_t value) override {
    return put(key, value, true, false);
  }
  Outcome upsert(std::uint64_t key, std::uint64_t value) override {
    return put(key, value, true, true);
  }
  Outcome update(std::uint64_t key, std::uint64_t value) override {
    return put(key, value, false, true);
  }
  Outcome remove(std::uint64_t key) override {
    Entry* const entry = find(key);
    if (entry == nullptr) return Outcome::not_found;
    pm::store_persist(entry->state, removed);
    return Outcome::ok;
  }
  Outcome lookup(std::uint64_t key, std::uint64_t& value) override {
    const Entry* const entry = find(key);
    if (entry == nullptr) return Outcome::not_found;
    value = entry->value.load(relaxed);
    return Outcome::ok;
  }
  [[nodiscard]] std::uint64_t size() const override {
    std::uint64_t records = 0;
    for (std::uint64_t i = 0; i < capacity(); ++i)
      records += table().entry[i].state.load(relaxed) == live;
    return records;
  }

 private:
  static std::size_t bytes_of(std::uint64_t capacity) {
    return offsetof(Table, entry) + std::min<std::uint64_t>(capacity, 1024) * sizeof(Entry);
  }
  [[nodiscard]] Table& table() const { return *pool_.at<Table>(root_.table.load(relaxed)); }
  [[nodiscard]] std::uint64_t capacity() const {
    return flaw == Flaw::two_words ? root_.capacity.load(relaxed) : table().capacity.load(relaxed);
  }
  /// The entry of the key, or a free one, or null: full.
  [[nodiscard]] Entry* place_of(Table& in, std::uint64_t capacity, std::uint64_t key) const {
    for (std::uint64_t i = 0; i < capacity; ++i) {
      Entry& entry = in.entry[(mix64(key) + i) % capacity];
      if (entry.state.load(relaxed) == free || entry.key.load(relaxed) == key) return &entry;
    }
    return nullptr;
  }
  [[nodiscard]] Entry* find(std::uint64_t key) const {
    Entry* const entry = place_of(table(), capacity(), key);
    return entry == nullptr || entry->state.load(relaxed) != live ? nullptr : entry;
  }
  Outcome put(std::uint64_t key, std::uint64_t value, bool may_add, bool may_change) {
    Entry* entry = place_of(table(), capacity(), key);
    if (entry == nullptr && !may_add) return Outcome::not_found;
    if (entry == nullptr) {
      if (!replace(2 * capacity())) return Outcome::out_of_space;
      entry = place_of(table(), capacity(), key);
    }
    const bool present = entry->state.load(relaxed) == live;
    if (present && !may_change) return Outcome::exists;
    if (!present && !may_add) return Outcome::not_found;
    // One line: what is stored first is durable first.
    entry->value.store(value, relaxed);
    if (!present) {
      entry->key.store(key, relaxed);
      entry->state.store(live, relaxed);
    }
    pm::persist(entry, sizeof *entry);
    return Outcome::ok;
  }
  bool replace(std::uint64_t capacity) {
    Reservation block = pool_.heap().reserve(bytes_of(capacity));
    if (!block) return false;
    Table& made = *pool_.at<Table>(block.offset);
    made.capacity.store(capacity, relaxed);
    for (std::uint64_t i = 0; i < capacity; ++i) made.entry[i].state.store(free, relaxed);
    const bool first = capacity == 8;
    for (std::uint64_t i = 0; !first && i < this->capacity(); ++i) {
      const Entry& old = table().entry[i];
      if (old.state.load(relaxed) != live) continue;
      Entry& entry = *place_of(made, capacity, old.key.load(relaxed));
      entry.value.store(old.value.load(relaxed), relaxed);
      entry.key.store(old.key.load(relaxed), relaxed);
      entry.state.store(live, relaxed);
    }
    pm::persist(&made, bytes_of(capacity));
    const std::uint64_t old = root_.table.load(relaxed);
    const std::uint64_t old_bytes = first ? 0 : bytes_of(this->capacity());
    if (flaw == Flaw::two_words) {
      root_.capacity.store(capacity, relaxed);
      pm::flush(&root_.capacity, sizeof(Word));
    }
    pool_.heap().publish({&block, 1}, &root_.table, block.offset);
    if (!first) pool_.heap().free(old, old_bytes);
    return true;
  }

  Root& root_;
};

template <class Structure>
IndexInfo info_of(const char* name) {
  IndexInfo info;
  info.name = name;
  info.ordered = false;
  info.create_integer = Structure::create;
  info.recover_integer = Structure::recover;
  return info;
}

Plan plan_over(const IndexInfo& info, unsigned threads, std::uint64_t states) {
  Plan plan;
  plan.subject = {&info, {}, std::size_t{512} << 10};
  plan.threads = threads;
  plan.most_states = states;
  plan.seconds = 120;
  return plan;
}

Summary run(const Plan& plan) {
  EXPECT_TRUE(pm::configure(pm::Durability::adr, pm::FlushInstruction::clwb).ok());
  Workspace workspace(std::size_t{512} << 10);
  return explore_many(plan, workspace, [](const Summary&) {});
}
Summary run(const IndexInfo& info, unsigned threads, std::uint64_t states) {
  return run(plan_over(info, threads, states));
}

struct Published {
  IndexInfo info;
  unsigned threads;
};
const std::vector<Published>& published() {
  static const std::vector<Published> all = {
      {info_of<Chain<Flaw::sibling_unflushed>>("sibling_unflushed"), 1},
      {info_of<Doubling<Flaw::two_words>>("two_words"), 1},
      {info_of<Chain<Flaw::lock_kept>>("lock_kept"), 1},
      {info_of<Chain<Flaw::moved_in_two_steps>>("moved_in_two_steps"), 1},
      {info_of<Chain<Flaw::log_without_fence>>("log_without_fence"), 1},
      {info_of<Chain<Flaw::read_before_flush>>("read_before_flush"), 2}};
  return all;
}

class PublishedDefectTest : public testing::TestWithParam<std::size_t> {};

TEST_P(PublishedDefectTest, IsFound) {
  const Published& each = published()[GetParam()];
  const Summary summary = run(each.info, each.threads, 60'000);
  EXPECT_TRUE(summary.violation.has_value()) << summary.coverage.states << " states";
}

INSTANTIATE_TEST_SUITE_P(Defects, PublishedDefectTest, testing::Range<std::size_t>(0, 6),
                         [](const auto& info) { return published()[info.param].info.name; });

TEST(PublishedStructureTest, TheSoundOnesAreNotObjectedTo) {
  for (const unsigned threads : {1U, 2U, 8U}) {
    const IndexInfo chain = info_of<Chain<Flaw::none>>("chain");
    const Summary summary = run(chain, threads, 10'000);
    EXPECT_FALSE(summary.violation.has_value())
        << threads << " threads: " << summary.violation->oracle << ": " << summary.violation->what;
    EXPECT_GE(summary.coverage.states, 10'000U);
  }
  const IndexInfo doubling = info_of<Doubling<Flaw::none>>("doubling");
  const Summary summary = run(doubling, 1, 10'000);
  EXPECT_FALSE(summary.violation.has_value())
      << summary.violation->oracle << ": " << summary.violation->what;
}

// Recovery stores to a word of a line before it reads another, by which the line is decided.
TEST(PublishedStructureTest, ContentsChosenLateKeepWhatRecoveryHasStored) {
  const IndexInfo chain = info_of<Chain<Flaw::none>>("chain");
  Plan plan = plan_over(chain, 1, 5'000);
  plan.bounds.product = 0;
  const Summary summary = run(plan);
  EXPECT_FALSE(summary.violation.has_value())
      << summary.violation->oracle << ": " << summary.violation->what;
  EXPECT_GT(summary.coverage.alike, 0U);
}

TEST(PublishedStructureTest, AStoreThatNoHookSawIsReportedAsThat) {
  const Summary summary = run(info_of<Chain<Flaw::unseen_store>>("unseen_store"), 1, 1'000);
  ASSERT_TRUE(summary.violation.has_value());
  EXPECT_EQ(summary.violation->oracle, Oracle::hooks) << summary.violation->what;
}

TEST(PublishedStructureTest, ANeedlessFlushIsReportedWithItsOperationAndLine) {
  const IndexInfo info = info_of<Chain<Flaw::needless_flush>>("needless_flush");
  Workspace workspace(std::size_t{512} << 10);
  Places places;
  const auto smells = find_smells(plan_over(info, 1, 1'000), workspace, places);
  const auto found = std::ranges::find_if(smells, [](const Smell& smell) {
    return smell.kind == Smell::Kind::clean_line_flushed && smell.during == Action::insert &&
           smell.place.show().find("published_defects_test.cpp:") != std::string::npos;
  });
  EXPECT_NE(found, smells.end()) << tell(smells);
}

}  // namespace
}  // namespace perdure::crash
