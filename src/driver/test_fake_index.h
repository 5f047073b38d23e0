// Indexes that misbehave on purpose, for tests of what the driver must notice.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "driver/config.h"

namespace perdure::driver::testing {

/// A correct map whose parts a fault may override.
class FakeIndex : public IntegerIndex {
 public:
  Outcome insert(std::uint64_t key, std::uint64_t value) override {
    const std::scoped_lock lock(mutex_);
    return map_.emplace(key, value).second ? Outcome::ok : Outcome::exists;
  }
  Outcome upsert(std::uint64_t key, std::uint64_t value) override {
    const std::scoped_lock lock(mutex_);
    map_[key] = value;
    return Outcome::ok;
  }
  Outcome update(std::uint64_t key, std::uint64_t value) override {
    const std::scoped_lock lock(mutex_);
    const auto found = map_.find(key);
    if (found == map_.end()) return Outcome::not_found;
    found->second = value;
    return Outcome::ok;
  }
  Outcome remove(std::uint64_t key) override {
    const std::scoped_lock lock(mutex_);
    return map_.erase(key) == 1 ? Outcome::ok : Outcome::not_found;
  }
  Outcome lookup(std::uint64_t key, std::uint64_t& value) override {
    const std::scoped_lock lock(mutex_);
    const auto found = map_.find(key);
    if (found == map_.end()) return Outcome::not_found;
    value = found->second;
    return Outcome::ok;
  }
  std::size_t scan(std::uint64_t from, std::size_t count, IntegerScan& out) override {
    const std::scoped_lock lock(mutex_);
    for (auto at = map_.lower_bound(from); at != map_.end() && out.size() < count; ++at)
      out.append(at->first, at->second);
    return out.size();
  }
  Result<void> bulk_load(std::span<const IntegerRecord> records) override {
    for (const IntegerRecord& record : records) map_.emplace(record.key, record.value);
    return {};
  }
  std::uint64_t size() const override { return map_.size(); }
  Result<void> check_invariants() const override { return {}; }
  std::uint64_t dram_bytes() const override { return 64 * map_.size(); }

 protected:
  std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> map_;
};

template <class Fake>
Result<std::unique_ptr<IntegerIndex>> create_fake(const IndexPlace&) {
  return std::unique_ptr<IntegerIndex>(std::make_unique<Fake>());
}

/// Twenty thousand lookups of ten thousand records, one thread, two repetitions.
template <class Fake>
[[nodiscard]] BenchConfig config_for() {
  BenchConfig config;
  config.index.name = "fake";
  config.index.index_class = IndexClass::in_memory;
  config.index.create_integer = create_fake<Fake>;
  config.workload.records = 10'000;
  config.workload.limit_operations(20'000);
  config.repetitions = 2;
  return config;
}

}  // namespace perdure::driver::testing
