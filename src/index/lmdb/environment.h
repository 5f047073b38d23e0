// Environment: an LMDB environment in a directory of its own, with durable commits, and
// transactions that end with their scope.
//
// In the environment: the unnamed database holds the names of the two others,
//   records   the index
//   meta      "format" -> Format (fixed at creation), "layers" -> Layers (byte-string keys only)
//
// E1  every commit is synchronous (LMDB's default): when it returns, it survives a power cut.
// E2  readers are not bound to threads (MDB_NOTLS): each thread slot keeps one read transaction,
//     reset between operations, so that a lookup neither allocates nor holds pages back.
#pragma once

#include <lmdb.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "core/result.h"
#include "index/index.h"
#include "index/reference/engine_directory.h"
#include "index/registry.h"
#include "pm/thread.h"

namespace perdure::lmdb {

/// Of the layers that keys longer than LMDB's limit live in; see layered_keys.h.
struct Layers {
  std::uint64_t next = 1;  ///< number of the next layer to be made
  std::uint64_t live = 0;
};

class Environment {
 public:
  /// Errors: exists, not_found, unsupported, out_of_space, io.
  [[nodiscard]] static Result<std::unique_ptr<Environment>> create(const IndexPlace& place,
                                                                   KeyKind kind);
  /// Errors: not_found, busy, foreign, newer, truncated, corrupt, io.
  [[nodiscard]] static Result<std::unique_ptr<Environment>> open(const IndexPlace& place,
                                                                 KeyKind kind);
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  [[nodiscard]] MDB_dbi records() const noexcept { return records_; }
  [[nodiscard]] MDB_dbi meta() const noexcept { return meta_; }
  [[nodiscard]] const std::string& path() const noexcept { return directory_.path(); }

  /// A snapshot for reading. Check `failure()` first.
  class Reader {
   public:
    explicit Reader(Environment& environment) noexcept;
    ~Reader() {
      if (failure_ == 0) mdb_txn_reset(transaction_);
    }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    [[nodiscard]] int failure() const noexcept { return failure_; }
    [[nodiscard]] MDB_txn* get() const noexcept { return transaction_; }

   private:
    MDB_txn*& transaction_;
    int failure_;
  };

  /// The one write transaction. Aborts unless committed.
  class Writer {
   public:
    explicit Writer(Environment& environment) noexcept
        : failure_(mdb_txn_begin(environment.env_, nullptr, 0, &transaction_)) {}
    ~Writer() {
      if (transaction_ != nullptr) mdb_txn_abort(transaction_);
    }
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;
    [[nodiscard]] int failure() const noexcept { return failure_; }
    [[nodiscard]] MDB_txn* get() const noexcept { return transaction_; }
    /// E1. 0, or LMDB's error, and then nothing has changed.
    [[nodiscard]] int commit() noexcept;

   private:
    MDB_txn* transaction_ = nullptr;
    int failure_;
  };

 private:
  explicit Environment(EngineDirectory directory) noexcept : directory_(std::move(directory)) {}

  [[nodiscard]] Result<void> open_engine(std::uint64_t capacity_bytes);
  [[nodiscard]] Result<void> open_databases(unsigned flags);
  [[nodiscard]] Result<void> write_format(KeyKind kind);
  [[nodiscard]] Result<void> check_format(KeyKind kind);
  [[nodiscard]] Result<void> check_length() const;

  EngineDirectory directory_;
  MDB_env* env_ = nullptr;
  MDB_dbi records_ = 0;
  MDB_dbi meta_ = 0;
  std::array<MDB_txn*, pm::max_threads> readers_{};
};

[[nodiscard]] inline MDB_val value_of(const void* data, std::size_t bytes) noexcept {
  return {bytes, const_cast<void*>(data)};
}
[[nodiscard]] inline std::string_view view_of(const MDB_val& value) noexcept {
  return {static_cast<const char*>(value.mv_data), value.mv_size};
}

/// LMDB's error at opening or loading as ours.
[[nodiscard]] Error error_of(int failure, const std::string& what, const std::string& path);
/// LMDB's error of an operation as ours: 0 is ok, and what is neither absence nor lack of room is
/// `invalid`.
[[nodiscard]] Outcome outcome_of(int failure) noexcept;

}  // namespace perdure::lmdb
