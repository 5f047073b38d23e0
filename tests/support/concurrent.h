// Multi-threaded checks. Each returns the first contradiction that any thread met.
#pragma once

#include <cstdint>

#include "support/bed.h"
#include "support/samples.h"

namespace perdure::testing {

struct ConcurrentPlan {
  std::uint64_t seed = 1;
  unsigned threads = 4;
  std::uint64_t operations = 4000;  ///< per thread
  std::uint64_t keys = 400;
};

/// Thread t owns the keys i with i % threads == t and knows exactly what each must be; leaves are
/// shared by all. Scans must show the own keys exactly, everything ascending and once.
template <class Keys>
[[nodiscard]] Result<void> check_owned_keys(Bed<Keys>& bed, const ConcurrentPlan& plan);

/// All threads change the same few keys; the history of every key must be linearizable.
template <class Keys>
[[nodiscard]] Result<void> check_contended_keys(Bed<Keys>& bed, const ConcurrentPlan& plan);

/// Writers run changes that fail (insert of a present key, update and remove of an absent one)
/// beside readers; those must find every present key by lookup, batch and scan. A lock
/// that is taken and given back unchanged must not hide anything.
template <class Keys>
[[nodiscard]] Result<void> check_refused_changes(Bed<Keys>& bed, const ConcurrentPlan& plan);

enum class Churn {
  ascending,    ///< inserts at the right end: always the same leaf splits
  random,       ///< inserts everywhere
  empty_leaves  ///< whole ranges removed and inserted again: leaves come and go
};

/// Writers insert and remove between keys that are always present; readers must never miss one of
/// those in a scan or a lookup.
template <class Keys>
[[nodiscard]] Result<void> check_scans_during(Bed<Keys>& bed, Churn churn,
                                              const ConcurrentPlan& plan);

}  // namespace perdure::testing
