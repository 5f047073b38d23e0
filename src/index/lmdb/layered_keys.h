// Keys longer than LMDB takes, in their true order.
//
// A key is cut into slices of 501 bytes. The last slice ends in a record; every slice before it is
// an entry that names the next layer, which holds what follows that slice:
//
//   byte 0    1 .. 8 (not in layer 0)     then       and, after a slice of full length, one byte
//        | 0 or 1 | layer, big-endian | slice ... | 0: the key ends here, 1: it goes on in a layer
//        |
//
// K1  within a layer entries ascend like the rest of the keys they stand for: a shorter slice is a
//     prefix and comes first; of two equal full slices the ended key comes first.
// K2  a layer is named by exactly one entry and holds at least one; layer 0 always exists.
// K3  no entry is longer than 511 bytes, and none is empty (LMDB forbids both).
// K4  `Layers.live` counts the entries that name layers; `Layers.next` is above every layer's
// number.
#pragma once

#include <lmdb.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.h"
#include "index/lmdb/environment.h"

namespace perdure::lmdb {

inline constexpr std::size_t slice_bytes = 501;

class LayeredKeys {
 public:
  explicit LayeredKeys(Environment& environment) noexcept : environment_(environment) {}

  // All return 0 or LMDB's error; MDB_NOTFOUND and MDB_KEYEXIST are answers.
  [[nodiscard]] int find(MDB_txn* transaction, std::string_view key, MDB_val& value) const;
  /// `flags`: MDB_NOOVERWRITE, or 0.
  [[nodiscard]] int put(MDB_txn* transaction, std::string_view key, std::string_view value,
                        unsigned flags);
  [[nodiscard]] int erase(MDB_txn* transaction, std::string_view key);
  [[nodiscard]] int layers(MDB_txn* transaction, Layers& layers) const;

  /// Calls `visit(key, value)` for the records from `from` on, ascending, until it returns false.
  template <class Visit>
  [[nodiscard]] int walk(MDB_txn* transaction, std::string_view from, Visit&& visit) const;

 private:
  enum class End : char { whole = 0, continued = 1, after = 2 };

  class Entry {
   public:
    Entry(std::uint64_t layer, std::string_view slice, End end) noexcept;
    [[nodiscard]] MDB_val get() const noexcept { return value_of(bytes_.data(), size_); }

   private:
    std::array<char, 511> bytes_;
    std::size_t size_;
  };

  struct Step {
    std::uint64_t layer;
    std::string_view slice;
  };

  template <class Visit>
  class Walk;

  [[nodiscard]] static std::size_t prefix_bytes(std::uint64_t layer) noexcept {
    return layer == 0 ? 1 : 9;
  }
  [[nodiscard]] static int layer_of(const MDB_val& value, std::uint64_t& layer) noexcept;
  [[nodiscard]] int next_layer(MDB_txn* transaction, const Step& step, std::uint64_t& layer) const;
  [[nodiscard]] int make_layer(MDB_txn* transaction, const Step& step, std::uint64_t& layer);
  [[nodiscard]] int is_empty(MDB_txn* transaction, std::uint64_t layer, bool& empty) const;
  [[nodiscard]] int set_layers(MDB_txn* transaction, const Layers& layers);

  Environment& environment_;
};

/// One walk: the state that its layers share.
template <class Visit>
class LayeredKeys::Walk {
 public:
  Walk(const LayeredKeys& keys, MDB_txn* transaction, Visit& visit)
      : keys_(keys), transaction_(transaction), visit_(visit) {}
  ~Walk() {
    if (cursor_ != nullptr) mdb_cursor_close(cursor_);
  }
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  [[nodiscard]] int run(std::string_view from) {
    const int failure = mdb_cursor_open(transaction_, keys_.environment_.records(), &cursor_);
    return failure != 0 ? failure : layer(0, from);
  }

 private:
  // The records of `number` from `from` on. The cursor is somewhere else afterwards.
  [[nodiscard]] int layer(std::uint64_t number, std::string_view from) {
    const std::size_t prefix = prefix_bytes(number);
    const std::string_view first_slice = from.substr(0, slice_bytes);
    const Entry first(number, first_slice, from.size() > slice_bytes ? End::continued : End::whole);
    const Entry lowest(number, {}, End::whole);
    const std::string_view mine = view_of(lowest.get());
    MDB_val entry = first.get();
    MDB_val value;
    int failure = mdb_cursor_get(cursor_, &entry, &value, MDB_SET_RANGE);
    while (failure == 0 && !done_ && view_of(entry).starts_with(mine)) {
      const std::string_view rest = view_of(entry).substr(prefix);
      const std::string_view slice = rest.substr(0, slice_bytes);
      if (rest.size() > slice_bytes && rest.back() == static_cast<char>(End::continued)) {
        const bool on_path = from.size() > slice_bytes && slice == first_slice;
        failure = descend(number, slice, value, on_path ? from.substr(slice_bytes) : "", entry);
        continue;
      }
      report(slice, view_of(value));
      failure = mdb_cursor_get(cursor_, &entry, &value, MDB_NEXT);
    }
    return failure == MDB_NOTFOUND ? 0 : failure;
  }

  // Walks the layer that an entry names, and leaves the cursor and `entry` after that entry.
  // Slices point into the snapshot, so they stay valid while the cursor moves.
  [[nodiscard]] int descend(std::uint64_t number, std::string_view slice, MDB_val& value,
                            std::string_view from, MDB_val& entry) {
    std::uint64_t below = 0;
    int failure = layer_of(value, below);
    if (failure != 0) return failure;
    path_.append(slice);
    const std::uint64_t before = reported_;
    failure = layer(below, from);
    path_.resize(path_.size() - slice.size());
    if (failure != 0 || done_) return failure;
    if (from.empty() && reported_ == before) return MDB_CORRUPTED;  // K2: an empty layer
    const Entry after(number, slice, End::after);
    entry = after.get();
    return mdb_cursor_get(cursor_, &entry, &value, MDB_SET_RANGE);
  }

  void report(std::string_view slice, std::string_view value) {
    ++reported_;
    if (path_.empty()) {
      done_ = !visit_(slice, value);
      return;
    }
    path_.append(slice);
    done_ = !visit_(std::string_view(path_), value);
    path_.resize(path_.size() - slice.size());
  }

  const LayeredKeys& keys_;
  MDB_txn* transaction_;
  Visit& visit_;
  MDB_cursor* cursor_ = nullptr;
  std::string path_;
  std::uint64_t reported_ = 0;
  bool done_ = false;
};

template <class Visit>
int LayeredKeys::walk(MDB_txn* transaction, std::string_view from, Visit&& visit) const {
  return Walk<std::remove_reference_t<Visit>>(*this, transaction, visit).run(from);
}

}  // namespace perdure::lmdb
