// Threads of a test that share an index but no key.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "core/rng.h"
#include "index/index.h"

namespace perdure::index_test {

/// One of `threads` threads: it owns the keys that leave its remainder, takes them out and puts
/// them back, so that each of its neighbours belongs to another thread. Every answer is `model`'s.
/// `make(n)` is the n-th key, or value; numbers reach `keys * threads`, and 10^7.
template <class Keys, class Make, class Model>
void toggle_own_keys(OrderedIndex<Keys>& index, unsigned thread, unsigned threads,
                     std::uint64_t keys, unsigned steps, Make&& make, Model& model) {
  Rng rng(5, thread);
  typename Keys::ValueOut out{};
  for (unsigned step = 0; step < steps && !testing::Test::HasFailure(); ++step) {
    const auto key = make(rng.below(keys) * threads + thread);
    const auto value = make(rng.below(10'000'000));
    const bool present = model.contains(key);
    EXPECT_EQ(index.lookup(key, out), present ? Outcome::ok : Outcome::not_found);
    if (present) {
      EXPECT_EQ(out, model[key]);
    }
    if (!present) {
      EXPECT_EQ(index.update(key, value), Outcome::not_found);
      EXPECT_EQ(index.insert(key, value), Outcome::ok);
      model[key] = value;
    } else if (rng.below(3) == 0) {
      EXPECT_EQ(index.update(key, value), Outcome::ok);
      model[key] = value;
    } else {
      EXPECT_EQ(index.remove(key), Outcome::ok);
      model.erase(key);
    }
  }
}

}  // namespace perdure::index_test
