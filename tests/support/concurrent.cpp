#include "support/concurrent.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "support/differential.h"
#include "support/linearizability.h"

namespace perdure::testing {
namespace {

/// Runs `work(thread, report)` on all threads at once; keeps the first report.
class Crew {
 public:
  using Report = std::string;

  template <class Work>
  Result<void> run(unsigned threads, Work&& work) {
    std::vector<std::thread> crew;
    for (unsigned t = 0; t < threads; ++t)
      crew.emplace_back([&, t] {
        ready_.fetch_add(1);
        while (ready_.load() < threads) std::this_thread::yield();
        Report problem = work(t);
        if (problem.empty()) return;
        const std::lock_guard guard(lock_);
        if (problem_.empty()) problem_ = "thread " + std::to_string(t) + ": " + problem;
        failed_ = true;
      });
    for (std::thread& thread : crew) thread.join();
    if (problem_.empty()) return {};
    return Error{ErrorCode::failed, problem_, "", ""};
  }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  std::atomic<unsigned> ready_{0};
  std::atomic<bool> failed_{false};
  std::mutex lock_;
  Report problem_;
};

std::string unlike(const char* operation, std::uint64_t number, Outcome got, Outcome wanted) {
  if (got == wanted) return "";
  return std::string(operation) + " of key " + std::to_string(number) + " said " + name_of(got) +
         " where " + name_of(wanted) + " is right";
}

/// Ascending, each key once.
template <class Keys>
std::string check_order(const typename Keys::Scan& scan) {
  for (std::size_t i = 1; i < scan.size(); ++i)
    if (!(scan[i - 1].key < scan[i].key))
      return "scan shows " + Samples<Keys>::show(scan[i].key) + " after " +
             Samples<Keys>::show(scan[i - 1].key);
  return "";
}

template <class Keys>
class Owner {
 public:
  using Sample = Samples<Keys>;

  Owner(Bed<Keys>& bed, const ConcurrentPlan& plan, unsigned thread)
      : index_(bed.index()),
        ordered_(bed.target().info->ordered),
        replaces_(bed.target().info->replaces),
        plan_(plan),
        thread_(thread),
        rng_(plan.seed, thread) {}

  std::string step() {
    const std::uint64_t number = rng_.below(plan_.keys / plan_.threads) * plan_.threads + thread_;
    const auto key = Sample::numbered(number);
    const auto found = mine_.find(number);
    const bool present = found != mine_.end();
    const std::uint64_t stamp = ++stamp_ * plan_.threads + thread_;
    // Growing and shrinking in turns, at other times in every thread.
    const bool growing = (stamp_ / 300 + thread_) % 2 == 0;
    const std::uint64_t draw = rng_.below(100);
    if (draw < 5) return batch(growing);
    if (draw < 30) return growing ? insert(number, present, stamp) : remove(number, present);
    if (draw < 40) return growing ? remove(number, present) : insert(number, present, stamp);
    if (draw < 65 && !replaces_) return lookup(number);
    if (draw < 55) {
      if (present) mine_[number] = stamp;
      return unlike("update", number, index_.update(key, Sample::stamped(stamp)),
                    present ? Outcome::ok : Outcome::not_found);
    }
    if (draw < 65) {
      mine_[number] = stamp;
      return unlike("upsert", number, index_.upsert(key, Sample::stamped(stamp)), Outcome::ok);
    }
    if (draw < 85) return lookup(number);
    return ordered_ ? scan(number, 1 + rng_.below(60)) : lookup(number);
  }

  [[nodiscard]] const std::map<std::uint64_t, std::uint64_t>& mine() const { return mine_; }

