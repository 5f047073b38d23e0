// SoftRecords: the halves of a SOFT list's nodes that are on media, one in each node of its slab:
//
//   byte 0      8        16         17         18
//        | key  | value  | begun u8 | ended u8 | deleted u8 |
//
// S1  a record is on media <=> begun = ended and deleted differs. A free one has begun = ended =
//     deleted, or has begun alone different, where a power cut met its creation.
//
// A record lies in one line, so a power cut leaves a prefix of its stores. Creation and removal
// write the same bytes however often, and by however many threads, they are done.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "index/media_layout.h"
#include "index/registry.h"
#include "lockfree/memory/node_slab.h"
#include "pm/pm.h"

namespace perdure::lockfree {

struct alignas(32) SoftRecord {
  std::atomic<std::uint64_t> key;
  std::atomic<std::uint64_t> value;
  std::atomic<std::uint8_t> begun;
  std::atomic<std::uint8_t> ended;
  std::atomic<std::uint8_t> deleted;
};
static_assert(sizeof(SoftRecord) == sizeof(Node) && offsetof(SoftRecord, begun) == 16);

/// For counterexamples.
[[nodiscard]] inline std::vector<MediaStruct> media_of_soft(const IndexOptions& options) {
  return NodeSlab::media(options.get("nodes"), options.get("stride"),
                         {{"key", offsetof(SoftRecord, key), 8},
                          {"value", offsetof(SoftRecord, value), 8},
                          {"begun", offsetof(SoftRecord, begun), 1},
                          {"ended", offsetof(SoftRecord, ended), 1},
                          {"deleted", offsetof(SoftRecord, deleted), 1}});
}

class SoftRecords {
 public:
  /// The slab must outlive it.
  void lie_in(NodeSlab& slab) noexcept { slab_ = &slab; }

  /// What `begun` and `ended` of a free record are to be when it is written.
  [[nodiscard]] std::uint8_t next_valid(std::uint32_t number) const noexcept {
    return record(number).deleted.load(std::memory_order_relaxed) ^ 1;
  }
  /// Cost: 1 flushed line. Durable after the caller's fence.
  void write(std::uint32_t number, std::uint64_t key, std::uint64_t value,
             std::uint8_t valid) const noexcept {
    SoftRecord& on_media = record(number);
    on_media.begun.store(valid, std::memory_order_release);
    on_media.key.store(key, std::memory_order_release);
    on_media.value.store(value, std::memory_order_release);
    on_media.ended.store(valid, std::memory_order_release);
    pm::flush(&on_media, sizeof on_media);
  }
  /// Durable when it returns. Cost: 1 flushed line, 1 fence.
  void remove(std::uint32_t number, std::uint8_t valid) const noexcept {
    SoftRecord& on_media = record(number);
    on_media.deleted.store(valid, std::memory_order_release);
    pm::persist(&on_media, sizeof on_media);
  }

  /// Calls `visit(number, key, value)` for each record that is there (S1).
  template <class Visit>
  void for_each(Visit&& visit) const {
    constexpr auto relaxed = std::memory_order_relaxed;
    for (std::uint32_t number = 0; number < slab_->nodes(); ++number) {
      const SoftRecord& on_media = record(number);
      const std::uint8_t valid = on_media.begun.load(relaxed);
      if (valid == on_media.ended.load(relaxed) && valid != on_media.deleted.load(relaxed))
        visit(number, on_media.key.load(relaxed), on_media.value.load(relaxed));
    }
  }
  /// Removes all of them. Durable when it returns.
  void wipe() const {
    for (std::uint32_t number = 0; number < slab_->nodes(); ++number) {
      SoftRecord& on_media = record(number);
      on_media.deleted.store(on_media.ended.load(std::memory_order_relaxed),
                             std::memory_order_release);
      pm::flush(&on_media, sizeof on_media);
    }
    pm::fence();
  }

 private:
  [[nodiscard]] SoftRecord& record(std::uint32_t number) const noexcept {
    return reinterpret_cast<SoftRecord&>(slab_->at(slab_->offset_of(number)));
  }

  NodeSlab* slab_ = nullptr;
};

}  // namespace perdure::lockfree
