// What only DPTree has: rotations, merges, versions, full pools.
#include "index/dptree/dptree.h"

#include <gtest/gtest.h>

#include "core/rng.h"
#include "index/record/test_store.h"

namespace perdure {
namespace {

using index_test::succeeds;

const std::vector<std::string> small{"leaf_entries=4", "log_entries=3", "buffer_entries=4"};

template <class Keys>
struct Words;
template <>
struct Words<IntegerKeys> {
  static std::uint64_t key(std::uint64_t i) { return i * 0x0101010101010101ULL; }
  static std::uint64_t value(std::uint64_t i) { return i; }
};
template <>
struct Words<ByteKeys> {
  static std::string key(std::uint64_t i) { return "one prefix " + std::to_string(i); }
  static std::string value(std::uint64_t i) { return std::string(i % 40, 'v') + std::to_string(i); }
};

template <class Keys>
class DpTreeOf : public ::testing::Test {
 protected:
  using W = Words<Keys>;
  using Model = std::map<std::decay_t<decltype(W::key(0))>, std::decay_t<decltype(W::value(0))>>;

  void run(index_test::Store<Keys>& store, int operations) {
    for (int i = 0; i < operations; ++i) {
      const auto key = W::key(rng_.below(400));
      const auto value = W::value(rng_.below(1000));
      if (rng_.below(3) == 0) {
        ASSERT_EQ(store.index().remove(key) == Outcome::ok, model_.erase(key) == 1);
      } else {
        ASSERT_EQ(store.index().upsert(key, value), Outcome::ok);
        model_[key] = value;
      }
    }
  }
  void verify(index_test::Store<Keys>& store) {
    ASSERT_TRUE(succeeds(store.index().check_invariants()));
    ASSERT_EQ(store.index().size(), model_.size());
    typename Keys::Scan scan;
    store.index().scan(typename Keys::Key{}, 10000, scan);
    ASSERT_EQ(scan.size(), model_.size());
    std::size_t i = 0;
    typename Keys::ValueOut found{};
    for (const auto& [key, value] : model_) {
      EXPECT_EQ(scan[i].key, key);
      EXPECT_EQ(scan[i++].value, value);
      EXPECT_EQ(store.index().lookup(key, found), Outcome::ok);
      EXPECT_EQ(found, value);
    }
  }

  Rng rng_{5};
  Model model_;
};
using BothKeys = ::testing::Types<IntegerKeys, ByteKeys>;
TYPED_TEST_SUITE(DpTreeOf, BothKeys);

TYPED_TEST(DpTreeOf, keeps_what_it_is_given_through_merges_and_restarts) {
  index_test::Store<TypeParam> store("dptree", HeapKind::slab, Pool::min_pool_bytes, small);
  for (int round = 0; round < 20; ++round) {
    this->run(store, 150);
    this->verify(store);
    ASSERT_TRUE(succeeds(store.crash([](const std::string&) {})));
    this->verify(store);
  }
}

}  // namespace
}  // namespace perdure
