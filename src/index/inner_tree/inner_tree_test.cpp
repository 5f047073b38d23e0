#include "index/inner_tree/inner_tree.h"

#include <gtest/gtest.h>

#include <atomic>
#include <concepts>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/rng.h"
#include "index/inner_tree/node_arena.h"
namespace perdure {
namespace {

struct FakeLeaf {
  pm::VersionLock lock;
  std::uint64_t number = 0;
};

/// Nodes with frames, for keys that lie close together, and for clusters that no frame holds.
struct FramedKeys : IntegerKeys {};
struct ClusteredKeys : FramedKeys {};

template <class Keys>
struct TreeFor {
  using Type = InnerTree<Keys>;
};
template <std::derived_from<FramedKeys> Keys>
struct TreeFor<Keys> {
  using Type = InnerTree<IntegerKeys, FrameLayout>;
};
template <class Keys>
using TreeOf = typename TreeFor<Keys>::Type;

// The same number as a key of either kind, in the same order. Byte keys share long prefixes, so
// that the first eight bytes rarely decide.
template <class Keys>
auto key_from(std::uint64_t number) {
  if constexpr (std::is_same_v<Keys, ClusteredKeys>) {
    return (number / 64 << 40) + number % 64;
  } else if constexpr (Keys::kind == KeyKind::integer) {
    return number;
  } else {
    char text[64];
    const int length =
        std::snprintf(text, sizeof text, number % 2 == 0 ? "shared/%012llu" : "%012llu",
                      static_cast<unsigned long long>(number / 2));
    std::string key(text, static_cast<std::size_t>(length));
    key.push_back('\0');
    return key;
  }
}

template <class Keys>
class InnerTreeTest : public testing::Test {
 protected:
  using OwnedKey = decltype(key_from<Keys>(0));
  using Tree = TreeOf<Keys>;

  void* find(const Tree& tree, const OwnedKey& key) {
    const Epochs::Guard guard(epochs_);
    return tree.find(key, [](void* leaf) { return leaf; });
  }
  void* previous(const Tree& tree, const OwnedKey& key) {
    const Epochs::Guard guard(epochs_);
    return tree.find_previous(key);
  }
  FakeLeaf* new_leaf(std::uint64_t number) {
    leaves_.push_back(std::make_unique<FakeLeaf>());
    leaves_.back()->number = number;
    return leaves_.back().get();
  }

  // The tree's leaves must be the model's, in order; a removal at the front of a node moves a
  // bound, so the model answers for the leaves only.
  void expect_leaves(const Tree& tree, const std::vector<void*>& expected) {
    std::vector<void*> found;
    std::optional<OwnedKey> last_high;
    const Result<void> result =
        tree.check([&](void* leaf, const auto* low, const auto* high) -> Result<void> {
          EXPECT_EQ(low == nullptr, found.empty());
          if (low != nullptr) {
            EXPECT_TRUE(last_high.has_value() && *last_high == *low);
          }
          if (high != nullptr) last_high = OwnedKey(*high);
          found.push_back(leaf);
          return {};
        });
    ASSERT_TRUE(result.ok()) << result.error().line();
    ASSERT_EQ(found, expected);
  }

