// One thread against a model: every registered index, heap and kind of key.
#include <gtest/gtest.h>

#include "support/test_history.h"

namespace perdure::testing {
namespace {

class Conformance : public HistoryTest {};

TEST_P(Conformance, agrees_with_the_model_on_dense_keys) {
  run({.seed = 11, .shape = Shape::dense, .keys = 400, .operations = 4000});
}

TEST_P(Conformance, agrees_with_the_model_on_adversarial_keys) {
  run({.seed = 12, .shape = Shape::adversarial, .keys = 250, .operations = 4000});
}

TEST_P(Conformance, agrees_with_the_model_on_random_keys_and_default_nodes) {
  run({.seed = 13,
       .shape = Shape::random,
       .keys = 3000,
       .operations = 12000,
       .small_nodes = false});
}

TEST_P(Conformance, agrees_with_the_model_after_a_bulk_load) {
  run({.seed = 14, .shape = Shape::random, .keys = 800, .operations = 2000, .bulk_load = true});
  run({.seed = 15,
       .shape = Shape::adversarial,
       .keys = 300,
       .operations = 1000,
       .small_nodes = false,
       .bulk_load = true});
}

TEST_P(Conformance, agrees_with_the_model_on_many_short_histories) {
  for (std::uint64_t seed = 100; seed < 100 + scaled(8, 2) && !HasFailure(); ++seed)
    run({.seed = seed,
         .shape = static_cast<Shape>(seed % 3),
         .keys = 3 + seed % 40,
         .operations = 400,
         .bulk_load = seed % 4 == 0});
}

TEST_P(Conformance, starts_empty) {
  for_kind(GetParam().kind, [&](auto keys) {
    using Keys = decltype(keys);
    auto bed = Bed<Keys>::create(GetParam(), {});
    EXPECT_TRUE(bed.ok()) << bed.error().line();
    if (!bed.ok()) return;
    OrderedIndex<Keys>& index = bed.value()->index();
    typename Keys::Scan scan;
    typename Keys::ValueOut value{};
    EXPECT_EQ(index.key_kind(), GetParam().kind);
    EXPECT_EQ(index.size(), 0U);
    EXPECT_EQ(index.scan(typename Keys::Key{}, 100, scan), 0U);
    EXPECT_EQ(index.lookup(typename Keys::Key{}, value), Outcome::not_found);
    EXPECT_EQ(index.remove(typename Keys::Key{}), Outcome::not_found);
    EXPECT_TRUE(index.bulk_load({}).ok());
    EXPECT_TRUE(index.check_invariants().ok());
    index.quiesce();
    EXPECT_EQ(index.size(), 0U);
  });
}

INSTANTIATE_TEST_SUITE_P(Indexes, Conformance, ::testing::ValuesIn(all_targets()),
                         [](const auto& test) { return test.param.name(); });

TEST(Enrolment, finds_the_registered_indexes) { EXPECT_FALSE(all_targets().empty()); }

}  // namespace
}  // namespace perdure::testing
