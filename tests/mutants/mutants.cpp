#include "mutants/mutants.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "core/rng.h"

namespace perdure::testing {
namespace {

constexpr std::size_t faults = static_cast<std::size_t>(Fault::drops_when_full) + 1;

bool is_persistent(Fault fault) { return fault >= Fault::forgets_on_recovery; }

const IndexInfo& base_of(Fault fault) {
  return *IndexRegistry::find(is_persistent(fault) ? "chained_hash" : "stdmap").value();
}

template <class Keys>
class Mutant final : public OrderedIndex<Keys> {
 public:
  using Key = typename Keys::Key;
  using Value = typename Keys::Value;
  using ValueOut = typename Keys::ValueOut;
  using Scan = typename Keys::Scan;
  using Record = typename Keys::Record;

  Mutant(Fault fault, std::unique_ptr<OrderedIndex<Keys>> sound, const IndexPlace& place)
      : fault_(fault), sound_(std::move(sound)), pool_(place.pool) {}

  Outcome insert(Key key, Value value) override {
    switch (fault_) {
      case Fault::insert_ok_on_present: {
        const Outcome outcome = sound_->insert(key, value);
        return outcome == Outcome::exists && sometimes() ? Outcome::ok : outcome;
      }
      case Fault::insert_overwrites: {
        const Outcome outcome = sound_->insert(key, value);
        if (outcome == Outcome::exists) (void)sound_->update(key, value);
        return outcome;
      }
      case Fault::racy_insert: {
        ValueOut found{};
        if (sound_->lookup(key, found) == Outcome::ok) return Outcome::exists;
        std::this_thread::yield();
        return sound_->upsert(key, value);
      }
      case Fault::acknowledges_early:
        return later(key, value);
      case Fault::ignores_out_of_space: {
        const Outcome outcome = sound_->insert(key, value);
        return outcome == Outcome::out_of_space ? Outcome::ok : outcome;
      }
      default:
        return sound_->insert(mend(key), value);
    }
  }

  Outcome upsert(Key key, Value value) override {
    catch_up();
    if (fault_ == Fault::drops_when_full) {
      (void)sound_->remove(key);
      // What the old record had is free only after a grace period.
      constexpr std::size_t node_bytes = 24;
      Reservation room = pool_->heap().reserve(node_bytes);
      if (!room) return Outcome::out_of_space;
      pool_->heap().cancel(room);
      return sound_->insert(key, value);
    }
    remember(key);
    return sound_->upsert(mend(key), value);
  }

  Outcome update(Key key, Value value) override {
    catch_up();
    if (fault_ == Fault::loses_an_update && sometimes()) {
      ValueOut found{};
      return sound_->lookup(key, found);
    }
    remember(key);
    return sound_->update(mend(key), value);
  }

  Outcome remove(Key key) override {
    catch_up();
    const Outcome outcome = sound_->remove(mend(key));
    if (fault_ == Fault::remove_says_not_found && sometimes()) return Outcome::not_found;
    if (fault_ == Fault::leaks_a_block && sometimes()) leak();
    return outcome;
  }

  Outcome lookup(Key key, ValueOut& value) override {
    catch_up();
    if (fault_ == Fault::stale_lookup && sometimes()) {
      const std::lock_guard guard(lock_);
      const auto found = previous_.find(mix(key));
      if (found != previous_.end()) return value = found->second, Outcome::ok;
    }
    return sound_->lookup(mend(key), value);
  }

  void upsert_batch(std::span<const Key> keys, std::span<const Value> values,
                    std::span<Outcome> outcomes) override {
    if (fault_ != Fault::batch_backwards)
      return OrderedIndex<Keys>::upsert_batch(keys, values, outcomes);
    for (std::size_t i = keys.size(); i-- > 0;) outcomes[i] = upsert(keys[i], values[i]);
  }
  void update_batch(std::span<const Key> keys, std::span<const Value> values,
                    std::span<Outcome> outcomes) override {
    OrderedIndex<Keys>::update_batch(keys, values, outcomes);
    if (fault_ != Fault::batch_forgets_last || keys.empty()) return;
    // It is the first's value that the last key has afterwards.
    if (outcomes.back() == Outcome::ok) (void)sound_->update(keys.back(), values.front());
  }

