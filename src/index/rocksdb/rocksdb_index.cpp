// `rocksdb`: an index over RocksDB with a synchronous write for each operation. See design.md.
//
// R1  a key is changed only under its stripe's lock: insert, update and remove look before they
//     write, and an upsert between the two would be lost.
// R2  the records live in a column family named after the kind of key; the default one is empty.
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/sst_file_manager.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/assert.h"
#include "index/common/bulk_check.h"
#include "index/reference/engine_directory.h"
#include "index/registry.h"
#include "pm/pm.h"

namespace perdure {
namespace {

constexpr std::uint64_t default_capacity_bytes = std::uint64_t{1} << 30;
constexpr std::uint64_t write_buffer_bytes = std::uint64_t{16} << 20;
constexpr std::uint64_t arena_block_bytes = std::uint64_t{64} << 10;  // `is_full` counts them whole
constexpr std::uint64_t block_cache_bytes = std::uint64_t{64} << 20;
constexpr int filter_bits_per_key = 10;

bool is_out_of_space(const rocksdb::Status& status) noexcept {
  return status.IsNoSpace() || status.subcode() == rocksdb::Status::kSpaceLimit;
}

Error error_of(const rocksdb::Status& status, const std::string& what, const std::string& path) {
  const std::string text = what + ": " + status.ToString();
  if (is_out_of_space(status))
    return {ErrorCode::out_of_space, text, path, "give the index more room"};
  if (status.IsCorruption())
    return {ErrorCode::corrupt, text, path, "restore the directory or create a new index"};
  if (status.IsNotSupported())
    return {ErrorCode::newer, text, path, "use the version of RocksDB that wrote it"};
  if (status.IsInvalidArgument())
    return {ErrorCode::foreign, text, path, "name the directory of a rocksdb index"};
  return {ErrorCode::io, text, path, "check the path, its permissions and its file system"};
}

Outcome outcome_of(const rocksdb::Status& status) noexcept {
  if (status.ok()) return Outcome::ok;
  if (status.IsNotFound()) return Outcome::not_found;
  if (is_out_of_space(status)) return Outcome::out_of_space;
  return Outcome::invalid;
}

// Keys and values as RocksDB stores them: integers big-endian, so that byte order is numeric order.
class Stored {
 public:
  explicit Stored(std::uint64_t word) noexcept : word_(__builtin_bswap64(word)), is_word_(true) {}
  explicit Stored(std::string_view text) noexcept : text_(text), is_word_(false) {}
  [[nodiscard]] rocksdb::Slice slice() const noexcept {
    if (is_word_) return {reinterpret_cast<const char*>(&word_), sizeof word_};
    return {text_.data(), text_.size()};
  }

 private:
  std::uint64_t word_ = 0;
  std::string_view text_;
  bool is_word_;
};

bool read(const rocksdb::Slice& stored, std::uint64_t& word) {
  if (stored.size() != sizeof word) return false;
  std::memcpy(&word, stored.data(), sizeof word);
  word = __builtin_bswap64(word);
  return true;
}
bool read(const rocksdb::Slice& stored, std::string_view& text) {
  text = {stored.data(), stored.size()};
  return true;
}

/// An open database and the column family of one kind of key.
struct Engine {
  explicit Engine(EngineDirectory held) : directory(std::move(held)) {}
  ~Engine() {
    if (database == nullptr) return;
    for (rocksdb::ColumnFamilyHandle* const family : families)
      database->DestroyColumnFamilyHandle(family);
    database->Close();
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] std::string data_path() const { return directory.file("db"); }
  [[nodiscard]] rocksdb::ColumnFamilyHandle* records() const { return families.back(); }

