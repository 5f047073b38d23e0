// Names: how texts about a run call its stores, operations and places.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "crash/case.h"
#include "crash/layout.h"
#include "crash/places.h"

namespace perdure::crash {

[[nodiscard]] std::string hex(std::uint64_t value);
[[nodiscard]] std::string show(const Operation& operation, const Vocabulary& vocabulary);
/// The operation's result.
[[nodiscard]] std::string show(const Operation& operation, const Answer& answer);

/// Of one run; what it is made from outlives it.
class Names {
 public:
  /// Looks up all places of the trace at once.
  Names(const Case& what, const Recorded& run, Places& places);

  /// "leaf@66048.record[2].key", or "line 1032 + 8" where no structure is known.
  [[nodiscard]] std::string at(std::uint64_t offset) const;
  /// The bytes of a store: where in the pool, and what.
  [[nodiscard]] std::string store(const Event& event) const;
  [[nodiscard]] const Place& place(const Event& event) const { return places_.of(event.pc); }
  /// True of a store to a lock word, by the code that makes it or by the field's name.
  [[nodiscard]] bool is_lock(const Event& event) const;
  /// The operation that the event's thread was in, by number.
  [[nodiscard]] std::optional<std::uint32_t> operation_of(const Recorded& run,
                                                          std::uint32_t event) const;
  [[nodiscard]] std::string operation(const Recorded& run, std::uint32_t number) const {
    return show(run.operations[number], vocabulary_);
  }
  /// The structure that a block of this size is, by the layout; or "block".
  [[nodiscard]] std::string structure(std::uint64_t block_bytes) const;

  [[nodiscard]] const Layout& layout() const noexcept { return layout_; }
  [[nodiscard]] const Vocabulary& vocabulary() const noexcept { return vocabulary_; }
  [[nodiscard]] Places& places() const noexcept { return places_; }

 private:
  Places& places_;
  Vocabulary vocabulary_;
  std::vector<MediaStruct> structures_;
  Layout layout_;
};

}  // namespace perdure::crash
