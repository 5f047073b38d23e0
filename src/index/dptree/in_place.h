// Changes of a DPTree without a log record, for a pool that has no room for one and in which none
// can be made.
//
// A removal turns the put in the log into a removal, or clears the record's bit in its base leaf,
// or both: one word each. A replacement stores a present key's value where it is: in the base tree
// the value word; in a log the value word that does not count, then the check word in the same line
// (log.h G2). So a full pool refuses no removal, and no replacement whose blob it has room for. All
// this keeps merges and writers out, and readers of the base tree off until it is durable
// (snapshot.h D3).
#pragma once

#include <cstdint>

#include "index/dptree/leftovers.h"
#include "index/dptree/parts.h"
#include "index/index.h"

namespace perdure::dptree {

template <class Keys>
class InPlace {
 public:
  using Key = typename Keys::Key;
  using Value = typename Keys::Value;

  InPlace(Parts<Keys>& parts, Leftovers& leftovers) : parts_(parts), leftovers_(leftovers) {}

  /// Cost: 1 flushed line and 1 fence, or 2 of each. Power-cut states: before, or after.
  [[nodiscard]] Outcome remove(Key key, std::uint64_t hash);
  /// Replaces the value of a present key. `absent`: what is returned without one. `lacks_blob`: the
  /// heap has no block like that for it, and the outcome is `out_of_space`.
  [[nodiscard]] Outcome replace(Key key, Value value, std::uint64_t hash, Outcome absent,
                                Block block, bool& lacks_blob);

 private:
  using Draft = typename RecordStore<Keys>::Draft;
  using Tree = Buffer<Keys>;

  [[nodiscard]] Outcome remove_alone(Key key, std::uint64_t hash);
  [[nodiscard]] bool turn_to_removal(Tree& tree, Key key, Outcome& outcome);
  [[nodiscard]] bool turn_failed_to_removal(Tree& tree, Key key, std::uint64_t hash);
  void clear_in_base(const BaseRecord& place) noexcept;
  [[nodiscard]] std::uint64_t logged_value(const Tree& tree, Key key, std::uint64_t hash) const;
  [[nodiscard]] Outcome replace_alone(Key key, std::uint64_t hash, Draft& draft, Outcome absent);
  void replace_in_log(const Tree& tree, LogRecord& record, Draft& draft) noexcept;
  void replace_in_base(const BaseRecord& place, Draft& draft) noexcept;
  [[nodiscard]] auto find_in_base(Key key, std::uint64_t hash) const {
    return parts_.find_in_base(parts_.prefetch_route(key, hash), key, hash);
  }

  Parts<Keys>& parts_;
  Leftovers& leftovers_;
};

extern template class InPlace<IntegerKeys>;
extern template class InPlace<ByteKeys>;

}  // namespace perdure::dptree