  std::size_t scan(Key from, std::size_t count, Scan& out) override {
    catch_up();
    if (fault_ == Fault::scan_too_short && count > 1) return sound_->scan(from, count - 1, out);
    if constexpr (Keys::kind == KeyKind::integer)
      if (fault_ == Fault::signed_order) return scan_signed(from, count, out);
    Scan sound;
    sound_->scan(from, count, sound);
    out.clear();
    for (std::size_t i = 0; i < sound.size(); ++i) {
      const bool spoil = i == sound.size() / 2 && i > 0 && sometimes();
      if (spoil && fault_ == Fault::scan_skips) continue;
      if (spoil && fault_ == Fault::scan_repeats) out.append(sound[i - 1].key, sound[i - 1].value);
      out.append(sound[i].key, sound[i].value);
    }
    return out.size();
  }

  Result<void> bulk_load(std::span<const Record> records) override {
    return sound_->bulk_load(records);
  }
  [[nodiscard]] std::uint64_t size() const override {
    const std::uint64_t size = sound_->size();
    return fault_ == Fault::wrong_size && size > 10 ? size - 1 : size;
  }
  [[nodiscard]] Result<void> check_invariants() const override {
    // The mutant must be caught by the suite, not by the sound index under it.
    return fault_ == Fault::leaks_a_block ? Result<void>{} : sound_->check_invariants();
  }
  [[nodiscard]] std::uint64_t dram_bytes() const override { return sound_->dram_bytes(); }
  void quiesce() override {
    catch_up();
    sound_->quiesce();
  }

 private:
  /// True at every 50th call.
  bool sometimes() { return calls_.fetch_add(1) % 50 == 49; }

  static std::uint64_t mix(std::uint64_t key) { return key; }
  static std::uint64_t mix(std::string_view key) { return std::hash<std::string_view>{}(key); }

  std::uint64_t mend(std::uint64_t key) { return key; }
  std::string_view mend(std::string_view key) {
    if (fault_ == Fault::takes_long_keys) return key.substr(0, max_key_bytes);
    return fault_ == Fault::cuts_at_zero ? key.substr(0, key.find('\0')) : key;
  }

  /// Before a change: what a stale lookup will tell.
  void remember(Key key) {
    if (fault_ != Fault::stale_lookup) return;
    ValueOut value{};
    if (sound_->lookup(key, value) != Outcome::ok) return;
    const std::lock_guard guard(lock_);
    previous_[mix(key)] = value;
  }

  Outcome later(Key key, Value value) {
    catch_up();
    ValueOut found{};
    if (sound_->lookup(key, found) == Outcome::ok) return Outcome::exists;
    const std::lock_guard guard(lock_);
    pending_.emplace_back(key, value);
    return Outcome::ok;
  }
  void catch_up() {
    if (fault_ != Fault::acknowledges_early) return;
    const std::lock_guard guard(lock_);
    for (const auto& [key, value] : pending_) (void)sound_->insert(key, value);
    pending_.clear();
  }

  void leak() {
    Reservation block = pool_->heap().reserve(64);
    if (block) pool_->heap().publish({&block, 1});
  }

  std::size_t scan_signed(std::uint64_t from, std::size_t count, IntegerScan& out) {
    IntegerScan all;
    sound_->scan(Key{}, sound_->size(), all);
    std::ranges::sort(all.records(), {}, [](const IntegerRecord& record) {
      return static_cast<std::int64_t>(record.key);
    });
    out.clear();
    for (std::size_t i = 0; i < all.size() && out.size() < count; ++i)
      if (static_cast<std::int64_t>(all[i].key) >= static_cast<std::int64_t>(from))
        out.append(all[i].key, all[i].value);
    return out.size();
  }