  Epochs epochs_;
  std::vector<std::unique_ptr<FakeLeaf>> leaves_;
};

using Kinds = testing::Types<IntegerKeys, ByteKeys, FramedKeys, ClusteredKeys>;
TYPED_TEST_SUITE(InnerTreeTest, Kinds);

TYPED_TEST(InnerTreeTest, StartsWithOneLeafForEveryKey) {
  FakeLeaf* const first = this->new_leaf(0);
  TreeOf<TypeParam> tree(this->epochs_, {}, first);
  EXPECT_EQ(this->find(tree, key_from<TypeParam>(0)), first);
  EXPECT_EQ(this->find(tree, key_from<TypeParam>(~0ULL)), first);
  EXPECT_EQ(this->previous(tree, key_from<TypeParam>(7)), nullptr);
  this->expect_leaves(tree, {first});
}

// Separators come and go at random; a model kept in true order says which leaf must be found.
TYPED_TEST(InnerTreeTest, AgreesWithAModelUnderRandomInsertsAndRemovals) {
  using OwnedKey = decltype(key_from<TypeParam>(0));
  for (const unsigned entries : {3U, 4U, 15U, 16U, 21U, 128U, 300U}) {
    SCOPED_TRACE(entries);
    Rng rng(11, entries);
    FakeLeaf* const first = this->new_leaf(0);
    TreeOf<TypeParam> tree(this->epochs_, {.entries = entries, .huge_pages = false}, first);
    std::map<OwnedKey, void*> model;  // lowest key -> leaf; the first leaf is below all
    const auto leaf_of = [&](const OwnedKey& key) -> void* {
      const auto after = model.upper_bound(key);
      return after == model.begin() ? first : std::prev(after)->second;
    };
    const auto before = [&](void* leaf) -> void* {
      void* last = nullptr;
      if (leaf == first) return last;
      last = first;
      for (const auto& [key, other] : model) {
        if (other == leaf) break;
        last = other;
      }
      return last;
    };
    for (unsigned turn = 0; turn < 6000; ++turn) {
      // Grow, then shrink, so that nodes split, merge, borrow, and the root comes and goes.
      const bool grow = rng.below(100) < ((turn / 1500) % 2 == 0 ? 70U : 25U);
      const Epochs::Guard guard(this->epochs_);
      if (grow) {
        const OwnedKey key = key_from<TypeParam>(rng.below(4000));
        if (model.contains(key)) continue;
        void* const leaf = this->new_leaf(turn);
        // The covering leaf may be another than the model's where a removal moved a bound; the
        // contract asks only that the new separator lies inside it, so skip where it does not.
        void* const covering = tree.find(key, [](void* found) { return found; });
        if (covering != leaf_of(key)) continue;
        tree.insert(key, leaf);
        model.emplace(key, leaf);
      } else if (!model.empty()) {
        auto victim = model.lower_bound(key_from<TypeParam>(rng.below(4000)));
        if (victim == model.end()) victim = model.begin();
        void* const covering = tree.find(victim->first, [](void* found) { return found; });
        ASSERT_EQ(covering, victim->second);
        ASSERT_EQ(tree.find_previous(victim->first), before(victim->second));
        tree.remove(victim->first, victim->second);
        model.erase(victim);
      }
    }
    std::vector<void*> expected{first};
    for (const auto& [key, leaf] : model) {
      expected.push_back(leaf);
      ASSERT_EQ(this->find(tree, key), leaf);
    }
    this->expect_leaves(tree, expected);
    while (!model.empty()) {
      const Epochs::Guard guard(this->epochs_);
      const auto victim = model.begin();
      tree.remove(victim->first, victim->second);
      model.erase(victim);
    }
    this->expect_leaves(tree, {first});
  }
}

// Whatever node a leaf is the first child of, its keys fall to the leaf left of it.
TYPED_TEST(InnerTreeTest, RemovesToTheLeftAcrossNodes) {
  using OwnedKey = decltype(key_from<TypeParam>(0));
  for (const unsigned entries : {3U, 4U, 15U, 21U}) {
    SCOPED_TRACE(entries);
    Rng rng(12, entries);
    FakeLeaf* const first = this->new_leaf(0);
    TreeOf<TypeParam> tree(this->epochs_, {.entries = entries, .huge_pages = false}, first);
    std::map<OwnedKey, void*> model{{OwnedKey{}, first}};
    for (unsigned turn = 0; turn < 6000; ++turn) {
      const Epochs::Guard guard(this->epochs_);
      const OwnedKey key = key_from<TypeParam>(1 + rng.below(4000));
      void* const covering = tree.find(key, [](void* found) { return found; });
      const auto at = std::prev(model.upper_bound(key));
      ASSERT_EQ(covering, at->second);
      if (rng.below(100) < ((turn / 1500) % 2 == 0 ? 70U : 25U)) {
        if (at->first == key) continue;
        model[key] = this->new_leaf(turn);
        tree.insert(key, model[key]);
      } else if (at != model.begin()) {
        tree.remove_to_left(at->first, at->second);
        model.erase(at);
      }
    }
    std::vector<void*> expected;
    for (const auto& [key, leaf] : model) expected.push_back(leaf);
    this->expect_leaves(tree, expected);
  }
}

TYPED_TEST(InnerTreeTest, BuildsFromSortedLeavesAndFindsEachBound) {
  using OwnedKey = decltype(key_from<TypeParam>(0));
  for (const unsigned entries : {3U, 15U, 17U, 128U, 1024U})
    for (const unsigned leaves : {1U, 2U, 5U, 16U, 17U, 300U, 3000U}) {
      SCOPED_TRACE(testing::Message() << entries << " entries, " << leaves << " leaves");
      TreeOf<TypeParam> tree(this->epochs_, {.entries = entries, .huge_pages = false},
                             this->new_leaf(0));
      std::map<OwnedKey, void*> model;
      for (unsigned i = 0; i < leaves; ++i)
        model.emplace(key_from<TypeParam>(10 * i + 10), this->new_leaf(i));
      std::vector<typename TreeOf<TypeParam>::Child> children;
      std::vector<void*> expected;
      for (const auto& [key, leaf] : model) {
        children.push_back({key, leaf});
        expected.push_back(leaf);
      }
      tree.build(children);
      this->expect_leaves(tree, expected);
      void* last = nullptr;
      for (const auto& [key, leaf] : model) {
        ASSERT_EQ(this->find(tree, key), leaf);
        ASSERT_EQ(this->previous(tree, key), last);
        last = leaf;
      }
      std::vector<typename TreeOf<TypeParam>::Key> keys;
      for (const auto& [key, leaf] : model) keys.push_back(key);
      std::vector<typename TreeOf<TypeParam>::Position> positions(keys.size());
      const Epochs::Guard guard(this->epochs_);
      tree.locate(keys, positions);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        ASSERT_EQ(positions[i].leaf, expected[i]);
        ASSERT_TRUE(tree.holds(positions[i]));
      }
      std::size_t last_ones = 0;
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const void* const next =
            tree.find(keys[i], [](void*, auto following) { return following(1); });
        last_ones += next == nullptr;
        if (next != nullptr) {
          ASSERT_LT(i + 1, expected.size());
          ASSERT_EQ(next, expected[i + 1]);
        }
      }
      EXPECT_LE(last_ones, leaves / 2 + 1);
    }
}

