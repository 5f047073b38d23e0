#include "workload/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace perdure::workload {
namespace {

/// What a broken index may do; each must be found out.
enum class Fault {
  none,
  lost_insert,       // insert says done and stores nothing
  refused_present,   // insert says exists on an absent key
  stale_value,       // update says done and keeps the old value
  swapped_value,     // lookup returns another key's value
  torn_value,        // lookup returns a damaged value
  missed_lookup,     // lookup says not found on a present key
  phantom_lookup,    // lookup finds an absent key
  false_remove,      // remove says done and removes nothing
  missed_remove,     // remove says not found on a present key
  short_scan,        // scan drops its last record
  skipping_scan,     // scan leaves out one record in the middle
  long_scan,         // scan returns one record too many
  unsorted_scan,     // scan swaps two records
  repeated_scan,     // scan returns a record twice
  early_scan,        // scan begins before its start
  wrong_scan_value,  // scan returns a damaged value
  foreign_scan_key,  // scan returns a key nobody inserted
};

template <class Key>
struct Record {
  Key key;
  Key value;
};

/// A right index under one lock, which goes wrong once in a while if told to. Owns its strings.
template <class Key>
class FaultyIndex {
 public:
  using Owned = std::conditional_t<std::is_same_v<Key, std::uint64_t>, std::uint64_t, std::string>;
  explicit FaultyIndex(Fault fault) : fault_(fault) {}

  Answer insert(Key key, Key value) {
    const std::lock_guard guard(lock_);
    const auto at = map_.find(Owned(key));
    if (at != map_.end()) return Answer::exists;
    if (strikes(Fault::refused_present)) return Answer::exists;
    if (!strikes(Fault::lost_insert)) map_.emplace(key, value);
    return Answer::done;
  }
  Answer upsert(Key key, Key value) {
    const std::lock_guard guard(lock_);
    map_.insert_or_assign(Owned(key), Owned(value));
    return Answer::done;
  }
  Answer update(Key key, Key value) {
    const std::lock_guard guard(lock_);
    const auto at = map_.find(Owned(key));
    if (at == map_.end()) return Answer::not_found;
    if (!strikes(Fault::stale_value)) at->second = Owned(value);
    return Answer::done;
  }
  Answer remove(Key key) {
    const std::lock_guard guard(lock_);
    const auto at = map_.find(Owned(key));
    if (at == map_.end()) return Answer::not_found;
    if (strikes(Fault::missed_remove)) return Answer::not_found;
    if (!strikes(Fault::false_remove)) map_.erase(at);
    return Answer::done;
  }
  Answer lookup(Key key, Owned& value) {
    const std::lock_guard guard(lock_);
    auto at = map_.find(Owned(key));
    if (at == map_.end()) {
      if (map_.empty() || !strikes(Fault::phantom_lookup)) return Answer::not_found;
      value = map_.begin()->second;
      return Answer::done;
    }
    if (strikes(Fault::missed_lookup)) return Answer::not_found;
    value = at->second;
    if (strikes(Fault::swapped_value))
      value = std::next(at) != map_.end() ? std::next(at)->second : map_.begin()->second;
    if (value == at->second && strikes(Fault::torn_value)) damage(value);
    return Answer::done;
  }
  std::vector<Record<Owned>> scan(Key from, std::size_t count) {
    const std::lock_guard guard(lock_);
    std::vector<Record<Owned>> out;
    auto at = map_.lower_bound(Owned(from));
    if (at != map_.begin() && strikes(Fault::early_scan)) --at;
    for (; at != map_.end() && out.size() < count; ++at) out.push_back({at->first, at->second});
    if (at != map_.end() && strikes(Fault::long_scan)) out.push_back({at->first, at->second});
    if (out.size() < 3) return out;
    if (strikes(Fault::short_scan)) out.pop_back();
    if (strikes(Fault::skipping_scan)) out.erase(out.begin() + 1);
    if (strikes(Fault::unsorted_scan)) std::swap(out[0], out[1]);
    if (strikes(Fault::repeated_scan)) {
      out.insert(out.begin(), out[0]);
      if (out.size() > count) out.pop_back();
    }
    if (strikes(Fault::wrong_scan_value)) damage(out[1].value);
    if (strikes(Fault::foreign_scan_key)) out[1].key = between(out[0].key);
    return out;
  }
  std::uint64_t strikes_so_far() const { return struck_; }

