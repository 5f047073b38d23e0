// `lmdb`: an index over LMDB with one durable transaction for each operation. See design.md.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "index/common/bulk_check.h"
#include "index/lmdb/environment.h"
#include "index/lmdb/integer_keys.h"
#include "index/lmdb/layered_keys.h"
#include "index/registry.h"

namespace perdure::lmdb {
namespace {

bool copy(const MDB_val& stored, std::uint64_t& value) {
  if (stored.mv_size != sizeof value) return false;
  std::memcpy(&value, stored.mv_data, sizeof value);
  return true;
}
bool copy(const MDB_val& stored, std::string& value) {
  value = view_of(stored);
  return true;
}

template <class Keys>
class LmdbIndex final : public OrderedIndex<Keys> {
  using Base = OrderedIndex<Keys>;
  static constexpr bool is_bytes = Keys::kind == KeyKind::bytes;
  using Entries = std::conditional_t<is_bytes, LayeredKeys, IntegerEntries>;

 public:
  using Key = typename Base::Key;
  using Value = typename Base::Value;
  using ValueOut = typename Base::ValueOut;
  using Record = typename Base::Record;
  using Scan = typename Base::Scan;

  explicit LmdbIndex(std::unique_ptr<Environment> environment)
      : environment_(std::move(environment)), entries_(*environment_) {}

  Outcome insert(Key key, Value value) override {
    if (!within_limits(key, value)) return Outcome::invalid;
    return change([&](MDB_txn* transaction) {
      return entries_.put(transaction, key, value, MDB_NOOVERWRITE);
    });
  }

  Outcome upsert(Key key, Value value) override {
    if (!within_limits(key, value)) return Outcome::invalid;
    return change([&](MDB_txn* transaction) { return entries_.put(transaction, key, value, 0); });
  }

  Outcome update(Key key, Value value) override {
    if (!within_limits(key, value)) return Outcome::invalid;
    return change([&](MDB_txn* transaction) {
      MDB_val old;
      const int failure = entries_.find(transaction, key, old);
      return failure != 0 ? failure : entries_.put(transaction, key, value, 0);
    });
  }

  Outcome remove(Key key) override {
    return change([&](MDB_txn* transaction) { return entries_.erase(transaction, key); });
  }

  Outcome lookup(Key key, ValueOut& value) override {
    const Environment::Reader reader(*environment_);
    if (reader.failure() != 0) return outcome_of(reader.failure());
    MDB_val stored;
    const int failure = entries_.find(reader.get(), key, stored);
    if (failure != 0) return outcome_of(failure);
    return copy(stored, value) ? Outcome::ok : Outcome::invalid;
  }

  std::size_t scan(Key from, std::size_t count, Scan& out) override {
    out.clear();
    const Environment::Reader reader(*environment_);
    if (reader.failure() != 0 || count == 0) return 0;
    const auto take = [&](Key key, Value value) {
      out.append(key, value);
      return out.size() < count;
    };
    [[maybe_unused]] const int failure = entries_.walk(reader.get(), from, take);
    return out.size();
  }

  // One transaction: a crash before its commit leaves nothing of it.
  Result<void> bulk_load(std::span<const Record> records) override {
    if (auto refusal = bulk_load_refusal(size() == 0, records)) return std::move(*refusal);
    Environment::Writer writer(*environment_);
    int failure = writer.failure();
    for (std::size_t i = 0; failure == 0 && i < records.size(); ++i)
      failure = entries_.put(writer.get(), records[i].key, records[i].value,
                             is_bytes ? 0U : unsigned{MDB_APPEND});
    if (failure == 0) failure = writer.commit();
    if (failure != 0) return error_of(failure, "LMDB cannot load", environment_->path());
    return {};
  }

  std::uint64_t size() const override {
    const Environment::Reader reader(*environment_);
    return reader.failure() != 0 ? 0 : count(reader.get());
  }

  // Cost: a walk. Checks the order of keys, and K2 and K4 of layered_keys.h: a walk from the root
  // meets every record exactly when every layer is named once.
  Result<void> check_invariants() const override {
    const Environment::Reader reader(*environment_);
    if (reader.failure() != 0)
      return error_of(reader.failure(), "LMDB cannot read", environment_->path());
    std::uint64_t records = 0;
    bool ascending = true;
    std::optional<std::conditional_t<is_bytes, std::string, std::uint64_t>> before;
    const int failure = entries_.walk(reader.get(), Key{}, [&](Key key, Value) {
      ascending = !before || *before < key;
      before.emplace(key);
      ++records;
      return ascending;
    });
    if (failure != 0) return error_of(failure, "LMDB cannot read", environment_->path());
    const std::uint64_t expected = count(reader.get());
    if (!ascending || records != expected)
      return Error{ErrorCode::corrupt,
                   ascending ? "K2: a walk meets " + std::to_string(records) + " of " +
                                   std::to_string(expected) + " records"
                             : "K1: keys are out of order at record " + std::to_string(records),
                   environment_->path(), "restore the directory or create a new index"};
    return {};
  }

  // LMDB reads from the system's page cache and keeps none of its own.
  std::uint64_t dram_bytes() const override { return sizeof *this + sizeof(Environment); }

 private:
  template <class Change>
  Outcome change(Change&& change) {
    Environment::Writer writer(*environment_);
    int failure = writer.failure();
    if (failure == 0) failure = change(writer.get());
    if (failure == 0) failure = writer.commit();
    return outcome_of(failure);
  }

  [[nodiscard]] std::uint64_t count(MDB_txn* transaction) const {
    MDB_stat stat;
    Layers layers;
    if (mdb_stat(transaction, environment_->records(), &stat) != 0 ||
        entries_.layers(transaction, layers) != 0)
      return 0;
    return stat.ms_entries - layers.live;
  }

  std::unique_ptr<Environment> environment_;
  Entries entries_;
};

template <class Keys>
MadeIndex<Keys> over(Result<std::unique_ptr<Environment>> environment) {
  if (!environment) return environment.error();
  return std::unique_ptr<OrderedIndex<Keys>>(
      std::make_unique<LmdbIndex<Keys>>(std::move(environment).value()));
}
template <class Keys>
MadeIndex<Keys> create(const IndexPlace& place) {
  return over<Keys>(Environment::create(place, Keys::kind));
}
template <class Keys>
MadeIndex<Keys> recover(const IndexPlace& place) {
  return over<Keys>(Environment::open(place, Keys::kind));
}

PERDURE_REGISTER_INDEX(lmdb, IndexInfo{
                                 .name = "lmdb",
                                 .title = "LMDB, a durable transaction for each operation",
                                 .index_class = IndexClass::on_disk,
                                 .native_only = true,
                                 .create_integer = create<IntegerKeys>,
                                 .create_bytes = create<ByteKeys>,
                                 .recover_integer = recover<IntegerKeys>,
                                 .recover_bytes = recover<ByteKeys>,
                             });

}  // namespace
}  // namespace perdure::lmdb