  const Fault fault_;
  std::unique_ptr<OrderedIndex<Keys>> sound_;
  Pool* const pool_;
  std::atomic<std::uint64_t> calls_{0};
  std::mutex lock_;
  std::map<std::uint64_t, ValueOut> previous_;
  std::vector<std::pair<Key, Value>> pending_;
};

/// `create_index` of a mutant takes no argument that tells which: one function for each fault.
template <Fault fault, class Keys>
Result<std::unique_ptr<OrderedIndex<Keys>>> create(const IndexPlace& place) {
  auto sound = create_index<Keys>(base_of(fault), place);
  if (!sound) return sound.error();
  return std::unique_ptr<OrderedIndex<Keys>>(
      std::make_unique<Mutant<Keys>>(fault, std::move(sound).value(), place));
}

template <Fault fault>
Result<std::unique_ptr<IntegerIndex>> recover(const IndexPlace& place) {
  if constexpr (fault == Fault::follows_wild_pointers) {
    // chained_hash's root holds the table's offset in its third word: read what it leads to,
    // unchecked.
    const std::uint64_t root = place.pool->roots().at(0).offset;
    const std::uint64_t table = place.pool->at<std::uint64_t>(root)[2];
    for (std::uint64_t i = 0; i < 4; ++i) {
      std::uint64_t node = place.pool->at<std::uint64_t>(table)[i];
      while (node != 0)
        node = *static_cast<volatile std::uint64_t*>(place.pool->at<std::uint64_t>(node + 16));
    }
  }
  auto sound = recover_index<IntegerKeys>(base_of(fault), place);
  if (!sound) return sound.error();
  if (fault == Fault::forgets_on_recovery) {
    std::vector<std::uint64_t> keys;
    for (std::uint64_t i = 0; i < 10000; ++i) {
      (void)sound.value()->remove((i << 20) ^ (1ULL << 63));
      (void)sound.value()->remove(i);
    }
    sound.value()->quiesce();
  }
  return std::unique_ptr<IntegerIndex>(
      std::make_unique<Mutant<IntegerKeys>>(fault, std::move(sound).value(), place));
}

template <Fault fault>
IndexInfo describe() {
  IndexInfo info = base_of(fault);
  info.name = std::string("mutant_") + name_of(fault);
  info.create_integer = create<fault, IntegerKeys>;
  if (info.create_bytes != nullptr) info.create_bytes = create<fault, ByteKeys>;
  if (info.recover_integer != nullptr) info.recover_integer = recover<fault>;
  return info;
}

template <std::size_t... fault>
std::array<IndexInfo, faults> describe_all(std::index_sequence<fault...>) {
  return {describe<static_cast<Fault>(fault)>()...};
}

const std::array<IndexInfo, faults>& all() {
  static const auto list = describe_all(std::make_index_sequence<faults>{});
  return list;
}

}  // namespace

const char* name_of(Fault fault) noexcept {
  static constexpr const char* names[] = {"none",
                                          "loses_an_update",
                                          "insert_ok_on_present",
                                          "insert_overwrites",
                                          "remove_says_not_found",
                                          "scan_skips",
                                          "scan_repeats",
                                          "scan_too_short",
                                          "signed_order",
                                          "wrong_size",
                                          "takes_long_keys",
                                          "cuts_at_zero",
                                          "racy_insert",
                                          "stale_lookup",
                                          "batch_backwards",
                                          "batch_forgets_last",
                                          "forgets_on_recovery",
                                          "acknowledges_early",
                                          "leaks_a_block",
                                          "follows_wild_pointers",
                                          "ignores_out_of_space",
                                          "drops_when_full"};
  static_assert(std::size(names) == faults);
  return names[static_cast<std::size_t>(fault)];
}

const IndexInfo& mutant(Fault fault) { return all()[static_cast<std::size_t>(fault)]; }

void register_mutants() {
  for (const IndexInfo& info : all()) IndexRegistry::add(info);
}

}  // namespace perdure::testing
