// Batches: executes consecutive steps of one kind as one call of an index, with room for what the
// call takes and returns. A scan is a batch of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "driver/caller.h"
#include "driver/checker.h"
#include "driver/config.h"
#include "driver/target.h"
#include "index/index.h"
#include "workload/mix.h"
#include "workload/verify.h"

namespace perdure::driver {

template <class Keys>
class Batches {
 public:
  Batches(const BenchConfig& config, OrderedIndex<Keys>& index, Caller<Keys>& caller)
      : most_(config.workload.batch),
        index_(index),
        caller_(caller),
        keys_(most_),
        values_(most_),
        found_(most_),
        outcomes_(most_),
        tickets_(config.verify ? most_ : 0) {
    if constexpr (has_text_values<Keys>)
      for (std::string& found : found_) found.reserve(config.workload.value_bytes);
  }

  /// How many of the `left` steps at `steps` are the next batch.
  template <class Step>
  [[nodiscard]] std::size_t size_at(const Step* steps, std::size_t left) const noexcept {
    if (steps->operation == workload::Operation::scan) return 1;
    const std::size_t most = std::min(most_, left);
    std::size_t size = 1;
    while (size < most && steps[size].operation == steps->operation) ++size;
    return size;
  }

  /// Collects what the call is to get: untimed, as a program has it in this form already.
  template <bool Verify, class Step>
  void prepare(std::span<const Step> steps, Checker<Keys>& checker) {
    const Unmeasured free;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      keys_[i] = steps[i].key;
      if constexpr (Verify)
        values_[i] = checker.begin(steps[i], tickets_[i], i);
      else
        values_[i] = steps[i].value;
    }
  }

  /// The call; outcome(i) is then that of steps[i].
  template <class Step>
  void call(std::span<const Step> steps) {
    using workload::Operation;
    const std::span<const typename Keys::Key> keys(keys_.data(), steps.size());
    const std::span<const typename Keys::Value> values(values_.data(), steps.size());
    const std::span<Outcome> outcomes(outcomes_.data(), steps.size());
    switch (steps.front().operation) {
      case Operation::lookup:
      case Operation::lookup_negative:
        return index_.lookup_batch(keys, {found_.data(), steps.size()}, outcomes);
      case Operation::insert:
        return index_.insert_batch(keys, values, outcomes);
      case Operation::upsert:
        return index_.upsert_batch(keys, values, outcomes);
      case Operation::update:
        return index_.update_batch(keys, values, outcomes);
      case Operation::remove:
        return index_.remove_batch(keys, outcomes);
      case Operation::scan:
      case Operation::push:
      case Operation::pop:
        outcomes_[0] = caller_.call(steps.front(), values_[0]);
    }
  }
  [[nodiscard]] Outcome outcome(std::size_t i) const noexcept { return outcomes_[i]; }

  /// Checks the answer of steps[i], which prepare<true> has begun.
  template <class Step>
  void check(const Step& step, std::size_t i, Checker<Keys>& checker) const {
    checker.end(step, tickets_[i], outcomes_[i], found_[i], caller_.scan());
  }

 private:
  std::size_t most_;
  OrderedIndex<Keys>& index_;
  Caller<Keys>& caller_;
  std::vector<typename Keys::Key> keys_;
  std::vector<typename Keys::Value> values_;
  std::vector<typename Keys::ValueOut> found_;
  std::vector<Outcome> outcomes_;
  std::vector<workload::Ticket> tickets_;
};

}  // namespace perdure::driver