 private:
  static void damage(std::uint64_t& value) { value ^= 1ULL << 40; }
  static void damage(std::string& value) { value[value.size() / 2] ^= 1; }
  static std::uint64_t between(std::uint64_t key) { return key + 1; }
  static std::string between(std::string key) { return key + '\0'; }
  bool strikes(Fault fault) {
    if (fault != fault_ || ++chances_ % 5 != 0) return false;
    ++struck_;
    return true;
  }
  Fault fault_;
  std::uint64_t chances_ = 0;
  std::uint64_t struck_ = 0;
  std::mutex lock_;
  std::map<Owned, Owned> map_;
};

/// The loop of a driver that verifies.
template <class Key>
class Run {
 public:
  using Owned = typename FaultyIndex<Key>::Owned;
  Run(const Workload& workload, unsigned threads, Fault fault)
      : workload_(workload), threads_(threads), verifier_(workload, threads), index_(fault) {
    const KeySpace keys(workload);
    std::string room(keys.longest(), '\0');
    std::string text(workload.value_bytes, '\0');
    for (std::uint64_t id = 0; id < workload.records; ++id) {
      if constexpr (std::is_same_v<Key, std::uint64_t>) {
        index_.upsert(keys.word(id), verifier_.values().word(id, 0));
      } else {
        verifier_.values().write(verifier_.values().word(id, 0), text.data());
        index_.upsert(Key(room.data(), keys.write(id, room.data())), text);
      }
    }
  }

  Verifier::Summary operator()(std::uint64_t operations) {
    std::vector<std::thread> workers;
    for (unsigned t = 0; t < threads_; ++t)
      workers.emplace_back([this, t, operations] { work(t, operations); });
    for (std::thread& worker : workers) worker.join();
    FinalCheck final(verifier_);
    for (const auto& record : index_.scan(Key{}, ~std::size_t{0}))
      final.accept(Key(record.key), Key(record.value));
    final.finish();
    return verifier_.summary();
  }
  FaultyIndex<Key>& index() { return index_; }

 private:
  void work(unsigned thread, std::uint64_t operations) {
    OperationStream stream(workload_, {.thread = thread, .threads = threads_});
    stream.begin(0, operations);
    if constexpr (std::is_same_v<Key, std::uint64_t>) {
      std::vector<IntegerStep> block(128);
      while (const std::size_t got = stream.fill(block))
        for (std::size_t i = 0; i < got; ++i) step(block[i]);
    } else {
      BytesBlock block(workload_, 128, 1 << 20);
      while (stream.fill(block) != 0)
        for (const BytesStep& each : block.steps()) step(each);
    }
  }
  template <class Step>
  void step(const Step& step) {
    const Ticket ticket = verifier_.begin(step);
    Owned value{};
    if constexpr (std::is_same_v<Key, std::uint64_t>) {
      value = ticket.value_word;
    } else {
      value.resize(workload_.value_bytes);
      verifier_.values().write(ticket.value_word, value.data());
    }
    switch (step.operation) {
      case Operation::lookup:
      case Operation::lookup_negative: {
        const Answer answer = index_.lookup(step.key, value);
        verifier_.end_lookup(ticket, answer, Key(value));
        break;
      }
      case Operation::insert:
        verifier_.end(ticket, index_.insert(step.key, value));
        break;
      case Operation::upsert:
        verifier_.end(ticket, index_.upsert(step.key, value));
        break;
      case Operation::update:
        verifier_.end(ticket, index_.update(step.key, value));
        break;
      case Operation::remove:
        verifier_.end(ticket, index_.remove(step.key));
        break;
      case Operation::scan: {
        // As an index gives them: views for byte strings.
        const auto owned = index_.scan(step.key, step.scan_count);
        std::vector<Record<Key>> records;
        for (const auto& record : owned) records.push_back({Key(record.key), Key(record.value)});
        verifier_.end_scan(ticket, records);
        break;
      }
      case Operation::push:
      case Operation::pop:
        break;
    }
  }

