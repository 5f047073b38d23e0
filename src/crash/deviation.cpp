#include "crash/deviation.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "crash/persistency.h"

namespace perdure::crash {
namespace {

/// Of a line, or of one that is only streamed to: whose durable part is reckoned apart (M2).
using FloorKey = std::uint64_t;

FloorKey cached_key(const Event& event) { return event.at / line_bytes * 2; }
FloorKey streamed_key(const Event& event) { return event.at / word_bytes * 2 + 1; }

/// The floors of one program: how many of each line's stores are on media for certain.
class Floors {
 public:
  /// `stores`: of the line, so far.
  void capture(unsigned thread, FloorKey key, std::uint32_t stores) {
    captured_[thread].push_back({key, stores});
  }
  void raise(FloorKey key, std::uint32_t stores) {
    std::uint32_t& certain = certain_[key];
    certain = std::max(certain, stores);
  }
  /// Calls `raised(key)` for each line whose floor may have risen.
  template <class Raised>
  void fence(unsigned thread, Raised&& raised) {
    for (const auto& [key, stores] : captured_[thread]) {
      raise(key, stores);
      raised(key);
    }
    captured_[thread].clear();
  }
  [[nodiscard]] std::uint32_t certain(FloorKey key) const {
    const auto at = certain_.find(key);
    return at == certain_.end() ? 0 : at->second;
  }

 private:
  struct Captured {
    FloorKey key;
    std::uint32_t stores;
  };
  std::unordered_map<FloorKey, std::uint32_t> certain_;
  std::array<std::vector<Captured>, 256> captured_;  ///< by thread
};

/// The original beside the mutant.
class Pair {
 public:
  void store(FloorKey key) { ++stores_[key]; }
  void stream(const Event& event) {
    const FloorKey key = streamed_key(event);
    const std::uint32_t stores = ++stores_[key];
    original_.capture(event.thread, key, stores);
    mutant_.capture(event.thread, key, stores);
  }
  void order(const Event& event, bool in_original, bool in_mutant) {
    if (in_original) order(original_, event);
    if (in_mutant) order(mutant_, event);
  }
  [[nodiscard]] bool differ() const noexcept { return !lower_.empty(); }

 private:
  void order(Floors& floors, const Event& event) {
    if (event.kind != Event::Kind::flush)
      return floors.fence(event.thread, [&](FloorKey key) { compare(key); });
    const FloorKey key = cached_key(event);
    if (static_cast<Persistency::Flush>(event.size) != Persistency::Flush::clflush)
      return floors.capture(event.thread, key, stores_[key]);
    floors.raise(key, stores_[key]);
    compare(key);
  }
  void compare(FloorKey key) {
    if (mutant_.certain(key) < original_.certain(key))
      lower_.insert(key);
    else
      lower_.erase(key);
  }

  Floors original_;
  Floors mutant_;
  std::unordered_map<FloorKey, std::uint32_t> stores_;
  std::unordered_set<FloorKey> lower_;
};

}  // namespace

std::vector<bool> find_lower_floors(const Trace& trace, const std::vector<Deviation>& deviations) {
  std::vector<bool> lower(trace.size() + 1, false);
  Pair pair;
  auto next = deviations.begin();
  for (std::size_t i = 0; i <= trace.size(); ++i) {
    bool in_original = true;
    for (; next != deviations.end() && next->at == i; ++next) {
      if (next->missing)
        pair.order(*next->missing, true, false);
      else
        in_original = false;
    }
    lower[i] = pair.differ();
    if (i == trace.size()) break;
    const Event& event = trace[i];
    switch (event.kind) {
      case Event::Kind::store:
        pair.store(cached_key(event));
        break;
      case Event::Kind::stream:
        pair.stream(event);
        break;
      case Event::Kind::flush:
      case Event::Kind::fence:
      case Event::Kind::locked:
        pair.order(event, in_original, true);
        break;
      case Event::Kind::call:
      case Event::Kind::ret:
      case Event::Kind::run:
        break;
    }
  }
  return lower;
}

}  // namespace perdure::crash
