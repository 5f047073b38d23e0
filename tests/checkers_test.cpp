// The checkers themselves: what they accept, and what they refuse.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/bed.h"
#include "support/linearizability.h"
#include "support/samples.h"

namespace perdure::testing {
namespace {

using enum KeyOperation;

TEST(Linearizability, accepts_a_sequential_history) {
  EXPECT_TRUE(check_linearizable({{insert, Outcome::ok, 1, 0, 1},
                                  {insert, Outcome::exists, 2, 2, 3},
                                  {lookup, Outcome::ok, 1, 4, 5},
                                  {update, Outcome::ok, 3, 6, 7},
                                  {remove, Outcome::ok, 0, 8, 9},
                                  {lookup, Outcome::not_found, 0, 10, 11}})
                  .ok());
}

TEST(Linearizability, accepts_either_order_of_overlapping_operations) {
  EXPECT_TRUE(check_linearizable({{upsert, Outcome::ok, 1, 0, 5},
                                  {upsert, Outcome::ok, 2, 1, 4},
                                  {lookup, Outcome::ok, 1, 6, 7}})
                  .ok());
  EXPECT_TRUE(check_linearizable({{upsert, Outcome::ok, 1, 0, 5},
                                  {upsert, Outcome::ok, 2, 1, 4},
                                  {lookup, Outcome::ok, 2, 6, 7}})
                  .ok());
}

TEST(Linearizability, refuses_a_lost_update) {
  EXPECT_FALSE(check_linearizable({{upsert, Outcome::ok, 1, 0, 1},
                                   {update, Outcome::ok, 2, 2, 3},
                                   {lookup, Outcome::ok, 1, 4, 5}})
                   .ok());
}

TEST(Linearizability, refuses_two_inserts_that_both_succeed) {
  EXPECT_FALSE(
      check_linearizable({{insert, Outcome::ok, 1, 0, 3}, {insert, Outcome::ok, 2, 1, 2}}).ok());
}

TEST(Linearizability, refuses_a_read_that_goes_back_in_time) {
  EXPECT_FALSE(check_linearizable({{upsert, Outcome::ok, 1, 0, 1},
                                   {upsert, Outcome::ok, 2, 2, 9},
                                   {lookup, Outcome::ok, 2, 3, 4},
                                   {lookup, Outcome::ok, 1, 5, 6}})
                   .ok());
}

TEST(Samples, number_and_stamp_survive_the_way_into_keys_and_values) {
  for (const std::uint64_t n : {0ULL, 1ULL, 9ULL, 10ULL, 123456789ULL}) {
    EXPECT_EQ(Samples<IntegerKeys>::number_of(Samples<IntegerKeys>::numbered(n)), n);
    EXPECT_EQ(Samples<ByteKeys>::number_of(Samples<ByteKeys>::numbered(n)), n);
    EXPECT_EQ(Samples<ByteKeys>::stamp_of(Samples<ByteKeys>::stamped(n)), n);
    EXPECT_LT(Samples<IntegerKeys>::numbered(n), Samples<IntegerKeys>::numbered(n + 1));
    EXPECT_LT(Samples<ByteKeys>::numbered(n), Samples<ByteKeys>::numbered(n + 1));
  }
}

TEST(Samples, a_torn_value_has_no_stamp) {
  std::string value = Samples<ByteKeys>::stamped(77);
  value += 'x';
  EXPECT_EQ(Samples<ByteKeys>::stamp_of(value), bad_stamp);
  EXPECT_EQ(Samples<ByteKeys>::stamp_of(""), bad_stamp);
}

TEST(Samples, a_universe_has_the_size_asked_for_and_no_key_twice) {
  Rng rng(5);
  for (const Shape shape : {Shape::dense, Shape::adversarial, Shape::random}) {
    auto keys = Samples<ByteKeys>::universe(shape, 200, rng);
    EXPECT_GE(keys.size(), 100U);
    std::ranges::sort(keys);
    EXPECT_EQ(std::ranges::adjacent_find(keys), keys.end());
  }
}

}  // namespace
}  // namespace perdure::testing