// `enter` sees a leaf that stops covering the key before it returns: the answer must be the new
// one.
TYPED_TEST(InnerTreeTest, FindNoticesAChangeMadeWhileItEnters) {
  TreeOf<TypeParam> tree(this->epochs_, {.entries = 3, .huge_pages = false}, this->new_leaf(0));
  for (std::uint64_t number = 10; number < 200; number += 10) {
    const Epochs::Guard guard(this->epochs_);
    void* const added = this->new_leaf(number);
    unsigned entered = 0;
    void* const found = tree.find(key_from<TypeParam>(2 * number + 2), [&](void* leaf) {
      if (entered++ == 0) tree.insert(key_from<TypeParam>(2 * number), added);
      return leaf;
    });
    EXPECT_EQ(found, added);
    EXPECT_EQ(entered, 2U);
    const auto key = key_from<TypeParam>(2 * number + 2);
    const typename TreeOf<TypeParam>::Key probe = key;
    typename TreeOf<TypeParam>::Position position;
    tree.locate({&probe, 1}, {&position, 1});
    ASSERT_EQ(position.leaf, added);
    EXPECT_TRUE(tree.holds(position));
    tree.insert(key_from<TypeParam>(2 * number + 4), this->new_leaf(number));
    EXPECT_FALSE(tree.holds(position));
  }
}

