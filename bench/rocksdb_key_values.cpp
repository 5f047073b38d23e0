#include "rocksdb_key_values.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "index/writable_index.h"

namespace perdure::bench {
namespace {

using engine::Status;

constexpr std::uint64_t memory_table_bytes = std::uint64_t{512} << 20;
constexpr std::size_t block_cache_bytes = std::size_t{1} << 30;
constexpr double filter_bits_per_key = 10;
constexpr double memory_filter_share =
    0.02;  // of a memory table; what OptimizeForPointLookup takes

rocksdb::Slice slice_of(std::string_view text) noexcept { return {text.data(), text.size()}; }

rocksdb::WriteOptions durably() {
  rocksdb::WriteOptions options;
  options.sync = true;
  return options;
}

rocksdb::Options tuned(const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.OptimizeLevelStyleCompaction(memory_table_bytes);
  options.IncreaseParallelism(static_cast<int>(std::max(2U, std::thread::hardware_concurrency())));
  options.compression_per_level.clear();  // which the first of these has set
  options.compression = rocksdb::kNoCompression;
  options.enable_pipelined_write = true;
  options.memtable_prefix_bloom_size_ratio = memory_filter_share;
  options.memtable_whole_key_filtering = true;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(filter_bits_per_key));
  table.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

Status status_of(const rocksdb::Status& status) {
  if (status.ok()) return Status::ok;
  if (status.IsNotFound()) return Status::not_found;
  // A client learns too little from an error reply to tell a full disk from a broken one.
  std::fprintf(stderr, "rocksdb_server: RocksDB: %s\n", status.ToString().c_str());
  if (status.IsNoSpace() || status.subcode() == rocksdb::Status::kSpaceLimit)
    return Status::out_of_space;
  return status.IsCorruption() ? Status::corrupt : Status::unchanged;
}

}  // namespace

Result<std::unique_ptr<RocksKeyValues>> RocksKeyValues::open(const std::string& path) {
  std::shared_ptr<rocksdb::Cache> cache = rocksdb::NewLRUCache(block_cache_bytes);
  rocksdb::DB* database = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(tuned(cache), path, &database);
  if (!status.ok())
    return Error{status.IsCorruption() ? ErrorCode::corrupt : ErrorCode::io,
                 "RocksDB cannot open its database: " + status.ToString(), path,
                 "give a new folder where you may write, with room"};
  return std::unique_ptr<RocksKeyValues>(
      new RocksKeyValues(std::unique_ptr<rocksdb::DB>(database), std::move(cache)));
}

RocksKeyValues::RocksKeyValues(std::unique_ptr<rocksdb::DB> database,
                               std::shared_ptr<rocksdb::Cache> cache)
    : cache_(std::move(cache)), database_(std::move(database)) {}

RocksKeyValues::~RocksKeyValues() {
  if (const rocksdb::Status status = database_->Close(); !status.ok()) (void)status_of(status);
}

Status RocksKeyValues::get(std::string_view key, std::string& value) {
  return status_of(database_->Get({}, slice_of(key), &value));
}

Status RocksKeyValues::set(std::string_view key, std::string_view value, Put kind) {
  if (kind == Put::upsert) {
    const std::shared_lock lock(stripe_of(key));
    return put(key, value);
  }
  std::string old;
  bool had_value = false;
  return exchange(key, value, kind, old, had_value);
}

Status RocksKeyValues::exchange(std::string_view key, std::string_view value, Put kind,
                                std::string& old, bool& had_value) {
  const std::lock_guard lock(stripe_of(key));
  const Status found = get(key, old);
  had_value = found == Status::ok;
  if (!had_value && found != Status::not_found) return found;
  if (is_refused(kind, had_value)) return had_value ? Status::exists : Status::not_found;
  return put(key, value);
}

Status RocksKeyValues::remove(std::string_view key) {
  const std::lock_guard lock(stripe_of(key));
  rocksdb::PinnableSlice value;
  const Status found =
      status_of(database_->Get({}, database_->DefaultColumnFamily(), slice_of(key), &value));
  if (found != Status::ok) return found;
  return status_of(database_->Delete(durably(), slice_of(key)));
}

bool RocksKeyValues::scan(std::string_view from, std::size_t count, std::vector<std::string>& keys,
                          std::string& next) {
  const std::unique_ptr<rocksdb::Iterator> at(database_->NewIterator({}));
  at->Seek(slice_of(from));
  for (; at->Valid() && count > 0; at->Next(), --count) keys.push_back(at->key().ToString());
  if (!at->status().ok()) (void)status_of(at->status());
  if (!at->Valid()) return false;
  next = at->key().ToString();
  return true;
}

std::uint64_t RocksKeyValues::size() const {
  std::uint64_t keys = 0;
  const std::unique_ptr<rocksdb::Iterator> at(database_->NewIterator({}));
  for (at->SeekToFirst(); at->Valid(); at->Next()) ++keys;
  if (!at->status().ok()) (void)status_of(at->status());
  return keys;
}

engine::StoreUsage RocksKeyValues::usage() const {
  engine::StoreUsage usage;
  usage.documents = property(rocksdb::DB::Properties::kEstimateNumKeys);
  usage.live_bytes = property(rocksdb::DB::Properties::kEstimateLiveDataSize);
  usage.segment_bytes = property(rocksdb::DB::Properties::kTotalSstFilesSize);
  usage.dram_bytes = property(rocksdb::DB::Properties::kSizeAllMemTables) +
                     property(rocksdb::DB::Properties::kEstimateTableReadersMem) +
                     cache_->GetUsage();
  return usage;
}

std::shared_mutex& RocksKeyValues::stripe_of(std::string_view key) noexcept {
  return stripes_[std::hash<std::string_view>()(key) % stripes_.size()].mutex;
}

Status RocksKeyValues::put(std::string_view key, std::string_view value) {
  return status_of(database_->Put(durably(), slice_of(key), slice_of(value)));
}

std::uint64_t RocksKeyValues::property(const std::string& name) const {
  std::uint64_t value = 0;
  database_->GetIntProperty(name, &value);
  return value;
}

}  // namespace perdure::bench
