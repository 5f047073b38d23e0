// KeyValues in a std::map, for tests: it can pretend to be full or damaged.
#pragma once

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "server/redis/key_values.h"

namespace perdure::server::redis {

class MapKeyValues final : public KeyValues {
 public:
  using Status = engine::Status;

  std::uint64_t room = ~std::uint64_t{0};  ///< keys that fit
  std::optional<std::string> corrupt_key{};

  Status get(std::string_view key, std::string& value) override {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    if (found == values_.end()) return Status::not_found;
    if (key == corrupt_key) return Status::corrupt;
    value = found->second;
    return Status::ok;
  }
  Status set(std::string_view key, std::string_view value, Put kind) override {
    const std::lock_guard lock(mutex_);
    return put(key, value, kind);
  }
  Status exchange(std::string_view key, std::string_view value, Put kind, std::string& old,
                  bool& had_value) override {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    had_value = found != values_.end();
    if (had_value && key == corrupt_key) return Status::corrupt;
    if (had_value) old = found->second;
    return put(key, value, kind);
  }
  Status remove(std::string_view key) override {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    if (found == values_.end()) return Status::not_found;
    values_.erase(found);
    return key == corrupt_key ? Status::corrupt : Status::ok;
  }
  bool scan(std::string_view from, std::size_t count, std::vector<std::string>& keys,
            std::string& next) override {
    const std::lock_guard lock(mutex_);
    auto at = values_.lower_bound(from);
    for (; at != values_.end() && count > 0; ++at, --count) keys.push_back(at->first);
    if (at == values_.end()) return false;
    next = at->first;
    return true;
  }
  [[nodiscard]] std::uint64_t size() const override {
    const std::lock_guard lock(mutex_);
    return values_.size();
  }
  [[nodiscard]] engine::StoreUsage usage() const override { return {}; }

 private:
  Status put(std::string_view key, std::string_view value, Put kind) {
    const auto found = values_.find(key);
    const bool present = found != values_.end();
    if (is_refused(kind, present)) return present ? Status::exists : Status::not_found;
    if (present) {
      found->second = value;
      return Status::ok;
    }
    if (values_.size() >= room) return Status::out_of_space;
    values_.emplace(key, value);
    return Status::ok;
  }

  mutable std::mutex mutex_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace perdure::server::redis
