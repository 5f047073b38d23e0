// Nodes by themselves: every layout, on every instruction set, against the keys they were made of.
#include "index/hot/trie.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/rng.h"

namespace perdure::hot {
namespace {

using Bits = KeyBits<ByteKeys>;

/// An entry that stands for the key of this number.
Entry number_entry(std::size_t number) { return number << 3 | record_bit; }

class Plant {
 public:
  explicit Plant(std::vector<std::string> keys) : keys_(std::move(keys)) {
    const Bits first(keys_[0]);
    const Bits second(keys_[1]);
    const unsigned position = Bits::first_difference(first, second);
    const bool one = bit_at(second, position);
    trie_ = Trie(position, number_entry(one ? 0 : 1), number_entry(one ? 1 : 0));
    for (std::size_t i = 2; i < keys_.size(); ++i) add(i);
    node_ = trie_.make_node(arena_);
  }

  [[nodiscard]] const Node& node() const { return *node_; }
  [[nodiscard]] const Trie& trie() const { return trie_; }
  [[nodiscard]] const std::string& key_at(unsigned place) const {
    return keys_[node_->entry(place).load() >> 3];
  }

 private:
  void add(std::size_t number) {
    const Bits key(keys_[number]);
    node_ = trie_.make_node(arena_);
    const unsigned near = node_->find(key);
    const unsigned position = Bits::first_difference(key, Bits(key_at(near)));
    trie_ = Trie(*node_);
    trie_.insert(position, near, bit_at(key, position), number_entry(number));
  }