  EngineDirectory directory;  // the first, so that a failed creation is removed after the close
  std::shared_ptr<rocksdb::Cache> cache;
  std::shared_ptr<rocksdb::SstFileManager> files;
  std::uint64_t capacity_bytes = 0;
  rocksdb::Options options;
  std::vector<rocksdb::ColumnFamilyHandle*> families;
  std::unique_ptr<rocksdb::DB> database;
};

void set_options(Engine& engine, bool create) {
  rocksdb::Options& options = engine.options;
  options.create_if_missing = create;
  options.create_missing_column_families = create;
  options.error_if_exists = create;
  options.write_buffer_size = write_buffer_bytes;
  options.db_write_buffer_size = 2 * write_buffer_bytes;
  options.arena_block_size = arena_block_bytes;
  options.max_open_files = 256;
  options.compression = rocksdb::kNoCompression;
  options.info_log_level = rocksdb::ERROR_LEVEL;
  options.keep_log_file_num = 1;
  engine.cache = rocksdb::NewLRUCache(block_cache_bytes);
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = engine.cache;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(filter_bits_per_key));
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  engine.files.reset(rocksdb::NewSstFileManager(rocksdb::Env::Default()));
  options.sst_file_manager = engine.files;
}

Result<std::unique_ptr<Engine>> open_engine(EngineDirectory directory, const IndexPlace& place,
                                            KeyKind kind, bool create) {
  auto engine = std::make_unique<Engine>(std::move(directory));
  set_options(*engine, create);
  engine->capacity_bytes =
      place.capacity_bytes == 0 ? default_capacity_bytes : place.capacity_bytes;
  const std::string path = engine->data_path();
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = {
      {rocksdb::kDefaultColumnFamilyName, engine->options}, {name_of(kind), engine->options}};
  rocksdb::DB* database = nullptr;
  const rocksdb::Status status =
      rocksdb::DB::Open(engine->options, path, families, &engine->families, &database);
  if (!status.ok()) return error_of(status, "RocksDB cannot open the index", path);
  engine->database.reset(database);
  return engine;
}

// R2: opening with the wrong family would only say "invalid argument".
Result<void> check_kind(const EngineDirectory& directory, KeyKind kind) {
  std::vector<std::string> families;
  const std::string path = directory.file("db");
  const rocksdb::Status status = rocksdb::DB::ListColumnFamilies({}, path, &families);
  if (!status.ok()) {
    if (!rocksdb::Env::Default()->FileExists(path + "/CURRENT").ok())
      return Error{ErrorCode::foreign, "holds no rocksdb index", directory.path(),
                   "name the directory of a rocksdb index"};
    return error_of(status, "RocksDB cannot read the index", path);
  }
  if (std::ranges::find(families, name_of(kind)) != families.end()) return {};
  return Error{ErrorCode::foreign, "holds the other kind of keys", directory.path(),
               std::string("do not ask for ") + name_of(kind) + " keys"};
}

template <class Keys>
class RocksDbIndex final : public OrderedIndex<Keys> {
  using Base = OrderedIndex<Keys>;
  static constexpr bool is_bytes = Keys::kind == KeyKind::bytes;

 public:
  using Key = typename Base::Key;
  using Value = typename Base::Value;
  using ValueOut = typename Base::ValueOut;
  using Record = typename Base::Record;
  using Scan = typename Base::Scan;

