#include "support/differential.h"

#include <algorithm>
#include <chrono>

namespace perdure::testing {
namespace {

template <class Keys>
using Model = std::map<typename Samples<Keys>::Key, typename Samples<Keys>::Value>;

Result<void> expect(Outcome got, Outcome wanted, const char* operation) {
  if (got == wanted) return {};
  return wrong(std::string(operation) + " said " + name_of(got) + " where " + name_of(wanted) +
               " is right");
}

template <class Keys>
Result<void> compare_scan(OrderedIndex<Keys>& index, bool ordered, const Model<Keys>& model,
                          typename Keys::Key from, std::size_t count) {
  typename Keys::Scan out;
  const std::size_t got = index.scan(from, count, out);
  const std::string what = "scan(" + Samples<Keys>::show(from) + ", " + std::to_string(count) + ")";
  if (got != out.size()) return wrong(what + " returned a number other than out.size()");
  if (!ordered)
    return got == 0 ? Result<void>{} : wrong(what + " of an unordered index found some");
  auto expected = model.lower_bound(typename Samples<Keys>::Key(from));
  for (std::size_t i = 0; i < got; ++i, ++expected) {
    if (i == count) return wrong(what + " found more than asked for");
    if (expected == model.end())
      return wrong(what + " found " + Samples<Keys>::show(out[i].key) + " past the last record");
    if (out[i].key != expected->first)
      return wrong(what + " found " + Samples<Keys>::show(out[i].key) + " at " + std::to_string(i) +
                   " where " + Samples<Keys>::show(expected->first) + " is right");
    if (out[i].value != expected->second)
      return wrong(what + " found a wrong value of " + Samples<Keys>::show(out[i].key));
  }
  if (got < count && expected != model.end())
    return wrong(what + " stopped after " + std::to_string(got) + ", before " +
                 Samples<Keys>::show(expected->first));
  return {};
}

template <class Keys>
Result<void> compare_lookup(const Model<Keys>& model, typename Keys::Key key, Outcome outcome,
                            const typename Keys::ValueOut& value, const char* operation) {
  const auto found = model.find(typename Samples<Keys>::Key(key));
  const Outcome wanted = found == model.end() ? Outcome::not_found : Outcome::ok;
  if (auto same = expect(outcome, wanted, operation); !same) return same;
  if (wanted == Outcome::ok && value != found->second)
    return wrong(std::string(operation) + " found a wrong value of " + Samples<Keys>::show(key));
  return {};
}

template <class Keys>
Result<void> compare_batch(OrderedIndex<Keys>& index, const Model<Keys>& model,
                           const std::vector<typename Samples<Keys>::Key>& universe,
                           std::size_t first, std::size_t count) {
  std::vector<typename Keys::Key> keys;
  for (std::size_t i = 0; i < count; ++i)
    keys.push_back(universe[(first + 7 * i) % universe.size()]);
  std::vector<typename Keys::ValueOut> values(count);
  std::vector<Outcome> outcomes(count, Outcome::invalid);
  index.lookup_batch(keys, values, outcomes);
  for (std::size_t i = 0; i < count; ++i)
    if (auto same = compare_lookup<Keys>(model, keys[i], outcomes[i], values[i], "lookup_batch");
        !same)
      return same;
  return {};
}

Result<void> refuse_too_long(OrderedIndex<IntegerKeys>&) { return {}; }

/// `absent`: no record has it.
template <class Keys>
Result<void> refuse_too_long_values(OrderedIndex<Keys>& index, typename Keys::Key absent) {
  const std::string value(longest_value<Keys> + 1, 'v');
  const std::pair<const char*, Outcome> must_be_invalid[] = {
      {"insert of a too long value", index.insert(absent, value)},
      {"upsert of a too long value", index.upsert(absent, value)},
  };
  for (const auto& [what, outcome] : must_be_invalid)
    if (auto same = expect(outcome, Outcome::invalid, what); !same) return same;
  const Outcome updated = index.update(absent, value);
  if (updated != Outcome::invalid && updated != Outcome::not_found)
    return wrong(std::string("a value over the limit came to ") + name_of(updated));
  return {};
}

Result<void> refuse_too_long(OrderedIndex<SlotKeys>& index) {
  return refuse_too_long_values(index, std::uint64_t{0x5eed'0000'dead'beef});
}

Result<void> refuse_too_long(OrderedIndex<ByteKeys>& index) {
  const std::string key(max_key_bytes + 1, 'k');
  std::string out = "untouched";
  const std::pair<const char*, Outcome> must_be_invalid[] = {
      {"insert of a too long key", index.insert(key, "")},
      {"upsert of a too long key", index.upsert(key, "")},
      {"update of a too long key", index.update(key, "")},
  };
  for (const auto& [what, outcome] : must_be_invalid)
    if (auto same = expect(outcome, Outcome::invalid, what); !same) return same;
  if (auto same = refuse_too_long_values(index, "too-long"); !same) return same;
  const Outcome absent[] = {index.lookup(key, out), index.remove(key)};
  for (const Outcome outcome : absent)
    if (outcome != Outcome::invalid && outcome != Outcome::not_found)
      return wrong(std::string("a key or value over the limit came to ") + name_of(outcome));
  return out == "untouched" ? Result<void>{} : wrong("a failed lookup changed the value");
}

/// Makes the change in the model, too; returns the right outcome.
template <class Keys>
Outcome change_model(Model<Keys>& model, Step step, const typename Samples<Keys>::Key& key,
                     const typename Samples<Keys>::Value& value) {
  const bool present = model.contains(key);
  switch (step) {
    case Step::insert:
      if (!present) model[key] = value;
      return present ? Outcome::exists : Outcome::ok;
    case Step::upsert:
      model[key] = value;
      return Outcome::ok;
    case Step::update:
      if (present) model[key] = value;
      return present ? Outcome::ok : Outcome::not_found;
    default:
      model.erase(key);
      return present ? Outcome::ok : Outcome::not_found;
  }
}

template <class Keys>
Result<void> change(OrderedIndex<Keys>& index, Model<Keys>& model, const Operation<Keys>& operation,
                    const typename Samples<Keys>::Key& key) {
  const Outcome wanted = change_model<Keys>(model, operation.step, key, operation.value);
  switch (operation.step) {
    case Step::insert:
      return expect(index.insert(key, operation.value), wanted, "insert");
    case Step::upsert:
      return expect(index.upsert(key, operation.value), wanted, "upsert");
    case Step::update:
      return expect(index.update(key, operation.value), wanted, "update");
    default:
      return expect(index.remove(key), wanted, "remove");
  }
}

/// The change that a batch consists of.
Step single(Step step) {
  switch (step) {
    case Step::insert_batch:
      return Step::insert;
    case Step::upsert_batch:
      return Step::upsert;
    case Step::update_batch:
      return Step::update;
    default:
      return Step::remove;
  }
}
bool is_batch(Step step) { return step >= Step::lookup_batch && step <= Step::remove_batch; }

template <class Keys>
void call_batch(OrderedIndex<Keys>& index, Step step, std::span<const typename Keys::Key> keys,
                std::span<const typename Keys::Value> values, std::span<Outcome> outcomes) {
  switch (step) {
    case Step::insert_batch:
      return index.insert_batch(keys, values, outcomes);
    case Step::upsert_batch:
      return index.upsert_batch(keys, values, outcomes);
    case Step::update_batch:
      return index.update_batch(keys, values, outcomes);
    default:
      return index.remove_batch(keys, outcomes);
  }
}

/// A batch that has most keys once and some twice or more, whose order then decides (B3 of
/// index.h).
template <class Keys>
Result<void> change_batch(OrderedIndex<Keys>& index, Model<Keys>& model,
                          const History<Keys>& history, const Operation<Keys>& operation) {
  std::vector<typename Keys::Key> keys;
  std::vector<typename Samples<Keys>::Value> owned;
  for (std::size_t i = 0; i < operation.count; ++i) {
    const std::size_t repeated = i % 5 == 4 ? i / 2 : i;
    keys.push_back(history.universe[(operation.key + 7 * repeated) % history.universe.size()]);
    owned.push_back(Samples<Keys>::stamped((operation.key << 16) + i));
  }
  const std::vector<typename Keys::Value> values(owned.begin(), owned.end());
  std::vector<Outcome> outcomes(operation.count, Outcome::invalid);
  call_batch<Keys>(index, operation.step, keys, values, outcomes);
  for (std::size_t i = 0; i < operation.count; ++i) {
    const typename Samples<Keys>::Key key(keys[i]);
    const Outcome wanted = change_model<Keys>(model, single(operation.step), key, owned[i]);
    if (auto same = expect(outcomes[i], wanted, name_of(operation.step)); !same) return same;
  }
  for (std::size_t i = 0; i < operation.count; ++i) {
    typename Keys::ValueOut value{};
    const Outcome outcome = index.lookup(keys[i], value);
    if (auto same = compare_lookup<Keys>(model, keys[i], outcome, value, name_of(operation.step));
        !same)
      return same;
  }
  return {};
}

template <class Keys>
Result<void> apply(Bed<Keys>& bed, Model<Keys>& model, const History<Keys>& history,
                   const Operation<Keys>& operation) {
  OrderedIndex<Keys>& index = bed.index();
  const auto& key = history.universe[operation.key];
  switch (operation.step) {
    case Step::insert:
    case Step::upsert:
    case Step::update:
    case Step::remove:
      return change(index, model, operation, key);
    case Step::lookup: {
      typename Keys::ValueOut value{};
      const Outcome outcome = index.lookup(key, value);
      return compare_lookup<Keys>(model, key, outcome, value, "lookup");
    }
    case Step::lookup_batch:
      return compare_batch(index, model, history.universe, operation.key, operation.count);
    case Step::insert_batch:
    case Step::upsert_batch:
    case Step::update_batch:
    case Step::remove_batch:
      return change_batch(index, model, history, operation);
    case Step::scan:
      return compare_scan(index, bed.target().info->ordered, model, key, operation.count);
    case Step::too_long:
      return refuse_too_long(index);
    case Step::check:
      index.quiesce();
      return compare_all(index, bed.target().info->ordered, model, history.universe);
    case Step::reopen_clean:
    case Step::reopen_crash: {
      auto done = bed.reopen(operation.step == Step::reopen_clean ? Reopen::clean : Reopen::crash);
      if (!done) return done.error();
      return compare_all(bed.index(), bed.target().info->ordered, model, history.universe);
    }
  }
  return {};
}

/// After a run: what is live is exactly what a recovery reaches, and nothing else was allocated.
template <class Keys>
Result<void> check_no_leak(Bed<Keys>& bed) {
  if (!bed.target().uses_pool() || !bed.target().recovers() || bed.target().heap == HeapKind::dram)
    return {};
  bed.index().quiesce();
  const HeapUsage before = bed.pool()->heap().usage();
  auto reopened = bed.reopen(Reopen::clean);
  if (!reopened) return reopened.error();
  if (reopened->leaked_blocks_freed != 0)
    return wrong(std::to_string(reopened->leaked_blocks_freed) + " blocks leaked");
  if (reopened->usage.live_blocks != before.live_blocks)
    return wrong(std::to_string(before.live_blocks) + " blocks were live before the close, " +
                 std::to_string(reopened->usage.live_blocks) + " are reachable after it");
  return {};
}

template <class Keys>
Result<void> bulk_load(Bed<Keys>& bed, Model<Keys>& model, const History<Keys>& history) {
  if (history.bulk.empty()) return {};
  for (const std::size_t i : history.bulk) model[history.universe[i]] = Samples<Keys>::stamped(i);
  std::vector<typename Keys::Record> records;
  for (const auto& [key, value] : model) records.push_back({key, value});
  if (records.size() > 1) {
    std::swap(records.front(), records.back());
    if (bed.index().bulk_load(records).ok()) return wrong("bulk_load took records out of order");
    std::swap(records.front(), records.back());
  }
  if (auto done = bed.index().bulk_load(records); !done) return done;
  if (bed.index().bulk_load(records).ok())
    return wrong("bulk_load filled an index that is not empty");
  return compare_all(bed.index(), bed.target().info->ordered, model, history.universe);
}

/// What takes the place of a step that the index does not offer.
Step offered(const IndexInfo& info, Step step) {
  if (info.replaces) return step;
  switch (step) {
    case Step::upsert:
      return Step::insert;
    case Step::update:
      return Step::remove;
    case Step::upsert_batch:
      return Step::insert_batch;
    case Step::update_batch:
      return Step::remove_batch;
    default:
      return step;
  }
}

template <class Keys>
Step draw_step(Rng& rng, const HistoryPlan& plan, std::size_t position) {
  // Growing and shrinking take turns, so that leaves fill, split, empty and go.
  const bool growing = position / 400 % 2 == 0;
  const std::uint64_t draw = rng.below(1000);
  if (draw < 2) return Step::check;
  if (draw < 6)
    return plan.reopen ? (draw < 4 ? Step::reopen_clean : Step::reopen_crash) : Step::scan;
  if (draw < 10) return Step::too_long;
  if (draw < 400) return growing ? (draw < 250 ? Step::insert : Step::upsert) : Step::remove;
  if (draw < 500) return growing ? Step::remove : Step::insert;
  if (draw < 650) return Step::update;
  if (draw < 780) return Step::lookup;
  if (draw < 795) return Step::lookup_batch;
  if (draw < 800) return growing ? Step::insert_batch : Step::remove_batch;
  if (draw < 805) return draw % 2 == 0 ? Step::upsert_batch : Step::update_batch;
  return draw < 900 ? Step::scan : Step::upsert;
}

template <class Keys>
std::string describe(const History<Keys>& history) {
  std::string text = "  bulk load of " + std::to_string(history.bulk.size()) + "\n";
  if (history.bulk.empty()) text.clear();
  for (const auto& operation : history.operations) {
    text += std::string("  ") + name_of(operation.step);
    text += " " + Samples<Keys>::show(history.universe[operation.key]);
    if (operation.step == Step::scan || is_batch(operation.step))
      text += " count " + std::to_string(operation.count);
    text += "\n";
    if (text.size() > 4000) return text + "  ...\n";
  }
  return text;
}

/// Drops chunks of the history as long as it still fails.
template <class Keys>
History<Keys> shrink(const Target& target, History<Keys> history, double seconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  const auto in_time = [&] { return std::chrono::steady_clock::now() < deadline; };
  const auto drop_from = [&](auto member) {
    for (std::size_t chunk = (history.*member).size() / 2; chunk > 0 && in_time(); chunk /= 2) {
      for (std::size_t at = 0; at + chunk <= (history.*member).size() && in_time();) {
        History<Keys> shorter = history;
        auto& list = shorter.*member;
        const auto first = list.begin() + static_cast<std::ptrdiff_t>(at);
        list.erase(first, first + static_cast<std::ptrdiff_t>(chunk));
        if (replay(target, shorter).ok())
          at += chunk;
        else
          history = std::move(shorter);
      }
    }
  };
  drop_from(&History<Keys>::operations);
  drop_from(&History<Keys>::bulk);
  return history;
}

}  // namespace

const char* name_of(Step step) noexcept {
  static constexpr const char* names[] = {
      "insert",       "upsert",       "update",       "remove",       "lookup",
      "lookup_batch", "insert_batch", "upsert_batch", "update_batch", "remove_batch",
      "scan",         "too_long",     "check",        "reopen_clean", "reopen_crash"};
  return names[static_cast<std::size_t>(step)];
}

template <class Keys>
Result<void> compare_all(OrderedIndex<Keys>& index, bool ordered, const Model<Keys>& model,
                         const std::vector<typename Samples<Keys>::Key>& universe) {
  if (auto sound = index.check_invariants(); !sound) return sound;
  if (index.size() != model.size())
    return wrong("size() is " + std::to_string(index.size()) + " where " +
                 std::to_string(model.size()) + " is right");
  typename Keys::ValueOut value{};
  for (const auto& key : universe) {
    const Outcome outcome = index.lookup(key, value);
    if (auto same = compare_lookup<Keys>(model, key, outcome, value, "lookup"); !same) return same;
  }
  return compare_scan<Keys>(index, ordered, model, typename Keys::Key{}, model.size() + 10);
}

template <class Keys>
History<Keys> generate(const Target& target, const HistoryPlan& plan) {
  Rng rng(plan.seed);
  History<Keys> history;
  history.universe = Samples<Keys>::universe(plan.shape, plan.keys, rng);
  if (plan.small_nodes) history.bed.options = small_nodes(*target.info);
  if (plan.bulk_load)
    for (std::size_t i = 0; i < history.universe.size() / 2; ++i) history.bulk.push_back(i);
  static constexpr std::size_t counts[] = {0, 1, 2, 3, 5, 16, 64, 100, 100000};
  for (std::size_t i = 0; i < plan.operations; ++i) {
    const Step step = offered(*target.info, draw_step<Keys>(rng, plan, i));
    Operation<Keys> operation{step, rng.below(history.universe.size()), Samples<Keys>::value(rng),
                              counts[rng.below(std::size(counts))]};
    if (is_batch(operation.step)) operation.count = rng.below(50);
    history.operations.push_back(std::move(operation));
  }
  return history;
}

template <class Keys>
Result<void> replay(const Target& target, const History<Keys>& history) {
  auto bed = Bed<Keys>::create(target, history.bed);
  if (!bed) return bed.error();
  Model<Keys> model;
  if (auto done = bed.value()->index().check_invariants(); !done) return done;
  if (auto done = bulk_load(*bed.value(), model, history); !done) return done;
  std::size_t position = 0;
  for (const auto& operation : history.operations) {
    if (auto done = apply(*bed.value(), model, history, operation); !done) {
      Error error = done.error();
      error.where = "operation " + std::to_string(position) + ", " + name_of(operation.step) + " " +
                    Samples<Keys>::show(history.universe[operation.key]);
      return error;
    }
    ++position;
  }
  bed.value()->index().quiesce();
  const bool ordered = target.info->ordered;
  if (auto done = compare_all(bed.value()->index(), ordered, model, history.universe); !done)
    return done;
  if (auto done = check_no_leak(*bed.value()); !done) return done;
  return compare_all(bed.value()->index(), ordered, model, history.universe);
}

template <class Keys>
Result<void> run_differential(const Target& target, const HistoryPlan& plan, double seconds) {
  History<Keys> history = generate<Keys>(target, plan);
  auto done = replay(target, history);
  if (done.ok()) return {};
  const std::string first = done.error().line();
  history = shrink(target, std::move(history), seconds);
  done = replay(target, history);
  return wrong(target.name() + ", seed " + std::to_string(plan.seed) + ", " + name_of(plan.shape) +
               " keys: " + first + "\nshrunk to: " +
               (done.ok() ? "(passes when run again: the failure is not deterministic)"
                          : done.error().line()) +
               "\n" + describe(history));
}

template Result<void> compare_all<IntegerKeys>(OrderedIndex<IntegerKeys>&, bool,
                                               const Model<IntegerKeys>&,
                                               const std::vector<std::uint64_t>&);
template Result<void> compare_all<ByteKeys>(OrderedIndex<ByteKeys>&, bool, const Model<ByteKeys>&,
                                            const std::vector<std::string>&);
template Result<void> compare_all<SlotKeys>(OrderedIndex<SlotKeys>&, bool, const Model<SlotKeys>&,
                                            const std::vector<std::uint64_t>&);
template Result<void> run_differential<IntegerKeys>(const Target&, const HistoryPlan&, double);
template Result<void> run_differential<ByteKeys>(const Target&, const HistoryPlan&, double);
template Result<void> run_differential<SlotKeys>(const Target&, const HistoryPlan&, double);

}  // namespace perdure::testing
