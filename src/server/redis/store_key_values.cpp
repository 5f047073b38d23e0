#include "server/redis/store_key_values.h"

#include "engine/document/keys.h"

namespace perdure::server::redis {
namespace {

using engine::Status;

constexpr std::size_t counted_at_once = 4096;

std::string store_key(std::string_view key) {
  std::string whole = engine::collection_prefix(engine::raw_collection);
  whole += key;
  return whole;
}

/// Replaces a value and keeps the one before.
class Exchange final : public engine::DocumentStore::Change {
 public:
  Exchange(std::string_view value, Put kind, std::string& old)
      : value_(value), kind_(kind), old_(old) {}

  bool operator()(const std::string* document, std::string& out, bool& /*remove*/) override {
    had_value_ = document != nullptr;
    if (had_value_) old_ = *document;
    if (is_refused(kind_, had_value_)) return false;
    out = value_;
    return true;
  }
  [[nodiscard]] bool had_value() const noexcept { return had_value_; }

 private:
  std::string_view value_;
  Put kind_;
  std::string& old_;
  bool had_value_ = false;
};

}  // namespace

StoreKeyValues::StoreKeyValues(engine::DocumentStore& store) : store_(store) {
  std::vector<engine::DocumentStore::Entry> entries;
  std::string from = store_key("");
  const std::string to = engine::collection_prefix(engine::first_collection);
  std::uint64_t count = 0;
  while (!from.empty()) {
    entries.clear();
    std::string next;
    store_.scan_entries(from, to, counted_at_once, entries, next);
    count += entries.size();
    from = std::move(next);
  }
  size_ = count;
}

Status StoreKeyValues::get(std::string_view key, std::string& value) {
  return store_.lookup(store_key(key), value);
}

// An upsert would not say whether the key was there. Most writes of a store in use replace a value,
// so `update` is tried first; two clients that insert and remove the key may make this go round.
Status StoreKeyValues::set(std::string_view key, std::string_view value, Put kind) {
  const std::string whole = store_key(key);
  while (true) {
    if (kind != Put::insert) {
      const Status status = store_.put(whole, value, Put::update);
      if (status != Status::not_found || kind == Put::update) return status;
    }
    const Status status = store_.put(whole, value, Put::insert);
    if (status == Status::ok) size_.fetch_add(1, std::memory_order_relaxed);
    if (status != Status::exists || kind == Put::insert) return status;
  }
}

Status StoreKeyValues::exchange(std::string_view key, std::string_view value, Put kind,
                                std::string& old, bool& had_value) {
  Exchange change(value, kind, old);
  const Status status = store_.modify(store_key(key), change);
  had_value = change.had_value();
  if (status == Status::ok && !had_value) size_.fetch_add(1, std::memory_order_relaxed);
  if (status == Status::unchanged) return had_value ? Status::exists : Status::not_found;
  return status;
}

Status StoreKeyValues::remove(std::string_view key) {
  const Status status = store_.remove(store_key(key));
  if (status == Status::ok || status == Status::corrupt)
    size_.fetch_sub(1, std::memory_order_relaxed);
  return status;
}

bool StoreKeyValues::scan(std::string_view from, std::size_t count, std::vector<std::string>& keys,
                          std::string& next) {
  const std::size_t prefix_bytes = engine::collection_prefix(engine::raw_collection).size();
  std::vector<engine::DocumentStore::Entry> entries;
  std::string whole_next;
  store_.scan_entries(store_key(from), engine::collection_prefix(engine::first_collection), count,
                      entries, whole_next);
  for (const auto& entry : entries) keys.push_back(entry.entry.substr(prefix_bytes));
  if (whole_next.empty()) return false;
  next = whole_next.substr(prefix_bytes);
  return true;
}

std::uint64_t StoreKeyValues::size() const { return size_.load(std::memory_order_relaxed); }

engine::StoreUsage StoreKeyValues::usage() const { return store_.usage(); }

}  // namespace perdure::server::redis