  explicit RocksDbIndex(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {
    durable_.sync = true;
  }

  Outcome insert(Key key, Value value) override {
    return write(key, value, [](Outcome present) {
      return present == Outcome::not_found ? Outcome::ok
             : present == Outcome::ok      ? Outcome::exists
                                           : present;
    });
  }

  Outcome update(Key key, Value value) override {
    return write(key, value, [](Outcome present) { return present; });
  }

  Outcome upsert(Key key, Value value) override {
    if (!within_limits(key, value)) return Outcome::invalid;
    const Stored stored(key);
    const pm::LockGuard guard(stripe_of(stored));
    return is_full() ? Outcome::out_of_space : put(stored, value);
  }

  // Needs room for a tombstone only, so it is not refused when the index is full.
  Outcome remove(Key key) override {
    const Stored stored(key);
    const pm::LockGuard guard(stripe_of(stored));
    const Outcome present = find(stored);
    if (present != Outcome::ok) return present;
    return outcome_of(engine_->database->Delete(durable_, engine_->records(), stored.slice()));
  }

  Outcome lookup(Key key, ValueOut& value) override {
    rocksdb::PinnableSlice found;
    const Outcome outcome = find(Stored(key), found);
    if (outcome != Outcome::ok) return outcome;
    Value seen{};
    if (!read(found, seen)) return Outcome::invalid;
    value = seen;
    return Outcome::ok;
  }

  std::size_t scan(Key from, std::size_t count, Scan& out) override {
    out.clear();
    walk(from, [&](Key key, Value value) {
      if (out.size() < count) out.append(key, value);
      return out.size() < count;
    });
    return out.size();
  }

  // A sorted file of its own, taken in atomically: a crash before that leaves it aside.
  Result<void> bulk_load(std::span<const Record> records) override {
    if (auto refusal = bulk_load_refusal(is_empty(), records)) return std::move(*refusal);
    if (records.empty()) return {};
    const std::string path = engine_->directory.file("bulk.sst");
    rocksdb::SstFileWriter file(rocksdb::EnvOptions(), engine_->options, engine_->records());
    rocksdb::Status status = file.Open(path);
    for (std::size_t i = 0; status.ok() && i < records.size(); ++i)
      status = file.Put(Stored(records[i].key).slice(), Stored(records[i].value).slice());
    if (status.ok()) status = file.Finish();
    if (status.ok() && file.FileSize() > engine_->capacity_bytes)
      status = rocksdb::Status::SpaceLimit();
    rocksdb::IngestExternalFileOptions options;
    options.move_files = true;
    if (status.ok())
      status = engine_->database->IngestExternalFile(engine_->records(), {path}, options);
    if (!status.ok()) {
      rocksdb::Env::Default()->DeleteFile(path).PermitUncheckedError();
      return error_of(status, "RocksDB cannot load", path);
    }
    return {};
  }

  // Cost: a walk; RocksDB itself only estimates.
  std::uint64_t size() const override {
    std::uint64_t records = 0;
    walk(Key{}, [&](Key, Value) {
      ++records;
      return true;
    });
    return records;
  }

  Result<void> check_invariants() const override {
    const std::string path = engine_->data_path();
    const rocksdb::Status status = engine_->database->VerifyChecksum();
    if (!status.ok()) return error_of(status, "a checksum does not hold", path);
    std::string before;
    bool ascending = true;
    bool first = true;
    const auto at = iterator();
    for (at->SeekToFirst(); at->Valid() && ascending; at->Next(), first = false) {
      ascending = first || before < at->key().ToStringView();
      before.assign(at->key().data(), at->key().size());
    }
    if (!at->status().ok()) return error_of(at->status(), "RocksDB cannot read", path);
    if (!ascending)
      return Error{ErrorCode::corrupt, "keys are out of order", path,
                   "restore the directory or create a new index"};
    return {};
  }

  std::uint64_t dram_bytes() const override {
    return sizeof *this + property("rocksdb.size-all-mem-tables") +
           property("rocksdb.estimate-table-readers-mem") + engine_->cache->GetUsage();
  }

 private:
  static constexpr std::size_t stripe_count = 1024;

  [[nodiscard]] pm::VersionLock& stripe_of(const Stored& key) noexcept {
    const rocksdb::Slice slice = key.slice();
    return stripes_[std::hash<std::string_view>()({slice.data(), slice.size()}) % stripe_count];
  }

  // R1. `decide` turns "is the key there" into ok, which writes, or the outcome to return.
  template <class Decide>
  Outcome write(Key key, Value value, Decide&& decide) {
    if (!within_limits(key, value)) return Outcome::invalid;
    const Stored stored(key);
    const pm::LockGuard guard(stripe_of(stored));
    const Outcome decision = decide(find(stored));
    if (decision != Outcome::ok) return decision;
    return is_full() ? Outcome::out_of_space : put(stored, value);
  }

  [[nodiscard]] Outcome put(const Stored& key, Value value) {
    return outcome_of(
        engine_->database->Put(durable_, engine_->records(), key.slice(), Stored(value).slice()));
  }
  [[nodiscard]] Outcome find(const Stored& key, rocksdb::PinnableSlice& found) const {
    return outcome_of(engine_->database->Get({}, engine_->records(), key.slice(), &found));
  }
  [[nodiscard]] Outcome find(const Stored& key) const {
    rocksdb::PinnableSlice found;
    return find(key, found);
  }

  [[nodiscard]] std::unique_ptr<rocksdb::Iterator> iterator() const {
    return std::unique_ptr<rocksdb::Iterator>(
        engine_->database->NewIterator({}, engine_->records()));
  }

  template <class Visit>
  void walk(Key from, Visit&& visit) const {
    const Stored stored(from);
    const auto at = iterator();
    Key key{};
    Value value{};
    for (at->Seek(stored.slice()); at->Valid(); at->Next())
      if (!read(at->key(), key) || !read(at->value(), value) || !visit(key, value)) break;
  }

  [[nodiscard]] bool is_empty() const {
    const auto at = iterator();
    at->SeekToFirst();
    return !at->Valid();
  }

  // The engine's own limit would turn it read-only for good; this one lets removes make room.
  [[nodiscard]] bool is_full() const {
    return engine_->files->GetTotalSize() + property("rocksdb.cur-size-all-mem-tables") >=
           engine_->capacity_bytes;
  }

  [[nodiscard]] std::uint64_t property(const char* name) const {
    std::uint64_t value = 0;
    engine_->database->GetIntProperty(engine_->records(), name, &value);
    return value;
  }

  std::unique_ptr<Engine> engine_;
  rocksdb::WriteOptions durable_;
  std::array<pm::VersionLock, stripe_count> stripes_;
};

template <class Keys>
MadeIndex<Keys> create(const IndexPlace& place) {
  auto directory = EngineDirectory::create(place.path, "rocksdb");
  if (!directory) return directory.error();
  auto engine = open_engine(std::move(directory).value(), place, Keys::kind, true);
  if (!engine) return engine.error();
  if (auto kept = engine.value()->directory.keep(); !kept) return kept.error();
  return std::unique_ptr<OrderedIndex<Keys>>(
      std::make_unique<RocksDbIndex<Keys>>(std::move(engine).value()));
}

template <class Keys>
MadeIndex<Keys> recover(const IndexPlace& place) {
  auto directory = EngineDirectory::open(place.path, "rocksdb");
  if (!directory) return directory.error();
  if (auto checked = check_kind(*directory, Keys::kind); !checked) return checked.error();
  const std::string aside = directory->file("bulk.sst");
  rocksdb::Env::Default()->DeleteFile(aside).PermitUncheckedError();  // of a bulk load cut short
  auto engine = open_engine(std::move(directory).value(), place, Keys::kind, false);
  if (!engine) return engine.error();
  return std::unique_ptr<OrderedIndex<Keys>>(
      std::make_unique<RocksDbIndex<Keys>>(std::move(engine).value()));
}

PERDURE_REGISTER_INDEX(rocksdb, IndexInfo{
                                    .name = "rocksdb",
                                    .title = "RocksDB, a synchronous write for each operation",
                                    .index_class = IndexClass::on_disk,
                                    .native_only = true,
                                    .create_integer = create<IntegerKeys>,
                                    .create_bytes = create<ByteKeys>,
                                    .recover_integer = recover<IntegerKeys>,
                                    .recover_bytes = recover<ByteKeys>,
                                });

}  // namespace
}  // namespace perdure