TYPED_TEST(InnerTreeTest, FindsTheEndsOfTheKeySpace) {
  FakeLeaf* const first = this->new_leaf(0);
  TreeOf<TypeParam> tree(this->epochs_, {.entries = 15, .huge_pages = false}, first);
  std::map<decltype(key_from<TypeParam>(0)), void*> model;
  std::vector<decltype(key_from<TypeParam>(0))> keys;
  if constexpr (TypeParam::kind == KeyKind::integer) {
    keys = {1, 1ULL << 63, (1ULL << 63) - 1, ~0ULL, ~0ULL - 1, 42};
  } else {
    using namespace std::string_literals;
    keys = {"\0"s,
            "\0\0"s,
            "a"s,
            "a\0"s,
            "a\0\0\0\0\0\0\0\0"s,
            std::string(2048, '\xff'),
            std::string(8, '\xff'),
            std::string(9, '\xff'),
            "\x80"s,
            "\x7f"s};
  }
  for (const auto& key : keys) {
    const Epochs::Guard guard(this->epochs_);
    model.emplace(key, this->new_leaf(1));
    tree.insert(key, model[key]);
  }
  EXPECT_EQ(this->find(tree, {}), first);
  for (const auto& [key, leaf] : model) EXPECT_EQ(this->find(tree, key), leaf);
}

constexpr std::uint64_t spacing = 64;
constexpr std::uint64_t space = 64 * spacing;

/// A thread that inserts and removes leaves between the permanent ones.
template <class Keys>
struct Writer {
  TreeOf<Keys>& tree;
  Epochs& epochs;
  unsigned number_of_writer;
  std::vector<std::unique_ptr<FakeLeaf>> mine{};
  std::map<std::uint64_t, FakeLeaf*> present{};
  std::uint64_t wrong = 0;

  void run() {
    Rng rng(5, number_of_writer);
    for (unsigned turn = 0; turn < 8000; ++turn) {
      const std::uint64_t number = rng.below(space / 8) * 8 + 1 + number_of_writer;
      const Epochs::Guard guard(epochs);
      if (const auto at = present.find(number); at != present.end())
        remove(at);
      else
        insert(number);
    }
  }

  void remove(std::map<std::uint64_t, FakeLeaf*>::iterator at) {
    FakeLeaf* const leaf = at->second;
    if (!leaf->lock.lock()) ++wrong;
    if (number_of_writer == 0)
      tree.remove_to_left(key_from<Keys>(2 * at->first), leaf);
    else
      tree.remove(key_from<Keys>(2 * at->first), leaf);
    leaf->lock.unlock_obsolete();
    present.erase(at);
  }

  void insert(std::uint64_t number) {
    const auto key = key_from<Keys>(2 * number);
    const auto [covering, version] = tree.find(key, [](void* leaf) {
      auto* const found = static_cast<FakeLeaf*>(leaf);
      return std::pair{found, found->lock.peek()};
    });
    if (!covering->lock.try_upgrade(version)) return;
    if (covering->number < number) {  // else a removal moved its bound: not ours to cut
      mine.push_back(std::make_unique<FakeLeaf>());
      mine.back()->number = number;
      tree.insert(key, mine.back().get());
      present.emplace(number, mine.back().get());
    }
    covering->lock.unlock();
  }
};