  const Workload& workload_;
  unsigned threads_;
  Verifier verifier_;
  FaultyIndex<Key> index_;
};

Workload to_verify(const char* keys, const char* mix, std::uint64_t records,
                   const char* distribution = "uniform") {
  Workload workload;
  workload.records = records;
  workload.mix = parse_mix(mix).value();
  workload.keys = parse_keys(keys).value();
  workload.distribution = parse_distribution(distribution).value();
  workload.scan = {.min = 1, .max = 20};
  if (workload.is_bytes()) workload.value_bytes = 24;
  EXPECT_TRUE(validate(workload).ok());
  return workload;
}

Verifier::Summary run(const Workload& workload, unsigned threads, Fault fault,
                      std::uint64_t operations, std::uint64_t* struck = nullptr) {
  if (workload.is_bytes()) {
    Run<std::string_view> run(workload, threads, fault);
    const auto summary = run(operations);
    if (struck != nullptr) *struck = run.index().strikes_so_far();
    return summary;
  }
  Run<std::uint64_t> run(workload, threads, fault);
  const auto summary = run(operations);
  if (struck != nullptr) *struck = run.index().strikes_so_far();
  return summary;
}

std::string first_of(const Verifier::Summary& summary) {
  return summary.examples.empty() ? std::string("nothing") : summary.examples.front();
}

constexpr const char* every_operation =
    "lookup=0.3,lookup_negative=0.05,insert=0.15,upsert=0.1,update=0.15,remove=0.15,scan=0.1";
constexpr const char* no_upserts =
    "lookup=0.35,lookup_negative=0.1,insert=0.15,update=0.15,remove=0.15,scan=0.1";

TEST(Verifier, AcceptsEveryAnswerOfARightIndex) {
  for (const char* keys : {"mixed", "sequential", "prefixed:user", "random:8-40"})
    for (const char* distribution : {"uniform", "zipfian:1.2", "latest"})
      for (const unsigned threads : {1U, 4U})
        for (const std::uint64_t records : {0U, 3U, 2'000U}) {
          const Workload workload = to_verify(keys, every_operation, records, distribution);
          const auto summary = run(workload, threads, Fault::none, 12'000);
          EXPECT_EQ(summary.wrong, 0U) << keys << ' ' << distribution << ' ' << threads
                                       << " threads, " << records << ": " << first_of(summary);
          EXPECT_GE(summary.checked, 12'000U);
        }
}

TEST(Verifier, AcceptsHeavyContentionOnFewKeys) {  // V2, V4
  for (const char* mix : {"lookup=0.5,update=0.5", "lookup=0.4,upsert=0.3,remove=0.3",
                          "lookup=0.3,upsert=0.2,update=0.2,remove=0.2,scan=0.1"}) {
    const Workload workload = to_verify("mixed", mix, 8);
    const auto summary = run(workload, 8, Fault::none, 100'000);
    EXPECT_EQ(summary.wrong, 0U) << mix << ": " << first_of(summary);
  }
}

TEST(Verifier, FindsEveryFaultOfASingleThread) {
  for (const char* keys : {"mixed", "random:8-40"})
    for (int fault = 1; fault <= static_cast<int>(Fault::foreign_scan_key); ++fault) {
      const Workload workload = to_verify(keys, no_upserts, 300);
      std::uint64_t struck = 0;
      const auto summary = run(workload, 1, static_cast<Fault>(fault), 4'000, &struck);
      EXPECT_GT(struck, 0U) << keys << " fault " << fault;
      // A later update may hide that one was lost; nothing hides the other faults.
      const bool may_hide = static_cast<Fault>(fault) == Fault::stale_value;
      EXPECT_GE(summary.wrong, may_hide ? 1 : struck) << keys << " fault " << fault;
      EXPECT_LE(summary.wrong, summary.checked) << keys << " fault " << fault;
      EXPECT_FALSE(summary.examples.empty());
      EXPECT_LE(summary.examples.size(), 10U);
    }
}

TEST(Verifier, FindsFaultsOfSeveralThreads) {
  for (const Fault fault :
       {Fault::lost_insert, Fault::refused_present, Fault::stale_value, Fault::swapped_value,
        Fault::torn_value, Fault::missed_lookup, Fault::phantom_lookup, Fault::false_remove,
        Fault::missed_remove, Fault::skipping_scan, Fault::short_scan, Fault::unsorted_scan,
        Fault::repeated_scan, Fault::early_scan, Fault::long_scan, Fault::wrong_scan_value,
        Fault::foreign_scan_key}) {
    const Workload workload = to_verify("mixed", no_upserts, 300);
    const auto summary = run(workload, 4, fault, 12'000);
    EXPECT_GT(summary.wrong, 0U) << static_cast<int>(fault);
    EXPECT_LE(summary.wrong, summary.checked) << static_cast<int>(fault);
  }
}

TEST(Verifier, CountsExactlyTheWrongLookups) {
  const Workload workload = to_verify("mixed", "lookup=1", 100);
  std::uint64_t struck = 0;
  const auto summary = run(workload, 1, Fault::torn_value, 1'000, &struck);
  EXPECT_EQ(struck, 200U);
  EXPECT_EQ(summary.wrong, struck);
  EXPECT_EQ(summary.checked, 1'100U);  // and the full scan
}

// However much is wrong with a record, it is one answer, and so is a key that is not there.
TEST(Verifier, CountsNoMoreWrongAnswersThanThereAre) {
  const Workload workload = to_verify("mixed", "lookup=1", 100);
  const KeySpace keys(workload);
  Verifier lost(workload, 1);
  EXPECT_FALSE(FinalCheck(lost).finish());
  EXPECT_EQ(lost.summary().checked, 100U);
  EXPECT_EQ(lost.summary().wrong, 100U);

  Verifier disordered(workload, 1);
  FinalCheck check(disordered);
  std::vector<std::uint64_t> descending;
  for (std::uint64_t id = 0; id < 100; ++id) descending.push_back(keys.word(id));
  std::ranges::sort(descending, std::greater{});
  for (const std::uint64_t key : descending) check.accept(key, key + 1);  // and the values are torn
  EXPECT_FALSE(check.finish());
  EXPECT_EQ(disordered.summary().checked, 100U);
  EXPECT_EQ(disordered.summary().wrong, 100U);

  Verifier foreign(workload, 1);
  foreign.forget_loaded();
  for (std::uint64_t key = 0; key < 50; ++key) foreign.adopt(key, key);
  EXPECT_EQ(foreign.summary().checked, 50U);
  EXPECT_LE(foreign.summary().wrong, 50U);
  EXPECT_GT(foreign.summary().wrong, 0U);
  foreign.report("size() is another");
  EXPECT_EQ(foreign.summary().checked, 51U);
}

class VerifierSteps : public testing::Test {
 protected:
  IntegerStep step(Operation operation, std::uint64_t id) {
    return {keys_.word(id), 0, 0, operation};
  }
  std::uint64_t word(std::uint64_t id, std::uint64_t version) { return values_.word(id, version); }

  Workload workload_ = to_verify("mixed", "lookup=1", 10);
  KeySpace keys_{workload_};
  ValueCodec values_{workload_};
  Verifier verifier_{workload_, 2};
};

TEST_F(VerifierSteps, AReadMaySeeWritesUnderWayButNoneBegunLater) {  // V3
  const Ticket early = verifier_.begin(step(Operation::lookup, 1));
  const Ticket write = verifier_.begin(step(Operation::update, 1));
  EXPECT_EQ(write.value_word, word(1, 1));
  EXPECT_TRUE(
      verifier_.end_lookup(verifier_.begin(step(Operation::lookup, 1)), Answer::done, word(1, 0)));
  EXPECT_TRUE(
      verifier_.end_lookup(verifier_.begin(step(Operation::lookup, 1)), Answer::done, word(1, 1)));
  EXPECT_FALSE(
      verifier_.end_lookup(verifier_.begin(step(Operation::lookup, 1)), Answer::done, word(1, 2)));
  EXPECT_TRUE(verifier_.end(write, Answer::done));
  // It began before the write ended, so the old value is still right.
  EXPECT_TRUE(verifier_.end_lookup(early, Answer::done, word(1, 0)));
  EXPECT_FALSE(
      verifier_.end_lookup(verifier_.begin(step(Operation::lookup, 1)), Answer::done, word(1, 0)));
  EXPECT_TRUE(
      verifier_.end_lookup(verifier_.begin(step(Operation::lookup, 1)), Answer::done, word(1, 1)));
}

TEST_F(VerifierSteps, OverlappingWritesMayLandInAnyOrder) {  // V2
  const Ticket a = verifier_.begin(step(Operation::update, 2));
  const Ticket b = verifier_.begin(step(Operation::update, 2));
  EXPECT_TRUE(verifier_.end(a, Answer::done));
  EXPECT_TRUE(verifier_.end(b, Answer::done));
  EXPECT_TRUE(
      verifier_.end_lookup(verifier_.begin(step(Operation::lookup, 2)), Answer::done, word(2, 1)));
  EXPECT_TRUE(
      verifier_.end_lookup(verifier_.begin(step(Operation::lookup, 2)), Answer::done, word(2, 2)));
  EXPECT_FALSE(
      verifier_.end_lookup(verifier_.begin(step(Operation::lookup, 2)), Answer::done, word(2, 0)));
  EXPECT_TRUE(verifier_.end(verifier_.begin(step(Operation::update, 2)), Answer::done));
  EXPECT_FALSE(
      verifier_.end_lookup(verifier_.begin(step(Operation::lookup, 2)), Answer::done, word(2, 2)));
  EXPECT_TRUE(
      verifier_.end_lookup(verifier_.begin(step(Operation::lookup, 2)), Answer::done, word(2, 3)));
}

TEST_F(VerifierSteps, AFailedWriteIsNeverRead) {  // V3
  EXPECT_TRUE(verifier_.end(verifier_.begin(step(Operation::update, 3)), Answer::refused));
  EXPECT_FALSE(
      verifier_.end_lookup(verifier_.begin(step(Operation::lookup, 3)), Answer::done, word(3, 1)));
  EXPECT_TRUE(
      verifier_.end_lookup(verifier_.begin(step(Operation::lookup, 3)), Answer::done, word(3, 0)));
}

TEST_F(VerifierSteps, InsertsAndRemovesMustAlternate) {  // V4
  const Ticket a = verifier_.begin(step(Operation::insert, 20));
  const Ticket b = verifier_.begin(step(Operation::insert, 20));
  EXPECT_TRUE(verifier_.end(a, Answer::done));
  EXPECT_FALSE(verifier_.end(b, Answer::done));  // both cannot have added it

  const Ticket c = verifier_.begin(step(Operation::remove, 4));
  const Ticket d = verifier_.begin(step(Operation::insert, 4));
  EXPECT_TRUE(verifier_.end(c, Answer::done));
  EXPECT_TRUE(verifier_.end(d, Answer::done));  // removed, then inserted: present
  EXPECT_FALSE(
      verifier_.end_lookup(verifier_.begin(step(Operation::lookup, 4)), Answer::not_found, 0));
  EXPECT_TRUE(
      verifier_.end_lookup(verifier_.begin(step(Operation::lookup, 4)), Answer::done, word(4, 1)));

  EXPECT_FALSE(verifier_.end(verifier_.begin(step(Operation::insert, 5)), Answer::done));
  EXPECT_TRUE(verifier_.end(verifier_.begin(step(Operation::insert, 6)), Answer::exists));
  EXPECT_FALSE(verifier_.end(verifier_.begin(step(Operation::insert, 30)), Answer::exists));
  EXPECT_FALSE(verifier_.end(verifier_.begin(step(Operation::upsert, 6)), Answer::exists));
  EXPECT_FALSE(verifier_.end(verifier_.begin(step(Operation::remove, 31)), Answer::done));
  EXPECT_TRUE(verifier_.end(verifier_.begin(step(Operation::remove, 31)), Answer::not_found));
}

TEST_F(VerifierSteps, AnUpsertThatMetARemoveLeavesEitherUntilItIsSeen) {  // V4
  const Ticket a = verifier_.begin(step(Operation::upsert, 7));
  const Ticket b = verifier_.begin(step(Operation::remove, 7));
  EXPECT_TRUE(verifier_.end(a, Answer::done));
  EXPECT_TRUE(verifier_.end(b, Answer::done));
  EXPECT_TRUE(
      verifier_.end_lookup(verifier_.begin(step(Operation::lookup, 7)), Answer::not_found, 0));
  EXPECT_FALSE(
      verifier_.end_lookup(verifier_.begin(step(Operation::lookup, 7)), Answer::done, word(7, 1)));
}

TEST_F(VerifierSteps, AdoptsWhatAnEarlierRunLeft) {
  verifier_.forget_loaded();
  verifier_.adopt(keys_.word(3), word(3, 77));
  verifier_.adopt(keys_.word(1'000), word(1'000, 5));
  EXPECT_EQ(verifier_.summary().wrong, 0U);
  EXPECT_TRUE(
      verifier_.end_lookup(verifier_.begin(step(Operation::lookup, 3)), Answer::done, word(3, 77)));
  EXPECT_FALSE(
      verifier_.end_lookup(verifier_.begin(step(Operation::lookup, 3)), Answer::done, word(3, 0)));
  EXPECT_TRUE(
      verifier_.end_lookup(verifier_.begin(step(Operation::lookup, 4)), Answer::not_found, 0));
  EXPECT_EQ(verifier_.begin(step(Operation::update, 3)).value_word, word(3, 78));
  verifier_.adopt(keys_.word(4), std::uint64_t{12345});
  verifier_.adopt(keys_.word(first_absent_id), word(first_absent_id, 0));
  EXPECT_EQ(verifier_.summary().wrong, 3U);
}

TEST_F(VerifierSteps, TheFinalCheckNamesMissingAndForeignKeys) {
  std::map<std::uint64_t, std::uint64_t> records;
  for (std::uint64_t id = 0; id < 10; ++id) records[keys_.word(id)] = word(id, 0);
  const auto check = [&] {
    FinalCheck final(verifier_);
    for (const auto& [key, value] : records) final.accept(key, value);
    return final.finish();
  };
  EXPECT_TRUE(check());
  records.erase(keys_.word(5));
  EXPECT_FALSE(check());
  const auto summary = verifier_.summary();
  EXPECT_EQ(summary.wrong, 1U);
  EXPECT_EQ(summary.examples.at(0),
            "full scan key " + std::to_string(keys_.word(5)) + ": expected it, got nothing");
  records[keys_.word(5)] = word(5, 0);
  records[keys_.word(11)] = word(11, 0);
  EXPECT_FALSE(check());
  records.erase(keys_.word(11));
  records[keys_.word(2)] = word(2, 9);
  EXPECT_FALSE(check());
}

// Integer keys with byte strings as values: each is judged by its own rules.
TEST(Verifier, ChecksSlotsByTheirKeysAndTheirText) {
  Workload workload = to_verify("mixed", "update=1", 10);
  workload.value_bytes = 40;
  Verifier verifier(workload, 1);
  const std::uint64_t key = verifier.keys().word(3);
  const SlotStep step{key, {}, 0, Operation::update};
  const Ticket ticket = verifier.begin(step);
  std::string value(40, '\0');
  verifier.values().write(ticket.value_word, value.data());
  EXPECT_TRUE(verifier.end(ticket, Answer::done));
  const auto looks_up = [&](std::string_view found) {
    const SlotStep lookup{key, {}, 0, Operation::lookup};
    return verifier.end_lookup(verifier.begin(lookup), Answer::done, found);
  };
  EXPECT_TRUE(looks_up(value));
  std::string torn = value;
  torn[30] = static_cast<char>(torn[30] ^ 1);
  EXPECT_FALSE(looks_up(torn));
  EXPECT_FALSE(looks_up(std::string_view(value).substr(1)));
  FinalCheck check(verifier);
  check.accept(key, std::string_view(torn));
  EXPECT_FALSE(check.finish());
}

}  // namespace
}  // namespace perdure::workload