  StripedArena arena_{false};
  std::vector<std::string> keys_;
  Trie trie_;
  Node* node_ = nullptr;
};

/// `count` keys with up to three ones among the lowest `bits` bits of `bytes` bytes, which are
/// `apart` from each other. So few ones make a trie with many branches on some ways.
std::vector<std::string> make_keys(Rng& rng, unsigned count, unsigned bytes, unsigned apart,
                                   unsigned bits) {
  std::set<std::string> keys;
  while (keys.size() < count) {
    std::string key(10 + bytes * apart, '\0');
    for (std::uint64_t turned = rng.below(4); turned > 0; --turned)
      key[10 + rng.below(bytes) * apart] ^= static_cast<char>(1U << rng.below(bits));
    keys.insert(key);
  }
  std::vector<std::string> list(keys.begin(), keys.end());
  for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[rng.below(i)]);
  return list;
}

class NodeTest : public testing::TestWithParam<pm::SimdLevel> {
 protected:
  NodeTest() { pm::configure_simd(GetParam()); }
  ~NodeTest() override { pm::configure_simd(pm::SimdLevel::avx512); }
};

INSTANTIATE_TEST_SUITE_P(Levels, NodeTest,
                         testing::Values(pm::SimdLevel::sse2, pm::SimdLevel::avx2,
                                         pm::SimdLevel::avx512),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(NodeTest, FindsItsKeysInEachOfNineLayouts) {
  Rng rng(17, 0);
  std::set<std::pair<unsigned, unsigned>> layouts;
  for (const unsigned bytes : {1U, 4U, 7U, 10U, 20U, 31U})
    for (const unsigned apart : {1U, 9U})
      for (const unsigned bits : {1U, 2U, 8U})
        for (const unsigned count : {2U, 5U, 8U, 20U, 32U}) {
          if (bytes * bits < 9 && count > (1U << bytes * bits) / 2) continue;
          auto keys = make_keys(rng, count, bytes, apart, bits);
          const Plant plant(keys);
          std::ranges::sort(keys);
          const Node& node = plant.node();
          ASSERT_EQ(node.entries(), count);
          layouts.emplace(node.groups(), node.key_width());
          for (unsigned i = 0; i < count; ++i) {
            ASSERT_EQ(plant.key_at(i), keys[i]);  // N1: in order
            ASSERT_EQ(node.find(Bits(keys[i])), i);
          }
          for (unsigned i = 0; i + 1 < count; ++i)
            ASSERT_EQ(Trie(node).branch_between(i),
                      Bits::first_difference(Bits(keys[i]), Bits(keys[i + 1])));
        }
  const std::set<std::pair<unsigned, unsigned>> all{{0, 1}, {0, 2}, {0, 4}, {1, 1}, {1, 2},
                                                    {1, 4}, {2, 2}, {2, 4}, {4, 4}};
  EXPECT_EQ(layouts, all);
}

TEST_P(NodeTest, KnowsWhichEntriesShareTheWayToABit) {
  Rng rng(18, 0);
  for (const unsigned bytes : {1U, 5U, 12U, 24U})
    for (unsigned round = 0; round < 20; ++round) {
      auto keys = make_keys(rng, 32, bytes, 1 + round % 3 * 4, 8);
      const Plant plant(keys);
      std::ranges::sort(keys);
      const unsigned first = plant.node().first_bit();
      EXPECT_EQ(first, Bits::first_difference(Bits(keys.front()), Bits(keys.back())));
      for (unsigned i = 0; i < 32; ++i)
        for (unsigned position = first; position < 8 * keys[0].size(); position += 3) {
          const Node::Range range = plant.node().sharing(i, position);
          for (unsigned k = 0; k < 32; ++k) {
            const unsigned differs = Bits::first_difference(Bits(keys[i]), Bits(keys[k]));
            ASSERT_EQ(k >= range.first && k < range.end, differs >= position);
          }
        }
    }
}

TEST(HotTrie, ErasedEntriesLeaveTheTrieOfTheOthers) {
  Rng rng(19, 0);
  StripedArena arena(false);
  for (unsigned round = 0; round < 200; ++round) {
    auto keys = make_keys(rng, 2 + static_cast<unsigned>(rng.below(31)), 12, 1 + round % 2 * 5, 4);
    const Plant plant(keys);
    std::ranges::sort(keys);
    Trie trie(plant.node());
    while (keys.size() > 2) {
      const auto gone = static_cast<unsigned>(rng.below(keys.size()));
      trie.erase(gone);
      keys.erase(keys.begin() + gone);
      const Trie rest(*trie.make_node(arena));
      for (unsigned i = 0; i < keys.size(); ++i) {
        ASSERT_EQ(rest.key(i) > (i == 0 ? 0 : rest.key(i - 1)), i != 0);
        if (i > 0) {
          ASSERT_EQ(rest.branch_between(i - 1),
                    Bits::first_difference(Bits(keys[i - 1]), Bits(keys[i])));
        }
      }
    }
  }
}

/// Records of integers, of which an entry has the address.
struct Number {
  alignas(16) std::uint64_t key;
};
std::uint64_t number_of(Entry entry) noexcept {
  return static_cast<const Number*>(address_of_record(entry))->key;
}
Entry entry_of_number(const Number& number) {
  return reinterpret_cast<Entry>(&number) | record_bit;
}

// N5, through every insertion.
TEST(HotNode, OfIntegersKnowsWhereAKeyBranchesOff) {
  using Word = KeyBits<IntegerKeys>;
  Rng rng(21, 0);
  StripedArena arena(false);
  for (const unsigned shared : {0U, 3U, 8U, 21U, 40U, 47U, 48U, 57U}) {
    std::array<Number, max_entries> numbers;
    std::set<std::uint64_t> used;
    const std::uint64_t top = shared == 0 ? 0 : rng() >> (64 - shared) << (64 - shared);
    for (Number& number : numbers) do
        number.key = top | rng() >> shared;
      while (!used.insert(number.key).second);
    const auto differs = [](std::uint64_t a, std::uint64_t b) {
      return Word::first_difference(Word(a), Word(b));
    };
    const unsigned position = differs(numbers[0].key, numbers[1].key);
    const bool one = bit_at(Word(numbers[1].key), position);
    Node* node =
        Trie(position, entry_of_number(numbers[one ? 0 : 1]), entry_of_number(numbers[one ? 1 : 0]))
            .make_node(arena, number_of);
    for (unsigned count = 2; count < max_entries; ++count) {
      for (unsigned i = 0; i < count; ++i) {
        const Entry entry = node->entry(i).load();
        const std::uint64_t mine = number_of(entry);
        const Entry bare = entry_of_number(*static_cast<Number*>(address_of_record(entry)));
        ASSERT_EQ(node->known_difference(mine, with_hint_of(bare, entry)), 0U);
        for (unsigned bit = 0; bit < 64; ++bit) {
          const std::uint64_t known =
              node->known_difference(mine ^ std::uint64_t{1} << (63 - bit), entry);
          if (known == 0) {
            ASSERT_GE(bit, 8 * hint_byte_of(node->first_bit()) + hint_bits);
          } else {
            ASSERT_EQ(static_cast<unsigned>(std::countl_zero(known)), bit);
          }
        }
      }
      const Word key(numbers[count].key);
      const unsigned near = node->find(key);
      const unsigned branch = differs(numbers[count].key, number_of(node->entry(near).load()));
      Trie trie(*node);
      trie.insert(branch, near, bit_at(key, branch),
                  trie.hinted(entry_of_number(numbers[count]), numbers[count].key));
      node = trie.make_node(arena, number_of);
    }
  }
}

TEST(KeyBits, DifferFirstWhereTheOrderIsDecided) {
  using namespace std::string_literals;
  const std::string longest(max_key_bytes, '\0');
  std::vector<std::string> keys = {"",
                                   "\0"s,
                                   "\0\0"s,
                                   "a",
                                   "a\0"s,
                                   "a\0b"s,
                                   "ab",
                                   "abcdefgh",
                                   "abcdefgh\0"s,
                                   "abcdefghi",
                                   "\xff",
                                   longest,
                                   std::string(max_key_bytes, '\xff')};
  std::ranges::sort(keys);
  for (const std::string& a : keys)
    for (const std::string& b : keys) {
      const unsigned position = Bits::first_difference(Bits(a), Bits(b));
      ASSERT_EQ(position == no_bit, a == b);
      if (position == no_bit) continue;
      EXPECT_NE(bit_at(Bits(a), position), bit_at(Bits(b), position));
      EXPECT_EQ(bit_at(Bits(a), position), b < a);
    }
}

}  // namespace
}  // namespace perdure::hot
