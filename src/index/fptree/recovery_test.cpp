// Power cuts inside each step of FPTree, made by hand: the media as they may be left, then
// recovery. Every test names the invariants of leaf.h it breaks or relies on.
#include "index/fptree/test_support.h"

namespace perdure::fptree {
namespace {

using Model = std::map<std::uint64_t, std::uint64_t>;

template <class Keys>
class FpTreeRecovery : public testing::Test {
 protected:
  // Eight records fill the first leaf; the ninth splits it.
  static constexpr unsigned entries = 8;

  void fill(std::uint64_t records) {
    for (std::uint64_t i = 0; i < records; ++i) {
      ASSERT_EQ(tree.insert(10 * i, i), Outcome::ok);
      model.emplace(10 * i, i);
    }
  }
  void expect_sound_and_usable() {
    ASSERT_NO_FATAL_FAILURE(tree.expect(model));
    for (std::uint64_t i = 0; i < 40; ++i) {
      ASSERT_EQ(tree.insert(10 * i + 3, i), Outcome::ok);
      model.emplace(10 * i + 3, i);
    }
    ASSERT_NO_FATAL_FAILURE(tree.expect(model));
  }
  void expect_corrupt() {
    const Result<void> restarted = tree.restart();
    ASSERT_FALSE(restarted.ok());
    EXPECT_EQ(restarted.error().code, ErrorCode::corrupt) << restarted.error().line();
  }
  [[nodiscard]] Leaf& second() { return tree.leaf_at(tree.head().next.load()); }