/// Looks keys up until told to stop; returns how many led beyond their permanent neighbours.
template <class Keys>
std::uint64_t read_between_neighbours(const TreeOf<Keys>& tree, Epochs& epochs,
                                      const std::atomic<bool>& stop) {
  Rng rng(6);
  std::uint64_t wrong = 0;
  while (!stop.load()) {
    const std::uint64_t number = rng.below(space);
    const auto key = key_from<Keys>(2 * number);
    const Epochs::Guard guard(epochs);
    const auto* const leaf =
        static_cast<FakeLeaf*>(tree.find(key, [](void* found) { return found; }));
    const std::uint64_t floor = number / spacing * spacing;
    if (leaf->number < floor || leaf->number > floor + spacing) ++wrong;
    typename TreeOf<Keys>::Key probe = key;
    typename TreeOf<Keys>::Position position;
    tree.locate({&probe, 1}, {&position, 1});
    const auto* const previous = static_cast<FakeLeaf*>(tree.find_previous(key));
    if (previous == nullptr ? number >= 2 * spacing : previous->number > floor + spacing) ++wrong;
  }
  return wrong;
}

// Permanent separators stand every 64 numbers; the threads insert and remove others between them
// while readers look. Whatever comes and goes, a key's leaf lies between its permanent neighbours.
TYPED_TEST(InnerTreeTest, ReadersAlwaysLandBetweenPermanentNeighboursWhileWritersWork) {
  for (const unsigned entries : {3U, 15U, 20U}) {
    SCOPED_TRACE(entries);
    FakeLeaf* const first = this->new_leaf(0);
    TreeOf<TypeParam> tree(this->epochs_, {.entries = entries, .huge_pages = false}, first);
    for (std::uint64_t number = spacing; number < space; number += spacing) {
      const Epochs::Guard guard(this->epochs_);
      tree.insert(key_from<TypeParam>(2 * number), this->new_leaf(number));
    }
    std::atomic<bool> stop{false};
    std::uint64_t wrong = 0;
    std::thread reader(
        [&] { wrong = read_between_neighbours<TypeParam>(tree, this->epochs_, stop); });
    std::deque<Writer<TypeParam>> writers;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 3; ++t) {
      writers.push_back({tree, this->epochs_, t});
      threads.emplace_back([&writer = writers.back()] { writer.run(); });
    }
    for (std::thread& thread : threads) thread.join();
    stop.store(true);
    reader.join();
    EXPECT_EQ(wrong, 0U);
    std::map<std::uint64_t, void*> expected{{0, first}};
    for (const auto& leaf : this->leaves_)
      if (leaf->number % spacing == 0 && leaf->number != 0) expected[leaf->number] = leaf.get();
    for (const auto& writer : writers) {
      EXPECT_EQ(writer.wrong, 0U);
      for (const auto& [number, leaf] : writer.present) expected.emplace(number, leaf);
    }
    std::vector<void*> in_order;
    for (const auto& [number, leaf] : expected) in_order.push_back(leaf);
    this->expect_leaves(tree, in_order);
    this->leaves_.clear();
  }
}

// Nodes and separators come back: as many inserts and removals as it takes do not grow the arena.
TYPED_TEST(InnerTreeTest, ReusesTheMemoryOfRemovedNodes) {
  TreeOf<TypeParam> tree(this->epochs_, {.entries = 3, .huge_pages = false}, this->new_leaf(0));
  FakeLeaf leaf;
  std::uint64_t after_first_round = 0;
  for (unsigned round = 0; round < 6; ++round) {
    for (std::uint64_t i = 1; i < 20000; ++i) {
      const Epochs::Guard guard(this->epochs_);
      tree.insert(key_from<TypeParam>(2 * i), &leaf);
    }
    if (round == 1) after_first_round = tree.dram_bytes();
    for (std::uint64_t i = 1; i < 20000; ++i) {
      const Epochs::Guard guard(this->epochs_);
      tree.remove(key_from<TypeParam>(2 * i), &leaf);
    }
    this->epochs_.drain();
  }
  EXPECT_EQ(tree.dram_bytes(), after_first_round);
}

