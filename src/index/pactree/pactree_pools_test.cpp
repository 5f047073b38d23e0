// PacTree in a pool of two parts, as on a machine of two NUMA nodes.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <thread>

#include "core/rng.h"
#include "index/common/test_cuts.h"
#include "index/pactree/test_support.h"

namespace perdure {
namespace {

using index_test::expect_after_cuts;
using index_test::extract;
using index_test::PowerCuts;
using index_test::Words;
using index_test::operator+;
using pactree::DataNode;
using pactree_test::expect_equal;
using pactree_test::make;
using pactree_test::Model;
using pactree_test::Store;
using pactree_test::succeeds;

const std::vector<std::string> two_pools{"node_entries=8", "workers=0", "node_pools=2"};

/// On a thread beside this one: its slot is another, and so is its part.
template <class Work>
void beside(const Work& work) {
  std::thread(work).join();
}

template <class Keys>
class PacTreePools : public testing::Test {
 protected:
  [[nodiscard]] unsigned part_of(const void* address) {
    return address < store_.pool().part(1).data() ? 0 : 1;
  }
  /// How many data nodes lie in each part.
  [[nodiscard]] std::array<std::size_t, 2> nodes_in_parts() {
    std::array<std::size_t, 2> count{};
    for (DataNode* at = &store_.peer().first(); at != nullptr; at = store_.peer().next_of(*at))
      ++count[part_of(at)];
    return count;
  }
  void insert(std::uint64_t number) {
    const auto key = make<Keys>(number);
    EXPECT_EQ(store_.index().insert(key, key), Outcome::ok);
    model_[key] = key;
  }
  void remove(std::uint64_t number) {
    EXPECT_EQ(store_.index().remove(make<Keys>(number)), Outcome::ok);
    model_.erase(make<Keys>(number));
  }

  Store<Keys> store_{two_pools};
  Model<Keys> model_;
};
using BothKinds = testing::Types<IntegerKeys, ByteKeys>;
TYPED_TEST_SUITE(PacTreePools, BothKinds);

TYPED_TEST(PacTreePools, NodesLieNearTheThreadThatSplitsAndRecover) {
  ASSERT_EQ(this->store_.pool().parts(), 2U);
  constexpr std::uint64_t keys = 2000;
  const auto shuffled = [](std::uint64_t i) { return 10 * (i * 7919 % keys); };
  for (std::uint64_t i = 0; i < keys; i += 2) {
    this->insert(shuffled(i));
    beside([&] { this->insert(shuffled(i + 1)); });
  }
  const auto [near, far] = this->nodes_in_parts();
  EXPECT_GT(near, keys / 8 / 8);
  EXPECT_GT(far, keys / 8 / 8);
  ASSERT_NO_FATAL_FAILURE(expect_equal(this->store_.index(), this->model_));
  ASSERT_TRUE(succeeds(this->store_.crash()));
  ASSERT_EQ(this->nodes_in_parts()[1], far);
  ASSERT_NO_FATAL_FAILURE(expect_equal(this->store_.index(), this->model_));
  // Merges across parts, with what remains in both.
  for (std::uint64_t i = 0; i < keys; ++i)
    if (i % 50 != 0) this->remove(10 * i);
  ASSERT_NO_FATAL_FAILURE(expect_equal(this->store_.index(), this->model_));
  EXPECT_LT(this->store_.peer().nodes(), (near + far) / 4);
  ASSERT_TRUE(succeeds(this->store_.crash()));
  expect_equal(this->store_.index(), this->model_);
}

TYPED_TEST(PacTreePools, ABulkLoadIsSpreadOverBothPools) {
  constexpr std::uint64_t keys = 2000;
  for (std::uint64_t i = 0; i < keys; ++i) {
    const auto key = make<TypeParam>(10 * i);
    this->model_[key] = key;
  }
  std::vector<typename TypeParam::Record> records;
  for (const auto& [key, value] : this->model_) records.push_back({key, value});
  ASSERT_TRUE(succeeds(this->store_.index().bulk_load(records)));
  const auto [here, there] = this->nodes_in_parts();
  EXPECT_NEAR(static_cast<double>(here), static_cast<double>(there), 2);
  ASSERT_NO_FATAL_FAILURE(expect_equal(this->store_.index(), this->model_));
  ASSERT_TRUE(succeeds(this->store_.crash()));
  expect_equal(this->store_.index(), this->model_);
}

// L7, G2: left node and right one lie in different parts; so do the record and its blob.
TYPED_TEST(PacTreePools, ASplitIntoTheOtherPartCutAnywhereLosesNothing) {
  for (std::uint64_t i = 0; i < 8; ++i) this->insert(10 * i);
  DataNode& left = this->store_.peer().first();
  const auto before = this->model_;
  ASSERT_TRUE(this->store_.peer().hold_replay());
  PowerCuts<TypeParam> cuts(this->store_);
  beside([&] { this->insert(65); });
  ASSERT_NE(this->part_of(this->store_.peer().next_of(left)), this->part_of(&left));
  Words loose = cuts.changed();
  this->store_.peer().release_replay();
  const Words commit = extract(loose, this->store_.pool().offset_of(&left.commit));
  const Words link = extract(loose, this->store_.pool().offset_of(&left.next));
  ASSERT_EQ(commit.size(), 1U);
  ASSERT_EQ(link.size(), 1U);
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(this->store_, cuts, {}, loose, before));
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts(this->store_, cuts, loose + link, {}, this->model_));
  expect_after_cuts(this->store_, cuts, loose + link + commit, {}, this->model_);
}

