#include "index/lmdb/environment.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace perdure::lmdb {
namespace {

constexpr std::uint64_t default_capacity_bytes = std::uint64_t{1} << 30;
constexpr std::uint64_t layout_version = 1;
constexpr int key_bytes_needed = 511;  // Debian's build; layered_keys.h divides keys by it
constexpr char magic[8] = {'p', 'd', 'u', 'r', 'l', 'm', 'd', 'b'};

struct Format {
  char magic[8];
  std::uint64_t version;
  std::uint64_t kind;
};

MDB_val format_key() { return value_of("format", 6); }

}  // namespace

Error error_of(int failure, const std::string& what, const std::string& path) {
  const std::string text = what + ": " + mdb_strerror(failure);
  switch (failure) {
    case MDB_MAP_FULL:
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
      return {ErrorCode::out_of_space, text, path, "give the index more room"};
    case MDB_VERSION_MISMATCH:
      return {ErrorCode::newer, text, path, "use the version of LMDB that wrote it"};
    case MDB_INVALID:
      return {ErrorCode::foreign, text, path, "name the directory of an lmdb index"};
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
      return {ErrorCode::corrupt, text, path, "restore the directory or create a new index"};
    case ENOENT:
      return {ErrorCode::not_found, text, path, "create_index makes an index"};
    default:
      return {ErrorCode::io, text, path, "check the path, its permissions and its file system"};
  }
}

Outcome outcome_of(int failure) noexcept {
  switch (failure) {
    case 0:
      return Outcome::ok;
    case MDB_NOTFOUND:
      return Outcome::not_found;
    case MDB_KEYEXIST:
      return Outcome::exists;
    case MDB_MAP_FULL:
    case MDB_TXN_FULL:
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
      return Outcome::out_of_space;
    default:
      return Outcome::invalid;
  }
}

Result<std::unique_ptr<Environment>> Environment::create(const IndexPlace& place, KeyKind kind) {
  auto directory = EngineDirectory::create(place.path, "lmdb");
  if (!directory) return directory.error();
  std::unique_ptr<Environment> made(new Environment(std::move(directory).value()));
  if (auto done = made->open_engine(place.capacity_bytes); !done) return done.error();
  if (auto done = made->open_databases(MDB_CREATE); !done) return done.error();
  if (auto done = made->write_format(kind); !done) return done.error();
  if (auto done = made->directory_.keep(); !done) return done.error();
  return made;
}

Result<std::unique_ptr<Environment>> Environment::open(const IndexPlace& place, KeyKind kind) {
  auto directory = EngineDirectory::open(place.path, "lmdb");
  if (!directory) return directory.error();
  struct stat status;
  if (::stat(directory->file("data.mdb").c_str(), &status) != 0)
    return Error{ErrorCode::foreign, "holds no lmdb index", place.path,
                 "name the directory of an lmdb index"};
  std::unique_ptr<Environment> found(new Environment(std::move(directory).value()));
  if (auto done = found->open_engine(place.capacity_bytes); !done) return done.error();
  if (auto done = found->check_length(); !done) return done.error();
  if (auto done = found->open_databases(0); !done) return done.error();
  if (auto done = found->check_format(kind); !done) return done.error();
  return found;
}

Environment::~Environment() {
  for (MDB_txn* const reader : readers_)
    if (reader != nullptr) mdb_txn_abort(reader);
  if (env_ != nullptr) mdb_env_close(env_);
}

Result<void> Environment::open_engine(std::uint64_t capacity_bytes) {
  if (const int failure = mdb_env_create(&env_); failure != 0)
    return error_of(failure, "cannot set LMDB up", path());
  if (mdb_env_get_maxkeysize(env_) < key_bytes_needed)
    return Error{ErrorCode::unsupported, "this LMDB was built for keys shorter than 511 B", path(),
                 "use a build with the default MDB_MAXKEYSIZE"};
  constexpr std::uint64_t page = 4096;
  const std::uint64_t room = capacity_bytes == 0 ? default_capacity_bytes : capacity_bytes;
  mdb_env_set_maxdbs(env_, 2);
  mdb_env_set_maxreaders(env_, pm::max_threads);
  int failure = mdb_env_set_mapsize(env_, (room + page - 1) / page * page);
  if (failure == 0) failure = mdb_env_open(env_, path().c_str(), MDB_NOTLS, 0644);
  if (failure != 0) return error_of(failure, "LMDB cannot open the index", path());
  return {};
}

