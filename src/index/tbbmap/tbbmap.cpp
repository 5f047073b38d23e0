// `tbbmap`: oneTBB's concurrent_map with logical deletion. See design.md and tbbmap.h.
#include "index/tbbmap/tbbmap.h"

#include <oneapi/tbb/concurrent_map.h>

#include <functional>
#include <memory>
#include <new>
#include <string>
#include <tuple>
#include <utility>

#include "index/common/bulk_check.h"
#include "index/registry.h"

namespace perdure {
namespace {

Error no_memory() {
  return {ErrorCode::out_of_space, "no memory for the records", "bulk load", "load fewer records"};
}

// Shared by both kinds of keys: whatever walks the map.
template <class Keys, class Map>
class TbbMap : public OrderedIndex<Keys> {
 public:
  std::uint64_t size() const override {
    std::uint64_t live = 0;
    for (const auto& pair : map_) live += is_live(pair.second);
    return live;
  }

  Result<void> check_invariants() const override {
    const typename Map::value_type* before = nullptr;
    for (const auto& pair : map_) {
      if (before != nullptr && !map_.key_comp()(before->first, pair.first))
        return Error{ErrorCode::corrupt, "the skip list is out of order", "check_invariants",
                     "report this as a bug"};
      before = &pair;
    }
    return {};
  }

  std::uint64_t dram_bytes() const override { return arena_.dram_bytes() + sizeof *this; }

 protected:
  explicit TbbMap(bool huge_pages)
      : arena_(huge_pages), map_(typename Map::allocator_type(arena_)) {}

  [[nodiscard]] static bool is_live(const IntegerSlot& slot) { return slot.is_live(); }
  [[nodiscard]] static bool is_live(const TextSlot& slot) {
    return slot.text.load(std::memory_order_acquire) != nullptr;
  }

  /// T1: only when no other operation runs.
  void erase_dead() {
    for (auto at = map_.begin(); at != map_.end();)
      at = is_live(at->second) ? std::next(at) : map_.unsafe_erase(at);
  }

  StripedArena arena_;
  Map map_;
};

using IntegerMap = tbb::concurrent_map<std::uint64_t, IntegerSlot, std::less<std::uint64_t>,
                                       ArenaAllocator<std::pair<const std::uint64_t, IntegerSlot>>>;

class IntegerTbbMap final : public TbbMap<IntegerKeys, IntegerMap> {
 public:
  explicit IntegerTbbMap(bool huge_pages) : TbbMap(huge_pages) {}

  Outcome insert(Key key, Value value) override {
    return with_slot(key, value, [&](IntegerSlot& slot) {
      return slot.revive(value) ? Outcome::ok : Outcome::exists;
    });
  }

  Outcome upsert(Key key, Value value) override {
    return with_slot(key, value, [&](IntegerSlot& slot) {
      slot.put(value);
      return Outcome::ok;
    });
  }

  Outcome update(Key key, Value value) override {
    const auto at = map_.find(key);
    return at != map_.end() && at->second.replace(value) ? Outcome::ok : Outcome::not_found;
  }

  Outcome remove(Key key) override {
    const auto at = map_.find(key);
    return at != map_.end() && at->second.kill() ? Outcome::ok : Outcome::not_found;
  }

  Outcome lookup(Key key, ValueOut& value) override {
    const auto at = map_.find(key);
    return at != map_.end() && at->second.read(value) ? Outcome::ok : Outcome::not_found;
  }

  std::size_t scan(Key from, std::size_t count, Scan& out) override {
    out.clear();
    std::uint64_t value = 0;
    for (auto at = map_.lower_bound(from); at != map_.end() && out.size() < count; ++at)
      if (at->second.read(value)) out.append(at->first, value);
    return out.size();
  }

  Result<void> bulk_load(std::span<const Record> records) override {
    if (auto refusal = bulk_load_refusal(size() == 0, records)) return std::move(*refusal);
    for (const Record& record : records) {
      if (insert(record.key, record.value) == Outcome::ok) continue;
      map_.clear();
      return no_memory();
    }
    return {};
  }

  void quiesce() override { erase_dead(); }

 private:
  // Links a live slot, or hands the present one to `otherwise`.
  template <class Otherwise>
  Outcome with_slot(Key key, Value value, Otherwise&& otherwise) {
    auto at = map_.find(key);
    if (at == map_.end()) {
      try {
        const auto [linked, is_new] = map_.emplace(
            std::piecewise_construct, std::forward_as_tuple(key), std::forward_as_tuple(value));
        if (is_new) return Outcome::ok;
        at = linked;
      } catch (const std::bad_alloc&) {
        return Outcome::out_of_space;
      }
    }
    return otherwise(at->second);
  }
};

using KeyText = std::basic_string<char, std::char_traits<char>, ArenaAllocator<char>>;

struct KeyTextLess {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const noexcept { return a < b; }
};

using TextMap = tbb::concurrent_map<KeyText, TextSlot, KeyTextLess,
                                    ArenaAllocator<std::pair<const KeyText, TextSlot>>>;

class BytesTbbMap final : public TbbMap<ByteKeys, TextMap> {
 public:
  explicit BytesTbbMap(bool huge_pages) : TbbMap(huge_pages) {}
  ~BytesTbbMap() override { free_texts(); }