 private:
  std::string insert(std::uint64_t number, bool present, std::uint64_t stamp) {
    if (!present) mine_[number] = stamp;
    return unlike("insert", number, index_.insert(Sample::numbered(number), Sample::stamped(stamp)),
                  present ? Outcome::exists : Outcome::ok);
  }
  std::string remove(std::uint64_t number, bool present) {
    mine_.erase(number);
    return unlike("remove", number, index_.remove(Sample::numbered(number)),
                  present ? Outcome::ok : Outcome::not_found);
  }
  /// A batch of own keys, the last of which it has twice.
  std::string batch(bool growing) {
    constexpr std::size_t size = 8;
    std::vector<std::uint64_t> numbers;
    std::vector<typename Sample::Key> own_keys;
    std::vector<typename Sample::Value> own_values;
    std::vector<Outcome> wanted;
    const bool replaces = replaces_ && rng_.below(2) == 0;
    for (std::size_t i = 0; i < size; ++i) {
      const bool again = i + 1 == size;
      numbers.push_back(again ? numbers.back()
                              : rng_.below(plan_.keys / plan_.threads) * plan_.threads + thread_);
      const std::uint64_t stamp = ++stamp_ * plan_.threads + thread_;
      own_keys.push_back(Sample::numbered(numbers.back()));
      own_values.push_back(Sample::stamped(stamp));
      const bool present = mine_.contains(numbers.back());
      if (growing)
        wanted.push_back(present && !replaces ? Outcome::exists : Outcome::ok);
      else
        wanted.push_back(present ? Outcome::ok : Outcome::not_found);
      if (growing ? replaces || !present : replaces && present)
        mine_[numbers.back()] = stamp;
      else if (!growing && !replaces)
        mine_.erase(numbers.back());
    }
    const std::vector<typename Keys::Key> keys(own_keys.begin(), own_keys.end());
    const std::vector<typename Keys::Value> values(own_values.begin(), own_values.end());
    std::vector<Outcome> outcomes(size, Outcome::invalid);
    if (growing)
      replaces ? index_.upsert_batch(keys, values, outcomes)
               : index_.insert_batch(keys, values, outcomes);
    else
      replaces ? index_.update_batch(keys, values, outcomes) : index_.remove_batch(keys, outcomes);
    for (std::size_t i = 0; i < size; ++i)
      if (auto problem = unlike("batch", numbers[i], outcomes[i], wanted[i]); !problem.empty())
        return problem;
    return "";
  }
  std::string lookup(std::uint64_t number) {
    const auto found = mine_.find(number);
    const Outcome outcome = index_.lookup(Sample::numbered(number), value_);
    if (found == mine_.end()) return unlike("lookup", number, outcome, Outcome::not_found);
    if (outcome == Outcome::ok && Sample::stamp_of(value_) != found->second)
      return "lookup of key " + std::to_string(number) + " found a wrong value";
    return unlike("lookup", number, outcome, Outcome::ok);
  }
  std::string scan(std::uint64_t from, std::size_t count) {
    scan_.clear();
    index_.scan(Sample::numbered(from), count, scan_);
    if (auto problem = check_order<Keys>(scan_); !problem.empty()) return problem;
    auto expected = mine_.lower_bound(from);
    for (std::size_t i = 0; i < scan_.size(); ++i) {
      const std::uint64_t number = Sample::number_of(scan_[i].key);
      if (number < from)
        return "scan from " + std::to_string(from) + " shows " + std::to_string(number);
      if (number % plan_.threads != thread_) continue;
      if (expected == mine_.end() || expected->first != number)
        return "scan shows key " + std::to_string(number) +
               ", which is absent, or misses one before";
      if (Sample::stamp_of(scan_[i].value) != expected->second)
        return "scan shows a wrong value of key " + std::to_string(number);
      ++expected;
    }
    if (scan_.size() < count && expected != mine_.end())
      return "scan ended before key " + std::to_string(expected->first);
    return "";
  }