// LMDB maps the file and would meet a cut one only as SIGBUS.
Result<void> Environment::check_length() const {
  MDB_envinfo info;
  MDB_stat stat;
  struct stat status;
  mdb_env_info(env_, &info);
  mdb_env_stat(env_, &stat);
  const std::string file = directory_.file("data.mdb");
  if (::stat(file.c_str(), &status) != 0) return error_of(errno, "cannot examine", file);
  const std::uint64_t needed = (info.me_last_pgno + 1) * std::uint64_t{stat.ms_psize};
  if (static_cast<std::uint64_t>(status.st_size) < needed)
    return Error{ErrorCode::truncated,
                 "the file is shorter than its header says (" + std::to_string(needed) + " B)",
                 file, "restore the file or create a new index"};
  return {};
}

Result<void> Environment::open_databases(unsigned flags) {
  Writer writer(*this);
  int failure = writer.failure();
  if (failure == 0) failure = mdb_dbi_open(writer.get(), "records", flags, &records_);
  if (failure == 0) failure = mdb_dbi_open(writer.get(), "meta", flags, &meta_);
  if (failure == 0) failure = writer.commit();
  if (failure == MDB_NOTFOUND)
    return Error{ErrorCode::foreign, "an LMDB environment, but not one of ours", path(),
                 "name the directory of an lmdb index"};
  if (failure != 0) return error_of(failure, "LMDB cannot open the databases", path());
  return {};
}

Result<void> Environment::write_format(KeyKind kind) {
  Format format{};
  std::memcpy(format.magic, magic, sizeof magic);
  format.version = layout_version;
  format.kind = static_cast<std::uint64_t>(kind);
  Writer writer(*this);
  MDB_val key = format_key();
  MDB_val value = value_of(&format, sizeof format);
  int failure = writer.failure();
  if (failure == 0) failure = mdb_put(writer.get(), meta_, &key, &value, 0);
  if (failure == 0) failure = writer.commit();
  if (failure != 0) return error_of(failure, "cannot write the format", path());
  return {};
}

Result<void> Environment::check_format(KeyKind kind) {
  const Reader reader(*this);
  if (reader.failure() != 0) return error_of(reader.failure(), "LMDB cannot read", path());
  MDB_val key = format_key();
  MDB_val value;
  const int failure = mdb_get(reader.get(), meta_, &key, &value);
  Format format;
  if (failure != 0 || value.mv_size != sizeof format)
    return Error{ErrorCode::corrupt, "the index has no format record", path(),
                 "restore the directory or create a new index"};
  std::memcpy(&format, value.mv_data, sizeof format);
  if (std::memcmp(format.magic, magic, sizeof magic) != 0)
    return Error{ErrorCode::foreign, "an LMDB environment, but not one of ours", path(),
                 "name the directory of an lmdb index"};
  if (format.version > layout_version)
    return Error{ErrorCode::newer, "written by a later version of the layout", path(),
                 "use the version of perdure that wrote it"};
  if (format.kind != static_cast<std::uint64_t>(kind))
    return Error{ErrorCode::foreign, "holds the other kind of keys", path(),
                 std::string("do not ask for ") + name_of(kind) + " keys"};
  return {};
}

Environment::Reader::Reader(Environment& environment) noexcept
    : transaction_(environment.readers_[pm::thread_slot()]),
      failure_(transaction_ == nullptr
                   ? mdb_txn_begin(environment.env_, nullptr, MDB_RDONLY, &transaction_)
                   : mdb_txn_renew(transaction_)) {}

int Environment::Writer::commit() noexcept {
  MDB_txn* const transaction = transaction_;
  transaction_ = nullptr;  // LMDB frees it, whatever comes of it
  return mdb_txn_commit(transaction);
}

}  // namespace perdure::lmdb