  Outcome insert(Key key, Value value) override {
    return write(
        key, value, [](const Text* old) { return old == nullptr; }, Outcome::exists, true);
  }
  Outcome upsert(Key key, Value value) override {
    return write(
        key, value, [](const Text*) { return true; }, Outcome::ok, true);
  }
  Outcome update(Key key, Value value) override {
    return write(
        key, value, [](const Text* old) { return old != nullptr; }, Outcome::not_found, false);
  }

  Outcome remove(Key key) override {
    const Epochs::Guard guard(epochs_);
    const auto at = map_.find(key);
    if (at == map_.end()) return Outcome::not_found;
    const Text* const old = at->second.text.exchange(nullptr, std::memory_order_acq_rel);
    if (old == nullptr) return Outcome::not_found;
    retire(old);
    return Outcome::ok;
  }

  Outcome lookup(Key key, ValueOut& value) override {
    const Epochs::Guard guard(epochs_);
    const auto at = map_.find(key);
    if (at == map_.end()) return Outcome::not_found;
    const Text* const text = at->second.text.load(std::memory_order_acquire);
    if (text == nullptr) return Outcome::not_found;
    value = text->view();
    return Outcome::ok;
  }

  std::size_t scan(Key from, std::size_t count, Scan& out) override {
    out.clear();
    const Epochs::Guard guard(epochs_);
    for (auto at = map_.lower_bound(from); at != map_.end() && out.size() < count; ++at) {
      const Text* const text = at->second.text.load(std::memory_order_acquire);
      if (text != nullptr) out.append(at->first, text->view());
    }
    return out.size();
  }

  Result<void> bulk_load(std::span<const Record> records) override {
    if (auto refusal = bulk_load_refusal(size() == 0, records)) return std::move(*refusal);
    for (const Record& record : records) {
      if (insert(record.key, record.value) == Outcome::ok) continue;
      free_texts();
      map_.clear();
      return no_memory();
    }
    return {};
  }

  void quiesce() override {
    epochs_.drain();
    erase_dead();
  }

 private:
  // Swaps the value in where `may_replace(old)`; else returns `refusal`. Adds an absent slot only
  // when told to. The map is searched before anything is allocated.
  template <class MayReplace>
  Outcome write(Key key, Value value, MayReplace&& may_replace, Outcome refusal, bool add) {
    if (!within_limits(key, value)) return Outcome::invalid;
    const Epochs::Guard guard(epochs_);
    Text* text = nullptr;
    try {
      auto at = map_.find(key);
      if (at == map_.end()) {
        if (!add) return refusal;
        text = Text::make(arena_, value);
        const auto [linked, is_new] = map_.emplace(
            std::piecewise_construct, std::forward_as_tuple(key, ArenaAllocator<char>(arena_)),
            std::forward_as_tuple(text));
        if (is_new) return Outcome::ok;
        at = linked;
      }
      return swap_in(at->second, text, value, may_replace, refusal);
    } catch (const std::bad_alloc&) {
      Text::free(arena_, text);
      return Outcome::out_of_space;
    }
  }

  template <class MayReplace>
  Outcome swap_in(TextSlot& slot, Text*& text, Value value, MayReplace&& may_replace,
                  Outcome refusal) {
    const Text* old = slot.text.load(std::memory_order_acquire);
    while (may_replace(old)) {
      if (text == nullptr) text = Text::make(arena_, value);
      if (!slot.text.compare_exchange_weak(old, text, std::memory_order_acq_rel,
                                           std::memory_order_acquire))
        continue;
      text = nullptr;
      if (old != nullptr) retire(old);
      return Outcome::ok;
    }
    Text::free(arena_, text);
    text = nullptr;
    return refusal;
  }

  void retire(const Text* text) {
    epochs_.retire(reinterpret_cast<std::uint64_t>(text), text->bytes(), Text::destroy, &arena_);
  }

  void free_texts() {
    epochs_.drain();
    for (auto& pair : map_)
      Text::free(arena_, const_cast<Text*>(pair.second.text.exchange(nullptr)));
  }

  Epochs epochs_;  // declared after the arena of the base: it goes first
};

MadeIndex<IntegerKeys> create_integer(const IndexPlace& place) {
  return std::unique_ptr<IntegerIndex>(std::make_unique<IntegerTbbMap>(place.huge_pages));
}
MadeIndex<ByteKeys> create_bytes(const IndexPlace& place) {
  return std::unique_ptr<BytesIndex>(std::make_unique<BytesTbbMap>(place.huge_pages));
}

PERDURE_REGISTER_INDEX(tbbmap, IndexInfo{
                                   .name = "tbbmap",
                                   .title = "oneTBB concurrent_map, logical deletion (volatile)",
                                   .index_class = IndexClass::in_memory,
                                   .native_only = true,
                                   .create_integer = create_integer,
                                   .create_bytes = create_bytes,
                               });

}  // namespace
}  // namespace perdure
