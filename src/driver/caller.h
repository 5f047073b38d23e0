// Caller: executes steps as calls of an index, with room for what the calls return.
#pragma once

#include <cstddef>

#include "driver/config.h"
#include "index/index.h"
#include "workload/mix.h"

namespace perdure::driver {

template <class Keys>
class Caller {
 public:
  Caller(const BenchConfig& config, OrderedIndex<Keys>& index) : index_(index) {
    scan_.reserve(config.workload.scan.max);
    if constexpr (has_text_values<Keys>) value_.reserve(config.workload.value_bytes);
  }

  template <class Step>
  [[nodiscard]] Outcome call(const Step& step, typename Keys::Value value) {
    using workload::Operation;
    switch (step.operation) {
      case Operation::lookup:
      case Operation::lookup_negative:
        return index_.lookup(step.key, value_);
      case Operation::insert:
        return index_.insert(step.key, value);
      case Operation::upsert:
        return index_.upsert(step.key, value);
      case Operation::update:
        return index_.update(step.key, value);
      case Operation::remove:
        return index_.remove(step.key);
      case Operation::scan:
        scan_.clear();
        return scanned(index_.scan(step.key, step.scan_count, scan_));
      case Operation::push:  // of no index
      case Operation::pop:
        break;
    }
    return Outcome::invalid;
  }

  /// What the last lookup found, and the last scan.
  [[nodiscard]] const typename Keys::ValueOut& value() const noexcept { return value_; }
  [[nodiscard]] const typename Keys::Scan& scan() const noexcept { return scan_; }

  /// The outcome that counts as success.
  [[nodiscard]] static Outcome expected(workload::Operation operation) noexcept {
    return operation == workload::Operation::lookup_negative ? Outcome::not_found : Outcome::ok;
  }

 private:
  // Some PiBench wrappers say how many records they found and hand out none.
  [[nodiscard]] Outcome scanned(std::size_t found) const noexcept {
    return scan_.size() != 0 || found != 0 ? Outcome::ok : Outcome::not_found;
  }

  OrderedIndex<Keys>& index_;
  typename Keys::ValueOut value_{};
  typename Keys::Scan scan_;
};

}  // namespace perdure::driver