  Fixture<Keys> tree{entries, 4};
  Model model;
};

using Kinds = testing::Types<IntegerKeys, ByteKeys>;
TYPED_TEST_SUITE(FpTreeRecovery, Kinds);

// L1, L2: all of an insert but its commit bit is on media.
TYPED_TEST(FpTreeRecovery, AnInsertWithoutItsCommitBitNeverHappened) {
  this->fill(5);
  const std::uint64_t before = this->tree.head().commit.load();
  ASSERT_EQ(this->tree.insert(7, 7), Outcome::ok);
  this->tree.head().commit.store(before);
  ASSERT_TRUE(this->tree.restart().ok());
  EXPECT_TRUE(this->tree.absent(7));
  this->expect_sound_and_usable();  // among others: the blob of the lost insert is free again
}

// L4: one store changes an update from not done to done.
TYPED_TEST(FpTreeRecovery, AnUpdateIsEitherOldOrNew) {
  this->fill(5);
  const std::uint64_t before = this->tree.head().commit.load();
  ASSERT_EQ(this->tree.index->update(key_from<TypeParam>(20), value_from<TypeParam>(77)),
            Outcome::ok);
  const std::uint64_t after = this->tree.head().commit.load();
  EXPECT_EQ(std::popcount(before), std::popcount(after));
  EXPECT_EQ(std::popcount(before ^ after), 2);
  ASSERT_TRUE(this->tree.restart().ok());
  EXPECT_TRUE(this->tree.holds(20, 77));
  ASSERT_EQ(this->tree.index->update(key_from<TypeParam>(20), value_from<TypeParam>(2)),
            Outcome::ok);
  const std::uint64_t again = this->tree.head().commit.load();
  ASSERT_EQ(this->tree.index->update(key_from<TypeParam>(20), value_from<TypeParam>(78)),
            Outcome::ok);
  this->tree.head().commit.store(again);  // the old blob is still there: nobody has passed an epoch
  ASSERT_TRUE(this->tree.restart().ok());
  this->expect_sound_and_usable();
}

// The three states of a split (L8), and the one after it in which a record was added to either
// side.
TYPED_TEST(FpTreeRecovery, ASplitCutAnywhereLosesNothing) {
  for (unsigned cut = 0; cut < 3; ++cut) {
    SCOPED_TRACE(cut);
    Fixture<TypeParam> tree(this->entries, 4);
    Model model;
    for (std::uint64_t i = 0; i < this->entries; ++i) {
      ASSERT_EQ(tree.insert(10 * i, i), Outcome::ok);
      model.emplace(10 * i, i);
    }
    tree.index.reset();
    Leaf& left = tree.head();
    {
      Epochs epochs;
      RecordStore<TypeParam> store(*tree.pool, epochs);
      LeafList<TypeParam> list(*tree.pool, store, this->entries, tree.pool->offset_of(&left));
      ASSERT_TRUE(left.lock.lock());
      typename TypeParam::Key separator{};
      Leaf* const right = list.split(left, separator);
      ASSERT_NE(right, nullptr);
      EXPECT_EQ(left.next.load(), tree.pool->offset_of(right));
      EXPECT_EQ(std::popcount(left.commit.load()), 4);
      EXPECT_EQ(std::popcount(right->commit.load()), 4);
    }
    if (cut < 2) left.commit.store(all_slots(this->entries));  // the second store did not arrive
    if (cut < 1) left.next.store(null_offset);                 // nor did the first
    // Its lock did, held.
    ASSERT_TRUE(pm::VersionLock::is_locked(left.lock.peek()));
    const Result<void> restarted = tree.restart();
    ASSERT_TRUE(restarted.ok()) << restarted.error().line();
    ASSERT_NO_FATAL_FAILURE(tree.expect(model));
    EXPECT_EQ(std::popcount(tree.head().commit.load()), cut == 0 ? 8 : 4);
    for (std::uint64_t i = 0; i < 100; ++i) {
      ASSERT_EQ(tree.insert(10 * i + 3), Outcome::ok);
      model.emplace(10 * i + 3, 10 * i + 3);
    }
    ASSERT_NO_FATAL_FAILURE(tree.expect(model));
  }
}

// Recovery itself is cut after it has mended one word: the next one ends the work.
TYPED_TEST(FpTreeRecovery, RecoveryMayBeCutAndRunAgain) {
  this->fill(9);
  for (unsigned again = 0; again < 3; ++again) ASSERT_TRUE(this->tree.restart().ok());
  this->expect_sound_and_usable();
}

// L5: an overlap that no split can have made is damage; nothing is cleared.
TYPED_TEST(FpTreeRecovery, AnOverlapThatIsNoSplitIsCorruption) {
  this->fill(9);
  Leaf& left = this->tree.head();
  Leaf& right = this->second();
  ASSERT_NE(&left, &right);
  const std::uint64_t left_commit = left.commit.load();
  const unsigned from = static_cast<unsigned>(std::countr_zero(right.commit.load()));
  const unsigned to = static_cast<unsigned>(std::countr_zero(~left_commit));
  left.record(to).store(right.record(from).load());
  left.tag[to] = right.tag[from];
  left.commit.store(left_commit | bit(to));
  const std::uint64_t offset = this->tree.pool->offset_of(&left);
  this->expect_corrupt();
  EXPECT_EQ(this->tree.leaf_at(offset).commit.load(), left_commit | bit(to));
}

// L5, L8: what looks like an unfinished split but for one value is damage as well.
TYPED_TEST(FpTreeRecovery, ASplitWhoseCopyDiffersIsCorruption) {
  this->fill(9);
  Leaf& left = this->tree.head();
  Leaf& right = this->second();
  // The left leaf holds again what it gave away; the copies differ in their values.
  left.commit.store(all_slots(this->entries));
  for (std::uint64_t left_over = right.commit.load(); left_over != 0; left_over &= left_over - 1)
    right.record(static_cast<unsigned>(std::countr_zero(left_over))).value.fetch_xor(1);
  this->expect_corrupt();
}

// L6: power was lost between the last removal from a leaf and its unlinking.
TYPED_TEST(FpTreeRecovery, AnEmptyLeafIsUnlinkedAndFreed) {
  this->fill(40);
  Leaf& gone = this->second();
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, value] : this->model) {
    RecordWords words;
    Epochs epochs;
    const RecordStore<TypeParam> store(*this->tree.pool, epochs);
    const auto key = key_from<TypeParam>(number);
    if (find_slot<TypeParam>(gone, store, key, hash_of(typename TypeParam::Key(key)), words,
                             [] { return true; }) != no_slot)
      numbers.push_back(number);
  }
  ASSERT_FALSE(numbers.empty());
  gone.commit.store(0);
  for (const std::uint64_t number : numbers) this->model.erase(number);
  const std::uint64_t after = gone.next.load();
  ASSERT_TRUE(this->tree.restart().ok());
  EXPECT_EQ(this->tree.head().next.load(), after);
  ASSERT_NO_FATAL_FAILURE(this->tree.expect(this->model));
  // The first leaf alone may be empty, and is still there.
  for (const auto& [number, value] : Model(this->model))
    ASSERT_EQ(this->tree.index->remove(key_from<TypeParam>(number)), Outcome::ok);
  this->model.clear();
  ASSERT_TRUE(this->tree.restart().ok());
  this->expect_sound_and_usable();
}

// L7: whatever the lock words hold, nobody holds them after a restart.
TYPED_TEST(FpTreeRecovery, LocksLeftBehindAreForgotten) {
  this->fill(60);
  for (Leaf* leaf = &this->tree.head();;) {
    if (leaf->next.load() % 128 == 0)
      (void)leaf->lock.try_lock();
    else
      std::memset(static_cast<void*>(&leaf->lock), 0xff, sizeof leaf->lock);
    if (leaf->next.load() == null_offset) break;
    leaf = &this->tree.leaf_at(leaf->next.load());
  }
  ASSERT_TRUE(this->tree.restart().ok());
  this->expect_sound_and_usable();
}

// Blocks that were written and never linked (a split, a blob, a bulk load) are free after recovery.
TYPED_TEST(FpTreeRecovery, OrphanedBlocksAreSwept) {
  this->fill(30);
  const std::uint64_t live = this->tree.pool->heap().usage().live_blocks;
  for (unsigned i = 0; i < 50; ++i) {
    Reservation block = this->tree.pool->heap().reserve(leaf_bytes(this->entries));
    this->tree.pool->heap().publish({&block, 1});
  }
  ASSERT_TRUE(this->tree.restart().ok());
  EXPECT_EQ(this->tree.pool->heap().usage().live_blocks, live);
  this->expect_sound_and_usable();
}

