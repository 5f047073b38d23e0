// 8-byte keys as LMDB compares them: big-endian, so that byte order is numeric order.
#pragma once

#include <lmdb.h>

#include <cstdint>
#include <cstring>

#include "index/lmdb/environment.h"

namespace perdure::lmdb {

class IntegerEntries {
 public:
  explicit IntegerEntries(Environment& environment) noexcept : environment_(environment) {}

  // As LayeredKeys: 0 or LMDB's error.
  [[nodiscard]] int find(MDB_txn* transaction, std::uint64_t key, MDB_val& value) const {
    const std::uint64_t stored = __builtin_bswap64(key);
    MDB_val at = value_of(&stored, sizeof stored);
    return mdb_get(transaction, environment_.records(), &at, &value);
  }
  [[nodiscard]] int put(MDB_txn* transaction, std::uint64_t key, std::uint64_t value,
                        unsigned flags) {
    const std::uint64_t stored = __builtin_bswap64(key);
    MDB_val at = value_of(&stored, sizeof stored);
    MDB_val content = value_of(&value, sizeof value);
    return mdb_put(transaction, environment_.records(), &at, &content, flags);
  }
  [[nodiscard]] int erase(MDB_txn* transaction, std::uint64_t key) {
    const std::uint64_t stored = __builtin_bswap64(key);
    MDB_val at = value_of(&stored, sizeof stored);
    return mdb_del(transaction, environment_.records(), &at, nullptr);
  }
  [[nodiscard]] int layers(MDB_txn*, Layers& layers) const {
    layers = {};
    return 0;
  }

  template <class Visit>
  [[nodiscard]] int walk(MDB_txn* transaction, std::uint64_t from, Visit&& visit) const {
    MDB_cursor* cursor = nullptr;
    int failure = mdb_cursor_open(transaction, environment_.records(), &cursor);
    if (failure != 0) return failure;
    const std::uint64_t stored = __builtin_bswap64(from);
    MDB_val at = value_of(&stored, sizeof stored);
    MDB_val value;
    failure = mdb_cursor_get(cursor, &at, &value, MDB_SET_RANGE);
    while (failure == 0) {
      std::uint64_t key = 0;
      std::uint64_t content = 0;
      if (at.mv_size != sizeof key || value.mv_size != sizeof content) {
        failure = MDB_CORRUPTED;
        break;
      }
      std::memcpy(&key, at.mv_data, sizeof key);
      std::memcpy(&content, value.mv_data, sizeof content);
      if (!visit(__builtin_bswap64(key), content)) break;
      failure = mdb_cursor_get(cursor, &at, &value, MDB_NEXT);
    }
    mdb_cursor_close(cursor);
    return failure == MDB_NOTFOUND ? 0 : failure;
  }

 private:
  Environment& environment_;
};

}  // namespace perdure::lmdb
