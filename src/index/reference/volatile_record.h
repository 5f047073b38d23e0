// What the volatile tries lead to: a record of its own for every key, with the key in full.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>
#include <type_traits>

#include "index/index.h"
#include "index/reference/arena_allocator.h"
#include "index/reference/text_record.h"

namespace perdure {

/// A record of an integer key. Its value changes in place.
struct NumberRecord {
  const std::uint64_t number;
  std::atomic<std::uint64_t> value;

  [[nodiscard, gnu::always_inline]] static NumberRecord* make(StripedArena& arena,
                                                              std::uint64_t key,
                                                              std::uint64_t value) {
    return new (arena.allocate(sizeof(NumberRecord))) NumberRecord{key, value};
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return sizeof *this; }
  [[nodiscard]] std::uint64_t key() const noexcept { return number; }
};

template <class Keys>
using VolatileRecord = std::conditional_t<Keys::kind == KeyKind::integer, NumberRecord, TextRecord>;

[[nodiscard]] inline std::uint64_t value_of(const NumberRecord& record) noexcept {
  return record.value.load(std::memory_order_acquire);
}
[[nodiscard]] inline std::string_view value_of(const TextRecord& record) noexcept {
  return record.value();
}

/// The record that an operation adds: made when it is needed, freed unless it was `taken`.
template <class Keys>
class RecordDraft {
 public:
  using Key = typename Keys::Key;
  using Value = typename Keys::Value;

  RecordDraft(StripedArena& arena, Key key, Value value) noexcept
      : arena_(arena), key_(key), value_(value) {}
  ~RecordDraft() {
    if (record_ != nullptr) arena_.free(record_, record_->bytes());
  }
  RecordDraft(const RecordDraft&) = delete;
  RecordDraft& operator=(const RecordDraft&) = delete;

  [[nodiscard]] const Key& key() const noexcept { return key_; }
  [[nodiscard]] const Value& value() const noexcept { return value_; }
  /// No memory: std::bad_alloc.
  [[nodiscard, gnu::always_inline]] VolatileRecord<Keys>* record() {
    if (record_ == nullptr) record_ = VolatileRecord<Keys>::make(arena_, key_, value_);
    return record_;
  }
  void taken() noexcept { record_ = nullptr; }

 private:
  StripedArena& arena_;
  Key key_;
  Value value_;
  VolatileRecord<Keys>* record_ = nullptr;
};

}  // namespace perdure
