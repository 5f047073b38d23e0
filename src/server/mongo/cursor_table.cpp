#include "server/mongo/cursor_table.h"

namespace perdure::server::mongo {

std::int64_t CursorTable::add(Item item, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  std::int64_t id = 0;
  while (id == 0 || items_.contains(id))
    id = static_cast<std::int64_t>((std::uint64_t{random_()} << 32 | random_()) >> 1);
  insert(id, std::move(item), now);
  return id;
}

std::optional<CursorTable::Item> CursorTable::take(std::int64_t id, const std::string& name,
                                                   Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  make_room(now);
  const auto found = items_.find(id);
  if (found == items_.end() || found->second.name != name) return std::nullopt;
  by_use_.erase({found->second.used, id});
  std::optional<Item> item(std::move(found->second));
  items_.erase(found);
  return item;
}

void CursorTable::put_back(std::int64_t id, Item item, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  insert(id, std::move(item), now);
}

bool CursorTable::remove(std::int64_t id) {
  const std::lock_guard lock(mutex_);
  return erase(id);
}

std::size_t CursorTable::size() const {
  const std::lock_guard lock(mutex_);
  return items_.size();
}

void CursorTable::insert(std::int64_t id, Item item, Clock::time_point now) {
  item.used = now;
  items_.insert_or_assign(id, std::move(item));
  by_use_.emplace(now, id);
  make_room(now);
}

bool CursorTable::erase(std::int64_t id) {
  const auto found = items_.find(id);
  if (found == items_.end()) return false;
  by_use_.erase({found->second.used, id});
  items_.erase(found);
  return true;
}

void CursorTable::make_room(Clock::time_point now) {
  while (!by_use_.empty() && (by_use_.begin()->first + idle_limit <= now || items_.size() > most_))
    erase(by_use_.begin()->second);
}

}  // namespace perdure::server::mongo
