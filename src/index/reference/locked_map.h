// LockedMap: an ordered map of the standard library's shape behind one reader-writer lock; the
// volatile references `stdmap` and `abslbtree` are instances.
//
// M1  the map is read under the shared lock and changed under the exclusive one, so every operation
//     and every whole scan belongs to one moment.
// M2  all its memory, strings included, comes from `arena_`: dram_bytes is what the system gave.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "index/common/bulk_check.h"
#include "index/index.h"
#include "index/reference/arena_allocator.h"
#include "index/registry.h"
#include "pm/pm.h"

namespace perdure {

/// Orders stored strings and looked-up ones alike, so that no lookup builds a string.
struct TextLess {
  using is_transparent = void;
  [[nodiscard]] bool operator()(std::string_view a, std::string_view b) const noexcept {
    return a < b;
  }
};

template <class Keys, template <class, class, class, class> class Map>
class LockedMap final : public OrderedIndex<Keys> {
  using Base = OrderedIndex<Keys>;
  static constexpr bool is_bytes = Keys::kind == KeyKind::bytes;
  using Text = std::basic_string<char, std::char_traits<char>, ArenaAllocator<char>>;
  using Stored = std::conditional_t<is_bytes, Text, std::uint64_t>;
  // Integers keep std::less: absl::btree_map searches its nodes faster when it recognises it.
  using Less = std::conditional_t<is_bytes, TextLess, std::less<std::uint64_t>>;
  using Pairs = Map<Stored, Stored, Less, ArenaAllocator<std::pair<const Stored, Stored>>>;
  using ReadGuard = pm::SharedLock::ReadGuard;
  using WriteGuard = pm::SharedLock::WriteGuard;

 public:
  using Key = typename Base::Key;
  using Value = typename Base::Value;
  using ValueOut = typename Base::ValueOut;
  using Record = typename Base::Record;
  using Scan = typename Base::Scan;

  explicit LockedMap(bool huge_pages) : arena_(huge_pages), pairs_(Less(), Allocator(arena_)) {}

  Outcome insert(Key key, Value value) override {
    if (!within_limits(key, value)) return Outcome::invalid;
    return change([&] { return add(key, value) ? Outcome::ok : Outcome::exists; });
  }

  Outcome upsert(Key key, Value value) override {
    if (!within_limits(key, value)) return Outcome::invalid;
    return change([&] {
      if (const auto at = pairs_.find(key); at != pairs_.end())
        at->second = value;
      else
        add(key, value);
      return Outcome::ok;
    });
  }

  Outcome update(Key key, Value value) override {
    if (!within_limits(key, value)) return Outcome::invalid;
    return change([&] {
      const auto at = pairs_.find(key);
      if (at == pairs_.end()) return Outcome::not_found;
      at->second = value;
      return Outcome::ok;
    });
  }

  Outcome remove(Key key) override {
    return change([&] {
      const auto at = pairs_.find(key);
      if (at == pairs_.end()) return Outcome::not_found;
      pairs_.erase(at);
      return Outcome::ok;
    });
  }

  Outcome lookup(Key key, ValueOut& value) override {
    const ReadGuard guard(lock_);
    const auto at = pairs_.find(key);
    if (at == pairs_.end()) return Outcome::not_found;
    value = at->second;
    return Outcome::ok;
  }

  std::size_t scan(Key from, std::size_t count, Scan& out) override {
    out.clear();
    const ReadGuard guard(lock_);
    for (auto at = pairs_.lower_bound(from); at != pairs_.end() && out.size() < count; ++at)
      out.append(at->first, at->second);
    return out.size();
  }

  Result<void> bulk_load(std::span<const Record> records) override {
    const WriteGuard guard(lock_);
    if (auto refusal = bulk_load_refusal(pairs_.empty(), records)) return std::move(*refusal);
    try {
      for (const Record& record : records) add_before(pairs_.end(), record.key, record.value);
    } catch (const std::bad_alloc&) {
      pairs_.clear();
      return Error{ErrorCode::out_of_space, "no memory for the records", "bulk load",
                   "load fewer records"};
    }
    return {};
  }

  std::uint64_t size() const override {
    const ReadGuard guard(lock_);
    return pairs_.size();
  }

  Result<void> check_invariants() const override {
    const ReadGuard guard(lock_);
    std::uint64_t seen = 0;
    for (auto at = pairs_.begin(), before = at; at != pairs_.end(); before = at++, ++seen)
      if (seen > 0 && !(before->first < at->first)) return out_of_order(seen);
    if (seen != pairs_.size()) return out_of_order(seen);
    return {};
  }

  std::uint64_t dram_bytes() const override { return arena_.dram_bytes() + sizeof *this; }

 private:
  using Allocator = typename Pairs::allocator_type;

  static Error out_of_order(std::uint64_t record) {
    return {ErrorCode::corrupt, "the map is out of order at record " + std::to_string(record),
            "check_invariants", "report this as a bug"};
  }

  // Memory is the only thing that can fail, and then the map is as it was.
  template <class Change>
  Outcome change(Change&& change) {
    const WriteGuard guard(lock_);
    try {
      return change();
    } catch (const std::bad_alloc&) {
      return Outcome::out_of_space;
    }
  }

  bool add(Key key, Value value) {
    if constexpr (!is_bytes) {
      return pairs_.try_emplace(key, value).second;
    } else {
      const auto at = pairs_.lower_bound(key);
      if (at != pairs_.end() && at->first == key) return false;
      add_before(at, key, value);
      return true;
    }
  }

  void add_before(typename Pairs::const_iterator at, Key key, Value value) {
    if constexpr (!is_bytes) {
      pairs_.emplace_hint(at, key, value);
    } else {
      const ArenaAllocator<char> allocator(arena_);
      pairs_.emplace_hint(at, std::piecewise_construct, std::forward_as_tuple(key, allocator),
                          std::forward_as_tuple(value, allocator));
    }
  }

  StripedArena arena_;
  mutable pm::SharedLock lock_;
  Pairs pairs_;
};

/// The `create_*` of a registration.
template <class Keys, template <class, class, class, class> class Map>
MadeIndex<Keys> create_locked_map(const IndexPlace& place) {
  return std::unique_ptr<OrderedIndex<Keys>>(
      std::make_unique<LockedMap<Keys, Map>>(place.huge_pages));
}

}  // namespace perdure
