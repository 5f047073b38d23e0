// SmoLog: structure modifications of the data layer that the search layer does not know yet.
// Source: Kim et al., "PACTree", SOSP 2021, section 5 (asynchronous search layer update).
//
//   byte 0
//        | entry[n]: pool offset of a data node, bit 0 set for a merge; or 0 |
//
// G1  an entry names a data node that is being linked (a split) or unlinked (a merge). Replaying it
//     puts the node into the search layer if it is in the list, and takes it out if not; so it may
//     be replayed any number of times.
// G2  an entry is durable before the change it announces, and cleared after the search layer was
//     changed durably. A node is freed by the replay of its merge, after all entries that name it
//     are cleared. Entries that a power cut brings back name a node of the list, for which G1 does
//     nothing, or are dismissed.
// G3  entries are replayed by one thread at a time. Merges are replayed in the order of the log, so
//     what an obsolete node's `prev` leads to lives as long as it can be found.
// G4  a split whose replay finds no room stays in the log, and is tried again.
// G5  while a bulk load is under way, an entry says so: the search layer may lead to nodes of which
//     the list does not know yet.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"
#include "pm/pm.h"
#include "pool/pool.h"

namespace perdure::pactree {

class SmoLog {
 public:
  static constexpr unsigned entries = 256;
  static constexpr std::size_t bytes = entries * sizeof(std::uint64_t);
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  static constexpr std::uint64_t merge_bit = 1;
  /// G5: an entry without a node.
  static constexpr std::uint64_t bulk_load = 2;

  SmoLog(Pool& pool, std::uint64_t offset) noexcept
      : word_(pool.at<std::atomic<std::uint64_t>>(offset)) {}

  /// Makes an empty log, published. Errors: out_of_space.
  [[nodiscard]] static Result<std::uint64_t> create(Pool& pool);

  /// Takes the next entry and flushes it; the caller fences before it changes the list (G2), and
  /// does change it. `none`: the log is full. Thread-safe.
  [[nodiscard]] std::uint64_t take(std::uint64_t entry) noexcept;
  /// The change that the entry announces is done: it may be replayed.
  void finish(std::uint64_t ticket) noexcept {
    state_[ticket % entries].store(ready, std::memory_order_release);
  }

  [[nodiscard]] bool is_empty() const noexcept {
    return first_.load(std::memory_order_acquire) == end_.load(std::memory_order_acquire);
  }

  /// The ticket of the oldest entry if it may be replayed; else `none`.
  [[nodiscard]] std::uint64_t oldest_ready() const noexcept {
    const std::uint64_t first = first_.load(std::memory_order_acquire);
    return state_[first % entries].load(std::memory_order_acquire) == ready ? first : none;
  }

  /// Replays what is ready: `replay(entry)` says whether the entry is done with; `after(entry)` is
  /// called once it is cleared. One thread at a time. Returns how many it finished.
  template <class Replay, class After>
  unsigned drain(Replay&& replay, After&& after) {
    unsigned finished = 0;
    const std::uint64_t end = end_.load(std::memory_order_acquire);
    for (std::uint64_t at = first_.load(std::memory_order_relaxed); at < end; ++at) {
      std::atomic<std::uint8_t>& state = state_[at % entries];
      const std::uint8_t now = state.load(std::memory_order_acquire);
      if (now == taken) break;  // G3
      if (now == ready) {
        const std::uint64_t entry = word_[at % entries].load(std::memory_order_relaxed);
        if (!replay(entry)) continue;
        clear(at);
        after(entry);
        ++finished;
      }
    }
    std::uint64_t first = first_.load(std::memory_order_relaxed);
    while (first < end && state_[first % entries].load(std::memory_order_relaxed) == done) ++first;
    first_.store(first, std::memory_order_release);
    return finished;
  }

  /// Clears splits that wait for room and name a node that is about to be freed (G2).
  void forget(std::uint64_t node) noexcept {
    const std::uint64_t end = end_.load(std::memory_order_acquire);
    for (std::uint64_t at = first_.load(std::memory_order_relaxed); at < end; ++at)
      if (state_[at % entries].load(std::memory_order_acquire) == ready &&
          word_[at % entries].load(std::memory_order_relaxed) == node)
        clear(at);
  }

  /// An entry as recovery finds it.
  struct Found {
    unsigned place;
    std::uint64_t entry;
  };
  /// Recovery: the entries, empty ones left out.
  [[nodiscard]] std::vector<Found> found() const;
  /// Recovery: what `keep(entry)` returns replaces an entry that was found, durably; what is not 0
  /// waits to be replayed.
  template <class Keep>
  void adopt(std::span<const Found> found, Keep&& keep) noexcept {
    for (const auto& [place, entry] : found) {
      const std::uint64_t kept = keep(entry);
      if (kept != entry) pm::store_persist(word_[place], kept);
      state_[place].store(kept == 0 ? done : ready, std::memory_order_relaxed);
    }
    first_.store(0, std::memory_order_relaxed);
    end_.store(found.empty() ? 0 : found.back().place + 1, std::memory_order_release);
  }

 private:
  static constexpr std::uint8_t done = 0;
  static constexpr std::uint8_t taken = 1;
  static constexpr std::uint8_t ready = 2;

  void clear(std::uint64_t at) noexcept {
    word_[at % entries].store(0, std::memory_order_release);
    state_[at % entries].store(done, std::memory_order_release);
  }

  std::atomic<std::uint64_t>* const word_;
  pm::VersionLock taking_;
  std::atomic<std::uint64_t> first_{0};  ///< entries before it are done with
  std::atomic<std::uint64_t> end_{0};    ///< entries from here on are free
  std::array<std::atomic<std::uint8_t>, entries> state_{};
};

}  // namespace perdure::pactree
