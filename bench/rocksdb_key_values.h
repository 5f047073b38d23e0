// RocksKeyValues: RocksDB behind the server's Redis front end, to measure our store against. It is
// part of the benchmark and of no product.
//
// Tuned as RocksDB's own documents recommend for heavy writes and point lookups:
//   log           each write is fdatasynced before it returns; concurrent ones share a sync (group
//                 commit), in a pipeline of log and memory table
//   memory table  OptimizeLevelStyleCompaction(512 MiB): six of 128 MiB, merged two by two; Bloom
//                 filter of whole keys
//   compaction    level style, max_background_jobs = cores (IncreaseParallelism), no compression:
//                 the values of the benchmark are random
//   blocks        an LRU cache of 1 GiB, Bloom filters of 10 bits a key, a hash index in each block
//
// Keys and values are stored as they are, in the default column family.
//
// K1  who reads a key in order to decide what to write holds its stripe alone from the read to the
//     write. A plain write holds it shared: an upsert replaces whatever is there, so two of them
//     need no order, and share a sync.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "server/redis/key_values.h"

namespace rocksdb {
class Cache;
class DB;
class Status;
}  // namespace rocksdb

namespace perdure::bench {

class RocksKeyValues final : public server::redis::KeyValues {
 public:
  /// Opens the database in the folder `path`, or makes it. Errors: io, corrupt.
  [[nodiscard]] static Result<std::unique_ptr<RocksKeyValues>> open(const std::string& path);
  /// Closes it; what was acknowledged is durable either way.
  ~RocksKeyValues() override;

  // What RocksDB refuses for another reason than those of KeyValues is `unchanged`, which the
  // session answers as an error, and a line on stderr.
  engine::Status get(std::string_view key, std::string& value) override;
  engine::Status set(std::string_view key, std::string_view value, Put kind) override;
  engine::Status exchange(std::string_view key, std::string_view value, Put kind, std::string& old,
                          bool& had_value) override;
  engine::Status remove(std::string_view key) override;
  bool scan(std::string_view from, std::size_t count, std::vector<std::string>& keys,
            std::string& next) override;
  /// Exact. Cost: a walk over all keys, because RocksDB only estimates, and because counting writes
  /// would make each of them look first.
  [[nodiscard]] std::uint64_t size() const override;
  /// RocksDB's estimates: `documents`, `live_bytes`, `segment_bytes` (sorted files), `dram_bytes`.
  [[nodiscard]] engine::StoreUsage usage() const override;

 private:
  struct alignas(64) Stripe {
    std::shared_mutex mutex;
  };

  RocksKeyValues(std::unique_ptr<rocksdb::DB> database, std::shared_ptr<rocksdb::Cache> cache);

  [[nodiscard]] std::shared_mutex& stripe_of(std::string_view key) noexcept;
  [[nodiscard]] engine::Status put(std::string_view key, std::string_view value);
  [[nodiscard]] std::uint64_t property(const std::string& name) const;

  std::shared_ptr<rocksdb::Cache> cache_;
  std::unique_ptr<rocksdb::DB> database_;
  std::array<Stripe, 1024> stripes_;
};

}  // namespace perdure::bench