// One thread, whose own part is full long before it is told so.
TYPED_TEST(PacTreePools, BothPoolsAreFilledBeforeThereIsNoSpace) {
  std::uint64_t inserted = 0;
  for (;; ++inserted) {
    const std::uint64_t number = mix64(inserted);
    auto key = make<TypeParam>(number);
    if constexpr (TypeParam::kind == KeyKind::bytes) key += std::string(1500, '.');
    const Outcome outcome = this->store_.index().insert(key, key);
    if (outcome == Outcome::out_of_space) break;
    ASSERT_EQ(outcome, Outcome::ok);
    this->model_[key] = key;
  }
  EXPECT_GT(this->nodes_in_parts()[0], 0U);
  EXPECT_GT(this->nodes_in_parts()[1], 0U);
  const HeapUsage usage = this->store_.pool().heap().usage();
  EXPECT_GT(static_cast<double>(usage.live_bytes),
            0.85 * static_cast<double>(this->store_.pool().bytes()));
  ASSERT_NO_FATAL_FAILURE(expect_equal(this->store_.index(), this->model_));
  ASSERT_TRUE(succeeds(this->store_.crash()));
  expect_equal(this->store_.index(), this->model_);
}

TYPED_TEST(PacTreePools, WithoutTheSecondPoolNothingIsRecoveredNorChanged) {
  namespace fs = std::filesystem;
  for (std::uint64_t i = 0; i < 100; ++i) {
    this->insert(20 * i);
    beside([&] { this->insert(20 * i + 10); });
  }
  const std::string second = this->store_.path(1);
  const Result<void> missing =
      this->store_.crash([&](const std::string&) { fs::rename(second, second + ".kept"); });
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_NE(missing.error().line().find(second), std::string::npos);

  Store<TypeParam> other(two_pools);
  ASSERT_TRUE(succeeds(other.crash([&](const std::string&) { fs::copy(other.path(1), second); })));
  const Result<void> foreign = this->store_.crash();
  ASSERT_FALSE(foreign.ok());
  EXPECT_EQ(foreign.error().code, ErrorCode::foreign);

  ASSERT_TRUE(succeeds(
      this->store_.crash([&](const std::string&) { fs::rename(second + ".kept", second); })));
  expect_equal(this->store_.index(), this->model_);
}

}  // namespace
}  // namespace perdure
