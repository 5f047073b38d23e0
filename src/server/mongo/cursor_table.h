// CursorTable: cursors that clients have not read to the end. They belong to the server, because a
// driver may ask for the next batch on another connection.
//
// K1  a cursor is taken out while one batch is read, so no two threads read from it.
// K2  there are at most `most` cursors; the one that was used longest ago gives way to a new one.
// K3  a cursor that nobody has used for 10 minutes is gone.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "engine/document/engine.h"

namespace perdure::server::mongo {

class CursorTable {
 public:
  using Clock = std::chrono::steady_clock;
  struct Item {
    engine::Cursor cursor;
    std::string name;  ///< of the collection
    Clock::time_point used{};
  };
  static constexpr std::chrono::minutes idle_limit{10};

  explicit CursorTable(std::size_t most = 10000) : most_(most) {}

  /// A number that no client can guess, never 0.
  [[nodiscard]] std::int64_t add(Item item, Clock::time_point now = Clock::now());
  /// Nothing: unknown, or of another collection.
  [[nodiscard]] std::optional<Item> take(std::int64_t id, const std::string& name,
                                         Clock::time_point now = Clock::now());
  /// Puts back what was taken.
  void put_back(std::int64_t id, Item item, Clock::time_point now = Clock::now());
  [[nodiscard]] bool remove(std::int64_t id);
  [[nodiscard]] std::size_t size() const;

 private:
  void insert(std::int64_t id, Item item, Clock::time_point now);
  bool erase(std::int64_t id);
  void make_room(Clock::time_point now);

  const std::size_t most_;
  mutable std::mutex mutex_;
  std::map<std::int64_t, Item> items_;
  std::set<std::pair<Clock::time_point, std::int64_t>> by_use_;
  std::random_device random_;
};

}  // namespace perdure::server::mongo
