// What `tbbmap` keeps behind a key of tbb::concurrent_map, a skip list that never erases while
// other threads work: a slot that outlives the record and is revived by the next insert.
//
// T1  a slot is linked into the map with its first record in it, and stays until `quiesce`.
// T2  a dead slot is an absent record: lookups, updates, removes and scans pass it by.
// T3  IntegerSlot: `value` and `live` change only under `lock`; a reader keeps what it read only if
//     the version did not move.
// T4  TextSlot: the value is one pointer to an immutable text, null when dead; a text that was
//     swapped out is freed after a grace period.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/assert.h"
#include "index/index.h"
#include "index/reference/arena_allocator.h"
#include "pm/pm.h"
#include "pool/epoch.h"

namespace perdure {

/// The slot of an 8-byte value.
class IntegerSlot {
 public:
  explicit IntegerSlot(std::uint64_t value) noexcept : value_(value), live_(true) {}

  [[nodiscard]] bool read(std::uint64_t& value) const noexcept {
    for (;;) {
      const std::uint64_t version = lock_.read_begin();
      const bool live = live_.load(std::memory_order_acquire);
      const std::uint64_t seen = value_.load(std::memory_order_acquire);
      if (!lock_.validate(version)) continue;
      if (live) value = seen;
      return live;
    }
  }
  [[nodiscard]] bool is_live() const noexcept { return live_.load(std::memory_order_acquire); }

  /// Dead to live. False when it was live.
  [[nodiscard]] bool revive(std::uint64_t value) noexcept {
    return change(false, [&] { set(value, true); });
  }
  /// Replaces the value of a live slot. False when it was dead.
  [[nodiscard]] bool replace(std::uint64_t value) noexcept {
    return change(true, [&] { set(value, true); });
  }
  /// Live to dead. False when it was dead.
  [[nodiscard]] bool kill() noexcept {
    return change(true, [&] { set(0, false); });
  }
  void put(std::uint64_t value) noexcept {
    take();
    set(value, true);
    lock_.unlock();
  }

 private:
  void take() noexcept {
    [[maybe_unused]] const bool taken = lock_.lock();
    PERDURE_ASSERT(taken);
  }
  void set(std::uint64_t value, bool live) noexcept {
    value_.store(value, std::memory_order_release);
    live_.store(live, std::memory_order_release);
  }
  template <class Change>
  [[nodiscard]] bool change(bool expected, Change&& change) noexcept {
    take();
    if (live_.load(std::memory_order_relaxed) != expected) {
      lock_.unlock_unchanged();
      return false;
    }
    change();
    lock_.unlock();
    return true;
  }

  pm::VersionLock lock_;
  std::atomic<std::uint64_t> value_;
  std::atomic<bool> live_;
};

/// An immutable byte string in an arena: 8 bytes of length, then the bytes.
class Text {
 public:
  [[nodiscard]] static Text* make(StripedArena& arena, std::string_view content) {
    Text* const text = new (arena.allocate(bytes_for(content.size()))) Text;
    text->length_ = content.size();
    if (!content.empty()) std::memcpy(text + 1, content.data(), content.size());
    return text;
  }
  static void free(StripedArena& arena, Text* text) noexcept {
    if (text != nullptr) arena.free(text, text->bytes());
  }
  /// For Epochs::retire, with the arena as the context.
  static void destroy(void* arena, std::uint64_t text, std::size_t) {
    free(*static_cast<StripedArena*>(arena), reinterpret_cast<Text*>(text));
  }

  [[nodiscard]] std::string_view view() const noexcept {
    return {reinterpret_cast<const char*>(this + 1), length_};
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_for(length_); }

 private:
  [[nodiscard]] static std::size_t bytes_for(std::size_t length) noexcept {
    return sizeof(Text) + length;
  }

  std::size_t length_ = 0;
};

/// The slot of a byte-string value.
struct TextSlot {
  explicit TextSlot(const Text* first) noexcept : text(first) {}
  std::atomic<const Text*> text;
};

}  // namespace perdure