TEST(NodeArena, TakesTheChunksThatAnotherOneGaveBack) {
  ChunkReserve reserve(false);
  const auto take_three = [&] {
    NodeArena arena(reserve);
    for (int i = 0; i < 3; ++i) {
      void* const block = arena.allocate(NodeArena::chunk_bytes);
      ASSERT_NE(block, nullptr);
      *static_cast<char*>(block) = 1;
    }
    EXPECT_EQ(arena.dram_bytes() / NodeArena::chunk_bytes, 3U);
    EXPECT_EQ(reserve.dram_bytes(), 0U);
  };
  for (int round = 0; round < 3; ++round) {
    take_three();
    EXPECT_EQ(reserve.dram_bytes(), 3 * NodeArena::chunk_bytes);
  }
}

TEST(InnerLayout, FifteenIntegerEntriesFillOneMediaBlockExactly) {
  EXPECT_EQ(InnerLayout<IntegerKeys>(15).node_bytes(), pm::media_block_bytes);
}

TEST(FrameLayout, TakesTheRoundestSeparator) {
  EXPECT_EQ(roundest_between(0, 1), 1U);
  EXPECT_EQ(roundest_between(4, 5), 5U);
  EXPECT_EQ(roundest_between(3, 9), 8U);
  EXPECT_EQ(roundest_between(8, 12), 12U);
  EXPECT_EQ(roundest_between(0, ~std::uint64_t{0}), std::uint64_t{1} << 63);
  Rng rng(3);
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t below = rng() >> rng.below(64);
    const std::uint64_t up_to = below + 1 + rng.below(1000);
    if (up_to <= below) continue;
    std::uint64_t best = up_to;
    for (std::uint64_t key = below + 1; key <= up_to; ++key)
      if (std::countr_zero(key) > std::countr_zero(best)) best = key;
    ASSERT_EQ(roundest_between(below, up_to), best);
  }
}

// A frame has 32 bits: where the highest separator is too far from the lowest for its zeros, the
// node becomes exact, and after a split that parts them, framed again.
TEST(FrameLayout, HoldsWhatNoFrameHolds) {
  NodeArena arena(false);
  const FrameLayout layout(25, arena);
  const auto fresh = [&](std::uint64_t low) -> InnerNode& {
    auto* const node = static_cast<InnerNode*>(arena.allocate(FrameLayout::node_bytes()));
    layout.clear(*node, &arena, low);
    return *node;
  };
  InnerNode& node = fresh(0);
  for (unsigned i = 0; i < 25; ++i) {
    const std::uint64_t far = i < 13 ? 0 : std::uint64_t{1} << 60;
    layout.insert_at(node, i, {far + 2 * i + 1, 0}, &arena);
    EXPECT_EQ(FrameLayout::owned(node).block != nullptr, i >= 13);
    EXPECT_TRUE(FrameLayout::is_sound(node)) << i;
  }
  const auto rank = [&](const InnerNode& at, std::uint64_t key) {
    unsigned found = 0;
    EXPECT_TRUE(layout.search(at, InnerProbe<IntegerKeys>(key), found, [] { return true; }));
    return found;
  };
  EXPECT_EQ(rank(node, 24), 12U);
  EXPECT_EQ(rank(node, 25), 13U);
  EXPECT_EQ(rank(node, (std::uint64_t{1} << 60) + 27), 14U);
  EXPECT_EQ(rank(node, ~std::uint64_t{0}), 25U);
  InnerNode& right = fresh(0);
  EXPECT_EQ(layout.split(node, right).key, 25U);
  EXPECT_EQ(rank(node, 24), 12U);
  EXPECT_EQ(rank(right, (std::uint64_t{1} << 60) + 27), 1U);
  EXPECT_EQ(rank(right, ~std::uint64_t{0}), 12U);
  EXPECT_TRUE(FrameLayout::is_sound(node));
  EXPECT_TRUE(FrameLayout::is_sound(right));
}

}  // namespace
}  // namespace perdure
