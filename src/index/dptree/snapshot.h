// The trees of a DPTree as a reader sees them, and how it finds out that they were overwritten.
//
// D2  a snapshot holds the three trees of one moment. Front and middle change places under the
//     tree's `writers_` held alone; only the front tree of the current snapshot takes entries.
// D3  a merge, of which there is one at a time (`merging_`), writes only what no reader of the
//     current version reads. It announces the version it starts from first, so that a reader of an
//     older one reads again. So does a rotation with its generation, because its log may keep
//     segments (log.h G5) that readers of a dropped tree read.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "index/dptree/base_map.h"
#include "index/dptree/buffer.h"
#include "pm/pm.h"
#include "pool/epoch.h"

namespace perdure::dptree {

/// The three trees of one moment.
template <class Keys>
struct Snapshot {
  Buffer<Keys>* front = nullptr;
  Buffer<Keys>* middle = nullptr;  ///< null: there is none
  BaseMap<Keys>* base = nullptr;

  [[nodiscard]] std::uint64_t oldest_generation() const noexcept {
    return (middle == nullptr ? front : middle)->generation();
  }
};

template <class Keys>
class CurrentSnapshot {
 public:
  CurrentSnapshot() = default;
  ~CurrentSnapshot() {
    const std::unique_ptr<Snapshot<Keys>> last(current_.load(std::memory_order_relaxed));
    if (last == nullptr) return;
    delete last->front;
    delete last->middle;
    delete last->base;
  }
  CurrentSnapshot(const CurrentSnapshot&) = delete;
  CurrentSnapshot& operator=(const CurrentSnapshot&) = delete;

  [[nodiscard]] const Snapshot<Keys>& get() const noexcept {
    return *current_.load(std::memory_order_acquire);
  }
  /// Owns the trees from here on.
  void set_first(const Snapshot<Keys>& trees) {
    current_.store(new Snapshot<Keys>(trees), std::memory_order_release);
  }
  /// The caller retires the trees that it drops.
  void replace(const Snapshot<Keys>& trees, Epochs& epochs) {
    retire(epochs, current_.exchange(new Snapshot<Keys>(trees), std::memory_order_acq_rel),
           sizeof trees);
  }
  /// Deletes what readers may still use after a grace period.
  template <class T>
  static void retire(Epochs& epochs, T* object, std::size_t bytes) {
    const auto free = [](void*, std::uint64_t address, std::size_t) {
      delete reinterpret_cast<T*>(address);
    };
    epochs.retire(reinterpret_cast<std::uint64_t>(object), bytes, free, nullptr);
  }

  /// True when nothing that a reader of `trees` has read can have been overwritten (D3). Two logs
  /// take turns.
  [[nodiscard]] bool is_whole(const Snapshot<Keys>& trees) const noexcept {
    return overwriting_.load(std::memory_order_acquire) <= trees.base->version &&
           reusing_.load(std::memory_order_acquire) < trees.oldest_generation() + 2;
  }
  /// Before a merge that starts from this version writes.
  void announce_merge(std::uint64_t version) noexcept {
    overwriting_.store(version, std::memory_order_seq_cst);
  }
  /// Before the front log of this generation is written.
  void announce_rotation(std::uint64_t generation) noexcept {
    reusing_.store(generation, std::memory_order_seq_cst);
  }

  /// While there is one, readers read again. Under `merging_`.
  class ReadersHeldOff {
   public:
    explicit ReadersHeldOff(CurrentSnapshot& current) noexcept
        : overwriting_(current.overwriting_), before_(overwriting_.exchange(~std::uint64_t{0})) {}
    ~ReadersHeldOff() { overwriting_.store(before_, std::memory_order_release); }
    ReadersHeldOff(const ReadersHeldOff&) = delete;
    ReadersHeldOff& operator=(const ReadersHeldOff&) = delete;

   private:
    std::atomic<std::uint64_t>& overwriting_;
    const std::uint64_t before_;
  };

 private:
  alignas(pm::cache_line_bytes) std::atomic<Snapshot<Keys>*> current_{nullptr};
  std::atomic<std::uint64_t> overwriting_{0};
  std::atomic<std::uint64_t> reusing_{0};
};

}  // namespace perdure::dptree
