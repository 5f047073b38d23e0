// StoreKeyValues: Redis's keys in a document store, as the collection that the document
// layer leaves to raw values (engine/document/keys.h).
//
//   key of the store   [00 00 00 01] key     document   the value as it is
//
// V1  `size` is the number of keys of the collection: counted when this is made, then changed by
//     what the store says that it has inserted and removed. So writes say `insert` or `update`.
#pragma once

#include <atomic>

#include "server/redis/key_values.h"

namespace perdure::server::redis {

class StoreKeyValues final : public KeyValues {
 public:
  /// Counts the keys that are there. `store` outlives this, and nobody else writes the collection.
  explicit StoreKeyValues(engine::DocumentStore& store);

  engine::Status get(std::string_view key, std::string& value) override;
  engine::Status set(std::string_view key, std::string_view value, Put kind) override;
  engine::Status exchange(std::string_view key, std::string_view value, Put kind, std::string& old,
                          bool& had_value) override;
  engine::Status remove(std::string_view key) override;
  bool scan(std::string_view from, std::size_t count, std::vector<std::string>& keys,
            std::string& next) override;
  [[nodiscard]] std::uint64_t size() const override;
  [[nodiscard]] engine::StoreUsage usage() const override;

 private:
  engine::DocumentStore& store_;
  std::atomic<std::uint64_t> size_{0};
};

}  // namespace perdure::server::redis
