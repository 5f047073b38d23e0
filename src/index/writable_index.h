// WritableIndex: for indexes whose insert, upsert and update are one operation.
#pragma once

#include <cstdint>

#include "index/index.h"

namespace perdure {

/// What a write expects: insert an absent key, update a present one, upsert either.
enum class Put : std::uint8_t { insert, upsert, update };

/// An insert refuses a key that is present, an update one that is absent.
[[nodiscard]] constexpr bool is_refused(Put kind, bool present) noexcept {
  return kind == (present ? Put::insert : Put::update);
}
/// The outcome of a refused write.
[[nodiscard]] constexpr Outcome refusal(bool present) noexcept {
  return present ? Outcome::exists : Outcome::not_found;
}

/// Between `Base` and `Self`, which has `Outcome put(Key, Value, Put)`.
template <class Self, class Keys, class Base = OrderedIndex<Keys>>
class WritableIndex : public Base {
 public:
  Outcome insert(typename Keys::Key key, typename Keys::Value value) override {
    return static_cast<Self*>(this)->put(key, value, Put::insert);
  }
  Outcome upsert(typename Keys::Key key, typename Keys::Value value) override {
    return static_cast<Self*>(this)->put(key, value, Put::upsert);
  }
  Outcome update(typename Keys::Key key, typename Keys::Value value) override {
    return static_cast<Self*>(this)->put(key, value, Put::update);
  }
};

}  // namespace perdure
