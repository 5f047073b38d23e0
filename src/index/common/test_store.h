// What tests of one index share: a pool in a file of its own that can lose power, and comparison
// with a model.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "core/assert.h"
#include "index/index.h"
#include "index/registry.h"
#include "pool/pool.h"

namespace perdure::index_test {

inline std::uint64_t next_serial() {
  static std::uint64_t serial = 0;
  return serial++;
}

/// For EXPECT_TRUE: the error's line is the message.
[[nodiscard]] inline testing::AssertionResult succeeds(const Result<void>& result) {
  if (result.ok()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << result.error().line();
}

/// One index in a pool of its own, which is deleted at the end.
template <class Keys>
class Store {
 public:
  using Value = typename Keys::Value;
  using Index = OrderedIndex<Keys>;

  explicit Store(const char* name, HeapKind heap = HeapKind::slab,
                 std::uint64_t bytes = Pool::min_pool_bytes, std::vector<std::string> options = {})
      : info_(*IndexRegistry::find(name)), options_(std::move(options)) {
    pool_options_.path = (std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp") +
                         std::string("/perdure-") + info_->name + "-test-" +
                         std::to_string(getpid()) + "-" + std::to_string(next_serial()) + ".pool";
    pool_options_.heap = heap;
    pool_options_.bytes = bytes;
    pool_options_.overwrite = true;
    pool_options_.parts = place().options.pool_parts();
    pool_options_.bytes *= pool_options_.parts;
    auto pool = Pool::create(pool_options_);
    if (!pool) throw std::runtime_error(pool.error().line());
    pool_ = std::move(pool).value();
    auto index = create_index<Keys>(*info_, place());
    if (!index) throw std::runtime_error(index.error().line());
    index_ = std::move(index).value();
  }
  ~Store() {
    index_.reset();
    pool_.reset();
    for (unsigned n = 0; n < pool_options_.parts; ++n) std::remove(path(n).c_str());
  }
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  [[nodiscard]] const IndexInfo& info() const { return *info_; }
  /// The file of a part of the pool. With `node_pools` each has `bytes`.
  [[nodiscard]] std::string path(unsigned part = 0) const {
    return Pool::part_path(pool_options_.path, part);
  }
  [[nodiscard]] Index& index() { return *index_; }
  [[nodiscard]] Pool& pool() { return *pool_; }

  /// Drops the index and the pool without a clean shutdown, lets `patch` edit the file, and
  /// recovers. At another address, so that an address kept on media would show.
  template <class Patch>
  [[nodiscard]] Result<void> crash(Patch&& patch) {
    std::byte* const base =
        pool_ ? pool_->base() : nullptr;  // null: not opened last time, or closed
    const std::uint64_t bytes = base != nullptr ? pool_->extent_bytes() : 0;
    index_.reset();
    pool_.reset();
    patch(pool_options_.path);
    void* const taken =
        mmap(base, bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    auto pool = Pool::open(pool_options_);
    if (taken != MAP_FAILED) munmap(taken, bytes);
    if (!pool) return pool.error();
    pool_ = std::move(pool).value();
    auto index = recover_index<Keys>(*info_, place());
    if (!index) return index.error();
    index_ = std::move(index).value();
    return {};
  }
  /// The same, with another lock.
  [[nodiscard]] Result<void> crash_with(LockKind lock) {
    lock_ = lock;
    return crash();
  }
  /// The same, recovered as another index than created.
  [[nodiscard]] Result<void> crash_into(const char* name) {
    info_ = *IndexRegistry::find(name);
    return crash();
  }
  [[nodiscard]] Result<void> crash() {
    return crash([](const std::string&) {});
  }

  [[nodiscard]] IndexPlace place() {
    IndexPlace place;
    place.pool = pool_.get();
    auto options = IndexRegistry::options(*info_, options_);
    PERDURE_ASSERT(options.ok());
    place.options = *options;
    place.threads = 2;
    place.lock = lock_;
    return place;
  }

 private:
  const IndexInfo* info_;
  std::vector<std::string> options_;
  LockKind lock_ = LockKind::readers_writer;
  PoolOptions pool_options_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Index> index_;
};

/// The same with a peer, which reaches the inside of the index `Peer<Keys>::index_name`.
template <template <class> class Peer, class Keys>
class PeerStore : public Store<Keys> {
 public:
  explicit PeerStore(std::vector<std::string> options = {}, HeapKind heap = HeapKind::slab,
                     std::uint64_t bytes = Pool::min_pool_bytes)
      : Store<Keys>(Peer<Keys>::index_name, heap, bytes, std::move(options)) {}

  [[nodiscard]] Peer<Keys> peer() { return Peer<Keys>(this->index()); }
};

using IntegerModel = std::map<std::uint64_t, std::uint64_t>;
using BytesModel = std::map<std::string, std::string>;
using SlotModel = std::map<std::uint64_t, std::string>;
template <class Keys>
using Model =
    std::conditional_t<Keys::kind == KeyKind::integer, IntegerModel,
                       std::conditional_t<Keys::kind == KeyKind::bytes, BytesModel, SlotModel>>;

/// A store beside the model of what it holds; `key_of(n)` is the n-th key, or value.
template <class Keys, template <class> class Store, auto key_of>
struct ModelledStore {
  Store<Keys> store;
  Model<Keys> model;

  explicit ModelledStore(std::vector<std::string> options) : store(std::move(options)) {}
  void insert(std::uint64_t number) { insert(number, number); }
  void insert(std::uint64_t number, std::uint64_t value) {
    EXPECT_EQ(store.index().insert(key_of(number), key_of(value)), Outcome::ok);
    model[key_of(number)] = key_of(value);
  }
  void remove(std::uint64_t number) {
    EXPECT_EQ(store.index().remove(key_of(number)), Outcome::ok);
    model.erase(key_of(number));
  }
  [[nodiscard]] std::uint64_t offset(const void* address) {
    return store.pool().offset_of(address);
  }
};

/// The index holds exactly the model, by size, scan and lookup, and its invariants hold.
template <class Keys>
void expect_equal(OrderedIndex<Keys>& index, const Model<Keys>& model) {
  ASSERT_TRUE(succeeds(index.check_invariants()));
  ASSERT_EQ(index.size(), model.size());
  typename Keys::Scan scan;
  ASSERT_EQ(index.scan({}, model.size() + 1, scan), model.size());
  std::size_t i = 0;
  typename Keys::ValueOut value{};
  for (const auto& [key, expected] : model) {
    ASSERT_EQ(scan[i].key, key) << "at " << i;
    ASSERT_EQ(scan[i].value, expected) << "at " << i;
    ASSERT_EQ(index.lookup(key, value), Outcome::ok);
    ASSERT_EQ(value, expected);
    ++i;
  }
}

/// A bulk load that does not fit into the smallest pool; then one that does.
inline void expect_too_large_a_bulk_load_leaves_nothing(Store<ByteKeys>& store) {
  const std::string value(20'000, 'v');
  std::vector<std::string> keys;
  for (unsigned i = 1000; i < 3000; ++i) keys.push_back(std::to_string(i));
  std::vector<BytesRecord> records;
  for (const std::string& key : keys) records.push_back({key, value});
  const std::uint64_t blocks = store.pool().heap().usage().live_blocks;
  const Result<void> loaded = store.index().bulk_load(records);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().code, ErrorCode::out_of_space);
  EXPECT_EQ(store.pool().heap().usage().live_blocks, blocks);
  ASSERT_NO_FATAL_FAILURE(expect_equal<ByteKeys>(store.index(), {}));
  ASSERT_TRUE(succeeds(store.index().bulk_load(std::span(records).first(100))));
  EXPECT_EQ(store.index().size(), 100U);
  EXPECT_TRUE(succeeds(store.index().check_invariants()));
}

}  // namespace perdure::index_test