  OrderedIndex<Keys>& index_;
  const bool ordered_;
  const bool replaces_;
  const ConcurrentPlan& plan_;
  const unsigned thread_;
  Rng rng_;
  std::uint64_t stamp_ = 0;
  std::map<std::uint64_t, std::uint64_t> mine_;
  typename Keys::ValueOut value_{};
  typename Keys::Scan scan_;
};

Result<void> tell_seed(Result<void> done, const Target& target, const ConcurrentPlan& plan) {
  if (done.ok()) return done;
  Error error = done.error();
  error.where = target.name() + ", seed " + std::to_string(plan.seed);
  return error;
}

}  // namespace

template <class Keys>
Result<void> check_owned_keys(Bed<Keys>& bed, const ConcurrentPlan& plan) {
  std::vector<std::unique_ptr<Owner<Keys>>> owners;
  for (unsigned t = 0; t < plan.threads; ++t)
    owners.push_back(std::make_unique<Owner<Keys>>(bed, plan, t));
  Crew crew;
  auto done = crew.run(plan.threads, [&](unsigned t) -> std::string {
    for (std::uint64_t i = 0; i < plan.operations && !crew.failed(); ++i)
      if (auto problem = owners[t]->step(); !problem.empty())
        return "operation " + std::to_string(i) + ": " + problem;
    return "";
  });
  if (!done.ok()) return tell_seed(std::move(done), bed.target(), plan);
  std::map<typename Samples<Keys>::Key, typename Samples<Keys>::Value> model;
  std::vector<typename Samples<Keys>::Key> universe;
  for (const auto& owner : owners)
    for (const auto& [number, stamp] : owner->mine())
      model[Samples<Keys>::numbered(number)] = Samples<Keys>::stamped(stamp);
  for (std::uint64_t i = 0; i < plan.keys; ++i) universe.push_back(Samples<Keys>::numbered(i));
  bed.index().quiesce();
  return tell_seed(compare_all(bed.index(), bed.target().info->ordered, model, universe),
                   bed.target(), plan);
}

template <class Keys>
Result<void> check_contended_keys(Bed<Keys>& bed, const ConcurrentPlan& plan) {
  using Sample = Samples<Keys>;
  struct Logged {
    std::uint64_t number;
    KeyEvent event;
  };
  std::atomic<std::uint64_t> clock{0};
  std::vector<std::vector<Logged>> logs(plan.threads);
  Crew crew;
  auto done = crew.run(plan.threads, [&](unsigned t) -> std::string {
    Rng rng(plan.seed, t);
    typename Keys::ValueOut value{};
    OrderedIndex<Keys>& index = bed.index();
    logs[t].reserve(plan.operations);
    for (std::uint64_t i = 0; i < plan.operations; ++i) {
      const std::uint64_t number = rng.below(plan.keys);
      const auto key = Sample::numbered(number);
      const auto drawn = static_cast<KeyOperation>(rng.below(5));
      const bool offered = bed.target().info->replaces ||
                           (drawn != KeyOperation::upsert && drawn != KeyOperation::update);
      KeyEvent event{offered ? drawn : KeyOperation::insert, Outcome::ok, i * plan.threads + t, 0,
                     0};
      const auto written = Sample::stamped(event.stamp);
      event.called = clock.fetch_add(1);
      switch (event.operation) {
        case KeyOperation::insert:
          event.outcome = index.insert(key, written);
          break;
        case KeyOperation::upsert:
          event.outcome = index.upsert(key, written);
          break;
        case KeyOperation::update:
          event.outcome = index.update(key, written);
          break;
        case KeyOperation::remove:
          event.outcome = index.remove(key);
          break;
        case KeyOperation::lookup:
          event.outcome = index.lookup(key, value);
          break;
      }
      event.returned = clock.fetch_add(1);
      if (event.operation == KeyOperation::lookup && event.outcome == Outcome::ok) {
        event.stamp = Sample::stamp_of(value);
        if (event.stamp == bad_stamp) return "lookup returned a torn value";
      }
      logs[t].push_back({number, event});
    }
    return "";
  });
  std::vector<std::vector<KeyEvent>> histories(plan.keys);
  for (const auto& log : logs)
    for (const Logged& logged : log) histories[logged.number].push_back(logged.event);
  for (const auto& history : histories)
    if (done.ok()) done = check_linearizable(history);
  bed.index().quiesce();
  if (done.ok()) done = bed.index().check_invariants();
  return tell_seed(std::move(done), bed.target(), plan);
}

namespace {

/// Even numbers are present, odd ones are not.
template <class Keys>
std::string refuse(OrderedIndex<Keys>& index, bool replaces, std::uint64_t number) {
  using Sample = Samples<Keys>;
  const auto key = Sample::numbered(number);
  if (number % 2 == 0)
    return unlike("insert", number, index.insert(key, Sample::stamped(number)), Outcome::exists);
  std::string problem;
  if (replaces)
    problem =
        unlike("update", number, index.update(key, Sample::stamped(number)), Outcome::not_found);
  return problem.empty() ? unlike("remove", number, index.remove(key), Outcome::not_found)
                         : problem;
}

/// Finds all even numbers in each way there is.
template <class Keys>
std::string find_even(OrderedIndex<Keys>& index, bool ordered, std::uint64_t keys) {
  using Sample = Samples<Keys>;
  std::vector<typename Sample::Key> owned;
  for (std::uint64_t number = 0; number < keys; number += 2)
    owned.push_back(Sample::numbered(number));
  const std::vector<typename Keys::Key> wanted(owned.begin(), owned.end());
  std::vector<typename Keys::ValueOut> values(wanted.size());
  std::vector<Outcome> outcomes(wanted.size(), Outcome::invalid);
  for (std::size_t i = 0; i < wanted.size(); ++i) outcomes[i] = index.lookup(wanted[i], values[i]);
  for (const char* way : {"lookup", "lookup_batch"}) {
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (outcomes[i] != Outcome::ok || Sample::stamp_of(values[i]) != 2 * i)
        return std::string(way) + " misses key " + std::to_string(2 * i) +
               ", which is always present";
    index.lookup_batch(wanted, values, outcomes);
  }
  typename Keys::Scan scan;
  if (ordered && index.scan(typename Keys::Key{}, keys, scan) != wanted.size())
    return "scan shows " + std::to_string(scan.size()) + " of " + std::to_string(wanted.size()) +
           " records";
  return "";
}

}  // namespace

template <class Keys>
Result<void> check_refused_changes(Bed<Keys>& bed, const ConcurrentPlan& plan) {
  using Sample = Samples<Keys>;
  for (std::uint64_t number = 0; number < plan.keys; number += 2)
    if (bed.index().insert(Sample::numbered(number), Sample::stamped(number)) != Outcome::ok)
      return Error{ErrorCode::failed, "cannot insert the keys", bed.target().name(), ""};
  const bool ordered = bed.target().info->ordered;
  const unsigned writers = std::max(1U, plan.threads / 2);
  std::atomic<unsigned> writing{writers};
  Crew crew;
  auto done = crew.run(plan.threads, [&](unsigned t) -> std::string {
    Rng rng(plan.seed, t);
    std::string problem;
    if (t >= writers) {
      while (writing.load() > 0 && problem.empty())
        problem = find_even(bed.index(), ordered, plan.keys);
      return problem;
    }
    for (std::uint64_t i = 0; i < plan.operations && problem.empty() && !crew.failed(); ++i)
      problem = refuse(bed.index(), bed.target().info->replaces, rng.below(plan.keys));
    writing.fetch_sub(1);
    return problem;
  });
  return tell_seed(std::move(done), bed.target(), plan);
}

namespace {

constexpr std::uint64_t fixed_every = 8;  ///< every 8th key is always present

template <class Keys>
std::string churn_once(OrderedIndex<Keys>& index, Churn churn, const ConcurrentPlan& plan,
                       unsigned writer, unsigned writers, std::uint64_t i, Rng& rng) {
  using Sample = Samples<Keys>;
  const auto number_at = [&](std::uint64_t place) {  // never a fixed key, never another writer's
    return place / (fixed_every - 1) * fixed_every + 1 + place % (fixed_every - 1);
  };
  const std::uint64_t places = plan.keys / fixed_every * (fixed_every - 1) / writers;
  const auto mine = [&](std::uint64_t place) {
    return number_at(place % places * writers + writer);
  };
  switch (churn) {
    case Churn::ascending: {
      const std::uint64_t number = mine(i);
      const bool inserting = i / places % 2 == 0;
      return inserting
                 ? unlike("insert", number,
                          index.insert(Sample::numbered(number), Sample::stamped(number)),
                          Outcome::ok)
                 : unlike("remove", number, index.remove(Sample::numbered(number)), Outcome::ok);
    }
    case Churn::random: {
      const std::uint64_t number = mine(rng.below(places));
      const Outcome outcome = rng.below(2) == 0
                                  ? index.insert(Sample::numbered(number), Sample::stamped(number))
                                  : index.remove(Sample::numbered(number));
      if (outcome == Outcome::ok || outcome == Outcome::not_found || outcome == Outcome::exists)
        return "";
      return unlike("churn", number, outcome, Outcome::ok);
    }
    case Churn::empty_leaves: {
      // Sixteen leaves' worth goes and comes back, run after run.
      const std::uint64_t run = std::min<std::uint64_t>(places, 96);
      const std::uint64_t at = i / (2 * run) * run + i % run;
      const std::uint64_t number = mine(at);
      return i / run % 2 == 0
                 ? unlike("insert", number,
                          index.insert(Sample::numbered(number), Sample::stamped(number)),
                          Outcome::ok)
                 : unlike("remove", number, index.remove(Sample::numbered(number)), Outcome::ok);
    }
  }
  return "";
}

template <class Keys>
std::string read_fixed(OrderedIndex<Keys>& index, bool ordered, std::uint64_t keys, Rng& rng,
                       typename Keys::Scan& scan, typename Keys::ValueOut& value) {
  using Sample = Samples<Keys>;
  const std::uint64_t first = rng.below(keys / fixed_every) * fixed_every;
  const Outcome outcome = index.lookup(Sample::numbered(first), value);
  if (outcome != Outcome::ok || Sample::stamp_of(value) != first)
    return "lookup misses key " + std::to_string(first) + ", which is always present";
  if (!ordered) return "";
  const std::size_t count = 1 + rng.below(200);
  scan.clear();
  index.scan(Sample::numbered(first), count, scan);
  if (auto problem = check_order<Keys>(scan); !problem.empty()) return problem;
  std::uint64_t expected = first;
  for (std::size_t i = 0; i < scan.size(); ++i) {
    const std::uint64_t number = Sample::number_of(scan[i].key);
    if (Sample::stamp_of(scan[i].value) != number)
      return "scan shows a wrong value of key " + std::to_string(number);
    if (number > expected || (number % fixed_every == 0 && number != expected))
      return "scan from " + std::to_string(first) + " skips key " + std::to_string(expected) +
             ", which is always present";
    if (number == expected) expected += fixed_every;
  }
  if (scan.size() < count && expected < keys)
    return "scan ended before key " + std::to_string(expected);
  return "";
}

}  // namespace

template <class Keys>
Result<void> check_scans_during(Bed<Keys>& bed, Churn churn, const ConcurrentPlan& plan) {
  using Sample = Samples<Keys>;
  for (std::uint64_t i = 0; i < plan.keys; i += fixed_every)
    if (bed.index().insert(Sample::numbered(i), Sample::stamped(i)) != Outcome::ok)
      return Error{ErrorCode::failed, "cannot insert the fixed keys", bed.target().name(), ""};
  const unsigned writers = plan.threads / 2 > 0 ? plan.threads / 2 : 1;
  std::atomic<unsigned> writing{writers};
  Crew crew;
  auto done = crew.run(plan.threads, [&](unsigned t) -> std::string {
    Rng rng(plan.seed, t);
    if (t < writers) {
      std::string problem;
      for (std::uint64_t i = 0; i < plan.operations && problem.empty() && !crew.failed(); ++i)
        problem = churn_once(bed.index(), churn, plan, t, writers, i, rng);
      writing.fetch_sub(1);
      return problem;
    }
    typename Keys::Scan scan;
    typename Keys::ValueOut value{};
    const bool ordered = bed.target().info->ordered;
    std::string problem;
    while (writing.load() > 0 && problem.empty())
      problem = read_fixed(bed.index(), ordered, plan.keys, rng, scan, value);
    return problem;
  });
  bed.index().quiesce();
  if (done.ok()) done = bed.index().check_invariants();
  return tell_seed(std::move(done), bed.target(), plan);
}

template Result<void> check_owned_keys(Bed<IntegerKeys>&, const ConcurrentPlan&);
template Result<void> check_owned_keys(Bed<ByteKeys>&, const ConcurrentPlan&);
template Result<void> check_owned_keys(Bed<SlotKeys>&, const ConcurrentPlan&);
template Result<void> check_contended_keys(Bed<IntegerKeys>&, const ConcurrentPlan&);
template Result<void> check_contended_keys(Bed<ByteKeys>&, const ConcurrentPlan&);
template Result<void> check_contended_keys(Bed<SlotKeys>&, const ConcurrentPlan&);
template Result<void> check_refused_changes(Bed<IntegerKeys>&, const ConcurrentPlan&);
template Result<void> check_refused_changes(Bed<ByteKeys>&, const ConcurrentPlan&);
template Result<void> check_refused_changes(Bed<SlotKeys>&, const ConcurrentPlan&);
template Result<void> check_scans_during(Bed<IntegerKeys>&, Churn, const ConcurrentPlan&);
template Result<void> check_scans_during(Bed<ByteKeys>&, Churn, const ConcurrentPlan&);
template Result<void> check_scans_during(Bed<SlotKeys>&, Churn, const ConcurrentPlan&);

}  // namespace perdure::testing