TYPED_TEST(FpTreeRecovery, DamagedLeavesAreErrorsAndNeverCrashes) {
  struct Damage {
    const char* what;
    void (*inflict)(Pool&, Leaf& leaf);
  };
  const Damage damages[] = {
      {"next beyond the pool", [](Pool& pool, Leaf& leaf) { leaf.next.store(pool.bytes()); }},
      {"next near the end", [](Pool& pool, Leaf& leaf) { leaf.next.store(pool.bytes() - 64); }},
      {"next unaligned", [](Pool&, Leaf& leaf) { leaf.next.fetch_add(8); }},
      {"next enormous", [](Pool&, Leaf& leaf) { leaf.next.store(~63ULL); }},
      {"a circle", [](Pool& pool, Leaf& leaf) { leaf.next.store(pool.offset_of(&leaf)); }},
      {"no block", [](Pool&, Leaf& leaf) { leaf.next.fetch_add(64); }},
      {"records beyond the slots", [](Pool&, Leaf& leaf) { leaf.commit.fetch_or(1ULL << 60); }},
      {"a wrong tag",
       [](Pool&, Leaf& leaf) {
         ++leaf.tag[static_cast<unsigned>(std::countr_zero(leaf.commit.load()))];
       }},
  };
  for (const Damage& damage : damages) {
    SCOPED_TRACE(damage.what);
    Fixture<TypeParam> tree(this->entries, 4);
    for (std::uint64_t i = 0; i < 40; ++i) ASSERT_EQ(tree.insert(i), Outcome::ok);
    damage.inflict(*tree.pool, tree.leaf_at(tree.head().next.load()));
    const Result<void> restarted = tree.restart();
    ASSERT_FALSE(restarted.ok());
    EXPECT_EQ(restarted.error().code, ErrorCode::corrupt) << restarted.error().line();
  }
}

// Single flipped bits all over the leaves: recovery refuses or comes up sound; it never crashes.
TYPED_TEST(FpTreeRecovery, FlippedBitsNeverCrashRecovery) {
  Rng rng(29);
  unsigned refused = 0;
  for (unsigned turn = 0; turn < 150; ++turn) {
    Fixture<TypeParam> tree(this->entries, 4);
    for (std::uint64_t i = 0; i < 30; ++i) ASSERT_EQ(tree.insert(i), Outcome::ok);
    Leaf* leaf = &tree.head();
    for (std::uint64_t steps = rng.below(4); steps > 0 && leaf->next.load() != 0; --steps)
      leaf = &tree.leaf_at(leaf->next.load());
    auto* const bytes = reinterpret_cast<std::uint8_t*>(leaf);
    bytes[rng.below(leaf_bytes(this->entries))] ^= static_cast<std::uint8_t>(1U << rng.below(8));
    const Result<void> restarted = tree.restart();
    refused += !restarted.ok();
    if (restarted.ok()) {
      const Result<void> sound = tree.index->check_invariants();
      ASSERT_TRUE(sound.ok()) << sound.error().line();
    }
  }
  EXPECT_GT(refused, 20U);
}

TYPED_TEST(FpTreeRecovery, RefusesWhatIsNotItsOwn) {
  this->fill(20);
  const auto refuse = [&](auto&& recover) {
    this->tree.index.reset();
    this->tree.pool.lose_power();
    this->tree.place.pool = &*this->tree.pool;
    const auto result = recover(this->tree.place);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::foreign) << result.error().line();
  };
  using Other = std::conditional_t<TypeParam::kind == KeyKind::integer, ByteKeys, IntegerKeys>;
  refuse(FpTree<Other>::recover);
  refuse([](IndexPlace place) {
    place.options.set("leaf_entries", 16);
    return FpTree<TypeParam>::recover(place);
  });
  this->tree.place.root_name = "another";
  this->tree.pool.lose_power();
  this->tree.place.pool = &*this->tree.pool;
  EXPECT_EQ(FpTree<TypeParam>::recover(this->tree.place).error().code, ErrorCode::not_found);
}

// Bulk load is one store: without it, the index is empty and the leaves are free again.
TYPED_TEST(FpTreeRecovery, ABulkLoadThatIsNotLinkedNeverHappened) {
  std::vector<decltype(key_from<TypeParam>(0))> keys;
  for (std::uint64_t i = 0; i < 500; ++i) keys.push_back(key_from<TypeParam>(i));
  std::vector<typename TypeParam::Record> records;
  for (const auto& key : keys) records.push_back({key, {}});
  ASSERT_TRUE(this->tree.index->bulk_load(records).ok());
  EXPECT_EQ(this->tree.head().commit.load(), 0U);
  this->tree.head().next.store(null_offset);
  ASSERT_TRUE(this->tree.restart().ok());
  this->expect_sound_and_usable();
}

}  // namespace
}  // namespace perdure::fptree
