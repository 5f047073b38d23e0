// What is known of each key while a run is verified: which versions it may hold, and whether it may
// be present. The rules are V1..V4 of verify.h; this file is their bookkeeping for one key.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "workload/mix.h"

namespace perdure::workload {

struct KeyState {
  static constexpr std::uint8_t may_be_present = 1;  ///< as of the last quiet moment
  static constexpr std::uint8_t may_be_absent = 2;   ///< as of the last quiet moment
  static constexpr std::uint8_t add_begun = 4;       ///< in this cluster: insert or upsert
  static constexpr std::uint8_t remove_begun = 8;    ///< in this cluster
  static constexpr std::uint8_t upsert_done = 16;    ///< in this cluster
  static constexpr std::uint8_t remove_done = 32;    ///< in this cluster

  std::uint32_t begun = 0;    ///< the last version given to a write (V1)
  std::uint32_t floor = 0;    ///< the lowest version a read that begins now may return (V2)
  std::uint32_t cluster = 0;  ///< the first version of the current or last cluster
  std::uint32_t stored = 0;   ///< the highest version whose write ended well
  std::uint16_t adds = 0;     ///< inserts and upserts begun, modulo 2^16
  std::uint16_t removes = 0;  ///< removes begun; never 0 again once there was one
  std::uint16_t pending = 0;  ///< writes begun and not ended
  std::int8_t balance = 0;    ///< in this cluster: inserts minus removes that succeeded
  std::uint8_t flags = may_be_absent;

  [[nodiscard]] static KeyState present(std::uint32_t version) noexcept {
    KeyState state;
    state.begun = state.floor = state.cluster = state.stored = version;
    state.flags = may_be_present;
    return state;
  }

  /// Whether the key may be present (absent) at this moment.
  [[nodiscard]] bool possibly_present() const noexcept {
    return (flags & (may_be_present | add_begun)) != 0;
  }
  [[nodiscard]] bool possibly_absent() const noexcept {
    return (flags & (may_be_absent | remove_begun)) != 0;
  }
  /// The highest version a read that ends now may return (V3).
  [[nodiscard]] std::uint32_t ceiling() const noexcept { return pending != 0 ? begun : stored; }

  /// insert, upsert, update or remove begins; returns its version (0 for a remove).
  std::uint32_t begin(Operation operation) noexcept;
  /// It ends; `done` says whether the index claims an effect. Returns false if what succeeded in
  /// the cluster cannot have: two inserts, say, with no remove between them (V4).
  [[nodiscard]] bool end(Operation operation, std::uint32_t version, bool done) noexcept;
  /// A read saw the key present (or absent) and nothing else happened meanwhile.
  void learn(bool present) noexcept { flags = present ? may_be_present : may_be_absent; }

 private:
  [[nodiscard]] bool close_cluster() noexcept;
};
static_assert(sizeof(KeyState) == 24, "verification holds one per id: 10 million ids are 240 MB");

/// Whether a key was possibly present (absent) at some moment between `before` and `after`;
/// `own` is the operation that asks, so that its own begin does not count as somebody else's.
[[nodiscard]] bool possibly_present_between(const KeyState& before, const KeyState& after,
                                            Operation own) noexcept;
[[nodiscard]] bool possibly_absent_between(const KeyState& before, const KeyState& after,
                                           Operation own) noexcept;

/// The states of all ids, in chunks that exist once an id of theirs was touched.
class KeyStates {
 public:
  static constexpr std::uint64_t chunk_ids = 1ULL << 16;
  static constexpr std::uint64_t capacity = 1ULL << 36;  ///< ids that can be tracked

  explicit KeyStates(std::uint64_t loaded);
  ~KeyStates();
  KeyStates(const KeyStates&) = delete;
  KeyStates& operator=(const KeyStates&) = delete;

  /// Every id becomes absent. No other call may run.
  void forget_loaded();

  /// Calls change(KeyState&) under the id's lock and returns what it returns. id < capacity.
  template <class Change>
  auto with(std::uint64_t id, Change change) {
    KeyState& state = at(id);
    const std::lock_guard guard(lock_[id % lock_.size()]);
    return change(state);
  }
  /// The state now; makes no chunk.
  [[nodiscard]] KeyState snapshot(std::uint64_t id);
  /// Ids from here on were never touched nor loaded.
  [[nodiscard]] std::uint64_t end() const noexcept;

 private:
  struct Chunk {
    std::array<KeyState, chunk_ids> state;
  };
  [[nodiscard]] KeyState& at(std::uint64_t id);
  [[nodiscard]] KeyState untouched(std::uint64_t id) const noexcept {
    return id < loaded_ ? KeyState::present(0) : KeyState{};
  }

  std::uint64_t loaded_;
  std::unique_ptr<std::atomic<Chunk*>[]> chunk_;
  std::array<std::mutex, 1024> lock_;
};

}  // namespace perdure::workload
