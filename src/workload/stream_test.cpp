#include "workload/stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace perdure::workload {
namespace {

Workload workload_of(const char* mix, const char* distribution = "uniform",
                     std::uint64_t records = 1000) {
  Workload workload;
  workload.records = records;
  workload.mix = parse_mix(mix).value();
  workload.distribution = parse_distribution(distribution).value();
  EXPECT_TRUE(validate(workload).ok());
  return workload;
}

struct Done {
  Operation operation;
  std::uint64_t id;
  std::uint32_t scan_count;
  friend bool operator==(const Done&, const Done&) = default;
};

/// The next steps of a stream by id, `most` at most.
std::vector<Done> take(OperationStream& stream, const Workload& workload, std::size_t most,
                       std::size_t block_steps = 64) {
  const KeySpace keys(workload);
  std::vector<Done> all;
  while (all.size() < most) {
    const std::size_t wanted = std::min(block_steps, most - all.size());
    if (workload.is_bytes()) {
      BytesBlock block(workload, wanted, 1 << 20);
      if (stream.fill(block) == 0) break;
      for (const BytesStep& step : block.steps())
        all.push_back({step.operation, keys.id_of(step.key).value(), step.scan_count});
    } else {
      std::vector<IntegerStep> block(wanted);
      const std::size_t got = stream.fill(block);
      if (got == 0) break;
      for (std::size_t i = 0; i < got; ++i)
        all.push_back({block[i].operation, keys.id_of(block[i].key), block[i].scan_count});
    }
  }
  return all;
}

constexpr std::size_t everything = ~std::size_t{0};
constexpr const char* full_mix =
    "lookup=0.31,lookup_negative=0.09,insert=0.2,upsert=0.1,update=0.15,remove=0.1,scan=0.05";

TEST(OperationStream, BatchesAreOfOneKindAndKeepTheSharesExact) {  // S2, S8
  for (const std::uint64_t operations : {std::uint64_t{12'345}, std::uint64_t{0}}) {
    Workload workload = workload_of(full_mix);
    workload.batch = 16;
    OperationStream stream(workload, {.thread = 0, .threads = 1});
    stream.begin(0, operations);
    const auto steps = take(stream, workload, operations == 0 ? 65'536 * 5 : everything, 100);
    std::map<Operation, std::uint64_t> counts;
    std::uint64_t short_runs = 0;
    for (std::size_t i = 0; i < steps.size();) {
      std::size_t end = i;
      while (end < steps.size() && steps[end].operation == steps[i].operation) ++end;
      short_runs += (end - i) % 16 != 0 ? 1 : 0;
      counts[steps[i].operation] += end - i;
      i = end;
    }
    // Each kind has one batch that is not full, if its number is no multiple; without an end none.
    EXPECT_LE(short_runs, operations == 0 ? 1U : 14U);
    if (operations == 0) continue;
    const auto exact = apportion(workload.mix, operations);
    for (const auto& [operation, count] : counts) EXPECT_EQ(count, exact[operation]);
  }
}

TEST(OperationStream, MixIsExactForOddCountsAndThreads) {  // S2
  const Workload workload = workload_of(full_mix);
  for (const std::uint64_t operations : {1U, 7U, 1'001U, 9'973U})
    for (const unsigned threads : {1U, 2U, 3U, 7U, 16U}) {
      OperationCounts counts;
      for (unsigned t = 0; t < threads; ++t) {
        OperationStream stream(workload, {.thread = t, .threads = threads});
        stream.begin(0, operations);
        const std::uint64_t expected = stream.remaining();
        const auto done = take(stream, workload, everything);
        EXPECT_EQ(done.size(), expected);
        EXPECT_EQ(stream.remaining(), 0U);
        for (const Done& step : done) ++counts[step.operation];
      }
      EXPECT_EQ(counts, apportion(workload.mix, operations)) << operations << " on " << threads;
    }
}

TEST(OperationStream, EndlessDecksAreExact) {  // S2
  const Workload workload = workload_of("lookup=0.9,insert=0.1");
  OperationStream stream(workload, {});
  stream.begin(0, 0);
  const std::uint64_t deck = repeating_deck(workload.mix).total();
  for (int round = 0; round < 3; ++round) {
    OperationCounts counts;
    for (const Done& step : take(stream, workload, deck)) ++counts[step.operation];
    EXPECT_EQ(counts, repeating_deck(workload.mix));
  }
}

TEST(OperationStream, IsDeterministicWhateverTheBlockSize) {  // S1
  for (const char* distribution : {"uniform", "zipfian", "self_similar", "latest", "sequential"}) {
    const Workload workload = workload_of(full_mix, distribution);
    OperationStream a(workload, {.thread = 1, .threads = 3});
    OperationStream b(workload, {.thread = 1, .threads = 3});
    a.begin(0, 10'000);
    b.begin(0, 10'000);
    const auto first = take(a, workload, everything, 64);
    EXPECT_EQ(first, take(b, workload, everything, 1'000)) << distribution;
    a.restart();
    a.begin(0, 10'000);
    EXPECT_EQ(first, take(a, workload, everything, 7)) << distribution;
    b.begin(1, 10'000);
    EXPECT_NE(first, take(b, workload, everything)) << distribution;
  }
}

TEST(OperationStream, ThreadsAndSeedsAreUnrelated) {  // S1
  Workload workload = workload_of("lookup=1", "uniform", 1'000'000);
  OperationStream a(workload, {.thread = 0, .threads = 2});
  OperationStream b(workload, {.thread = 1, .threads = 2});
  Workload other = workload;
  other.seed = 2;
  OperationStream c(other, {.thread = 0, .threads = 2});
  for (OperationStream* stream : {&a, &b, &c}) stream->begin(0, 20'000);
  const auto first = take(a, workload, everything);
  const auto second = take(b, workload, everything);
  const auto third = take(c, other, everything);
  // Unrelated streams agree in one place of a million, and their ids correlate by 1/sqrt(n).
  const auto related = [](const std::vector<Done>& x, const std::vector<Done>& y) {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      sum +=
          (static_cast<double>(x[i].id) / 1e6 - 0.5) * (static_cast<double>(y[i].id) / 1e6 - 0.5);
    return std::abs(sum / static_cast<double>(x.size()) * 12);
  };
  EXPECT_GT(related(first, first), 0.9);
  EXPECT_LT(related(first, second), 0.05);
  EXPECT_LT(related(first, third), 0.05);
}

TEST(OperationStream, InsertsAreFreshOnEveryThread) {  // S3
  for (const char* keys : {"mixed", "golden", "sequential", "prefixed:k", "random:12"}) {
    Workload workload = workload_of(full_mix, "zipfian", 500);
    workload.keys = parse_keys(keys).value();
    std::set<std::uint64_t> inserted;
    for (unsigned t = 0; t < 5; ++t) {
      OperationStream stream(workload, {.thread = t, .threads = 5});
      for (unsigned repetition = 0; repetition < 3; ++repetition) {
        stream.begin(repetition, 3'001);
        for (const Done& step : take(stream, workload, everything)) {
          if (step.operation != Operation::insert) continue;
          EXPECT_GE(step.id, workload.records);
          EXPECT_LT(step.id, first_absent_id);
          EXPECT_TRUE(inserted.insert(step.id).second);
        }
      }
      EXPECT_FALSE(stream.fresh_exhausted());
    }
    EXPECT_EQ(inserted.size(), 3 * apportion(workload.mix, 3'001)[Operation::insert]);
  }
}

TEST(OperationStream, AddressesWhatItInsertedAndNothingElse) {  // S4
  for (const char* distribution : {"uniform", "zipfian", "self_similar", "latest"}) {
    const Workload workload =
        workload_of("lookup=0.4,insert=0.3,update=0.1,scan=0.2", distribution, 100);
    OperationStream stream(workload, {.thread = 2, .threads = 3});
    stream.begin(0, 30'000);
    std::set<std::uint64_t> own;
    std::uint64_t hits = 0;
    for (const Done& step : take(stream, workload, everything)) {
      if (step.operation == Operation::insert) {
        own.insert(step.id);
      } else if (step.id >= workload.records) {
        ASSERT_TRUE(own.contains(step.id)) << distribution;
        ++hits;
      }
    }
    EXPECT_GT(hits, 1'000U) << distribution;
  }
}

TEST(OperationStream, NegativeLookupsNeverNameAKeyThatIsInserted) {
  const Workload workload = workload_of("lookup_negative=0.5,insert=0.5");
  OperationStream stream(workload, {});
  stream.begin(0, 10'000);
  std::set<std::uint64_t> distinct;
  for (const Done& step : take(stream, workload, everything)) {
    EXPECT_EQ(step.operation == Operation::lookup_negative, step.id >= first_absent_id);
    if (step.id >= first_absent_id) distinct.insert(step.id);
  }
  EXPECT_EQ(distinct.size(), 5'000U);
}

TEST(OperationStream, RemovesTakeEachKeyOnce) {  // S5
  for (const char* distribution : {"uniform", "zipfian", "latest", "sequential"}) {
    const Workload workload = workload_of("remove=0.8,insert=0.2", distribution, 1'003);
    std::set<std::uint64_t> removed;
    std::uint64_t again = 0;
    for (unsigned t = 0; t < 4; ++t) {
      OperationStream stream(workload, {.thread = t, .threads = 4});
      stream.begin(0, 2'000);
      std::uint64_t last = 0;
      std::set<std::uint64_t> own;
      for (const Done& step : take(stream, workload, everything)) {
        if (step.operation == Operation::insert) own.insert(step.id);
        if (step.operation != Operation::remove) continue;
        EXPECT_TRUE(step.id < workload.records || own.contains(step.id));
        if (!removed.insert(step.id).second) {
          ++again;
          continue;
        }
        if (std::string(distribution) == "sequential" && step.id < workload.records) {
          EXPECT_GE(step.id, last);
          last = step.id;
        }
      }
    }
    // 1600 removes of 1003 loaded and 400 inserted keys: 197 find theirs gone, and a few more while
    // a thread's inserts are still to come.
    EXPECT_EQ(removed.size() + again, 1'600U);
    EXPECT_GE(again, 197U);
    EXPECT_GE(removed.size(), 1'200U);
  }
}

TEST(OperationStream, RemovesDoNotRepeatWhileKeysAreLeft) {  // S5
  const Workload workload = workload_of("lookup=0.5,remove=0.5", "zipfian", 10'000);
  OperationStream stream(workload, {});
  stream.begin(0, 20'000);
  std::set<std::uint64_t> removed;
  for (const Done& step : take(stream, workload, everything))
    if (step.operation == Operation::remove) {
      EXPECT_TRUE(removed.insert(step.id).second);
    }
  EXPECT_EQ(removed.size(), 10'000U);
}

TEST(OperationStream, SettleTakesBackWhatWasNotRun) {
  const Workload workload = workload_of(full_mix, "latest", 50);
  for (const std::size_t executed : {0U, 1U, 37U, 63U, 64U}) {
    OperationStream stopped(workload, {});
    stopped.begin(0, 0);
    std::vector<IntegerStep> block(64);
    ASSERT_EQ(stopped.fill(block), 64U);
    ASSERT_EQ(stopped.fill(block), 64U);
    stopped.settle(executed);
    OperationStream straight(workload, {});
    straight.begin(0, 0);
    static_cast<void>(take(straight, workload, 64 + executed));
    EXPECT_EQ(stopped.inserted(), straight.inserted());
    EXPECT_EQ(stopped.removed(), straight.removed());
    stopped.begin(1, 500);
    straight.begin(1, 500);
    EXPECT_EQ(take(stopped, workload, everything), take(straight, workload, everything));
  }
}

TEST(OperationStream, SequentialWalksThePartsOfTheThreads) {
  const Workload workload = workload_of("lookup=1", "sequential", 1'003);
  std::multiset<std::uint64_t> walked;
  for (unsigned t = 0; t < 4; ++t) {
    OperationStream stream(workload, {.thread = t, .threads = 4});
    stream.begin(0, 4 * 1'003);
    const auto done = take(stream, workload, everything);
    for (std::size_t i = 0; i < (t < 3 ? 251U : 250U); ++i) {
      if (i > 0) {
        ASSERT_EQ(done[i].id, done[i - 1].id + 1);
      }
      walked.insert(done[i].id);
    }
  }
  EXPECT_EQ(walked.size(), 1'003U);
  EXPECT_EQ(std::set<std::uint64_t>(walked.begin(), walked.end()).size(), 1'003U);
}

TEST(OperationStream, LatestFollowsTheExactLawWhileKeysAreAdded) {
  const Workload workload = workload_of("lookup=0.9,insert=0.1", "latest:0.99", 100);
  OperationStream stream(workload, {});
  stream.begin(0, 60'000);
  std::vector<double> seen(20, 0);
  std::vector<double> expected(20, 0);
  std::uint64_t population = 100;
  double sum = 0;
  for (int r = 1; r <= 100; ++r) sum += std::pow(r, -0.99);
  for (const Done& step : take(stream, workload, everything)) {
    if (step.operation == Operation::insert) {
      ++population;
      sum += std::pow(static_cast<double>(population), -0.99);
      continue;
    }
    const std::uint64_t age = population - 1 - step.id;
    if (age < seen.size()) ++seen[age];
    for (std::size_t r = 0; r < expected.size(); ++r)
      expected[r] += std::pow(static_cast<double>(r + 1), -0.99) / sum;
  }
  for (std::size_t r = 0; r < expected.size(); ++r)
    EXPECT_NEAR(seen[r], expected[r], 5 * std::sqrt(expected[r])) << r;
}

TEST(OperationStream, ZipfianScattersItsHotKeys) {
  Workload workload = workload_of("lookup=1", "zipfian:0.99", 1'000);
  const auto hottest = [&] {
    OperationStream stream(workload, {});
    stream.begin(0, 100'000);
    std::map<std::uint64_t, int> count;
    for (const Done& step : take(stream, workload, everything)) ++count[step.id];
    std::vector<std::pair<int, std::uint64_t>> order;
    for (const auto& [id, n] : count) order.emplace_back(-n, id);
    std::sort(order.begin(), order.end());
    return order;
  };
  double sum = 0;
  for (int r = 1; r <= 1000; ++r) sum += std::pow(r, -0.99);
  const auto scattered = hottest();
  EXPECT_NEAR(-scattered[0].first, 100'000 / sum, 5 * std::sqrt(100'000 / sum));
  int neighbours = 0;
  for (std::size_t i = 1; i < 10; ++i)
    neighbours += scattered[i].second == scattered[i - 1].second + 1 ? 1 : 0;
  EXPECT_LT(neighbours, 3);
  workload.distribution.scattered = false;
  EXPECT_EQ(hottest()[0].second, 0U);
  EXPECT_EQ(hottest()[1].second, 1U);
}

TEST(OperationStream, ScanCountsCoverTheirRange) {
  Workload workload = workload_of("scan=1");
  workload.scan = {.min = 3, .max = 7};
  OperationStream stream(workload, {});
  stream.begin(0, 5'000);
  std::map<std::uint32_t, int> count;
  for (const Done& step : take(stream, workload, everything)) ++count[step.scan_count];
  EXPECT_EQ(count.size(), 5U);
  for (const auto& [length, n] : count) EXPECT_NEAR(n, 1'000, 150) << length;
}

TEST(OperationStream, AKeyFileRunsOutWithoutColliding) {  // S3
  Workload workload = workload_of("insert=1", "uniform", 2);
  workload.keys.form = Keys::Form::file;
  workload.keys.file_lines = KeyFile::parse("a\nb\nc\nd\ne\n", "k").value();
  OperationStream first(workload, {.thread = 0, .threads = 2});
  OperationStream second(workload, {.thread = 1, .threads = 2});
  first.begin(0, 0);
  second.begin(0, 0);
  const auto a = take(first, workload, 3);
  const auto b = take(second, workload, 1);
  EXPECT_EQ(a[0].id, 2U);
  EXPECT_EQ(a[1].id, 4U);
  EXPECT_EQ(a[2].id, 4U);  // a key that is present: the insert fails
  EXPECT_EQ(b[0].id, 3U);
  EXPECT_TRUE(first.fresh_exhausted());
  EXPECT_FALSE(second.fresh_exhausted());
}

TEST(OperationStream, StartsFromAnEmptyIndex) {
  const Workload workload = workload_of("lookup=0.4,upsert=0.4,update=0.1,remove=0.1", "latest", 0);
  for (unsigned t = 0; t < 2; ++t) {
    OperationStream stream(workload, {.thread = t, .threads = 2});
    stream.begin(0, 1'000);
    std::set<std::uint64_t> own;
    for (const Done& step : take(stream, workload, everything)) {
      if (step.operation == Operation::upsert) own.insert(step.id);
      EXPECT_TRUE(own.contains(step.id) || step.id >= first_absent_id);
    }
    EXPECT_EQ(own.size(), 1U);
  }
}

TEST(OperationStream, BytesBlockStopsWhenItsArenaIsFull) {
  Workload workload = workload_of("insert=0.5,lookup=0.5");
  workload.keys = parse_keys("random:2048").value();
  workload.value_bytes = 1'000;
  BytesBlock block(workload, 1'000, 10'000);
  OperationStream stream(workload, {});
  stream.begin(0, 100);
  const ValueCodec values(workload);
  const KeySpace keys(workload);
  std::uint64_t steps = 0;
  while (const std::size_t got = stream.fill(block)) {
    ASSERT_LE(got, 5U);
    for (const BytesStep& step : block.steps()) {
      ASSERT_EQ(step.key.size(), 2'048U);
      const bool inserts = step.operation == Operation::insert;
      ASSERT_EQ(step.value.size(), inserts ? 1'000U : 0U);
      ASSERT_EQ(values.word_of(step.value).has_value(), inserts);
    }
    steps += got;
  }
  EXPECT_EQ(steps, 100U);
  BytesBlock tiny(workload, 0, 0);
  stream.begin(1, 3);
  EXPECT_EQ(stream.fill(tiny), 1U);
}

// Slots: the same operations on the same keys as with values of 8 bytes, and values of the length
// asked for.
TEST(OperationStream, FillsSlotsWithTheSameOperations) {
  Workload workload = workload_of("insert=0.5,lookup=0.5");
  OperationStream words(workload, {});
  words.begin(0, 1'000);
  std::vector<IntegerStep> expected(1'000);
  ASSERT_EQ(words.fill(expected), 1'000U);
  workload.value_bytes = 100;
  SlotBlock block(workload, 300, 1 << 16);
  OperationStream stream(workload, {});
  stream.begin(0, 1'000);
  const ValueCodec values(workload);
  std::size_t at = 0;
  while (stream.fill(block) != 0)
    for (const SlotStep& step : block.steps()) {
      const IntegerStep& same = expected[at++];
      ASSERT_EQ(step.key, same.key);
      ASSERT_EQ(step.operation, same.operation);
      if (step.operation == Operation::insert)
        ASSERT_EQ(values.word_of(step.value), same.value);
      else
        ASSERT_TRUE(step.value.empty());
    }
  EXPECT_EQ(at, 1'000U);
}

TEST(LoadStream, LoadsEveryIdOnceOverTheThreads) {
  for (const LoadOrder order : {LoadOrder::random, LoadOrder::sequential}) {
    Workload workload = workload_of("lookup=1", "uniform", 10'007);
    workload.load_order = order;
    const KeySpace keys(workload);
    const ValueCodec values(workload);
    std::set<std::uint64_t> ids;
    std::uint64_t ascending = 0;
    for (unsigned t = 0; t < 3; ++t) {
      LoadStream stream(workload, t, 3);
      std::vector<IntegerStep> block(100);
      std::uint64_t left = stream.remaining();
      std::uint64_t last = 0;
      while (const std::size_t got = stream.fill(block)) {
        left -= got;
        ASSERT_EQ(stream.remaining(), left);
        for (std::size_t i = 0; i < got; ++i) {
          const std::uint64_t id = keys.id_of(block[i].key);
          ASSERT_TRUE(ids.insert(id).second);
          ASSERT_EQ(values.version(id, block[i].value), 0U);
          ASSERT_EQ(block[i].operation, Operation::insert);
          ascending += id > last ? 1 : 0;
          last = id;
        }
      }
      EXPECT_EQ(left, 0U);
    }
    EXPECT_EQ(ids.size(), 10'007U);
    EXPECT_EQ(*ids.rbegin(), 10'006U);
    EXPECT_EQ(ascending > 10'000, order == LoadOrder::sequential);
    EXPECT_GT(ascending, 4'700U);
  }
}

TEST(OperationStream, AKeyRangeIsDrawnFromAsAWholeWhateverIsLoaded) {
  Workload workload = workload_of("lookup=0.5,insert=0.25,remove=0.25", "uniform", 64);
  workload.key_range = 128;
  ASSERT_TRUE(validate(workload).ok());
  workload.limit_operations(40'000);
  OperationStream stream(workload, {.thread = 1, .threads = 2});
  std::map<Operation, std::map<std::uint64_t, unsigned>> drawn;
  for (const Done& done : take(stream, workload, everything)) ++drawn[done.operation][done.id];
  for (const Operation operation : {Operation::lookup, Operation::insert, Operation::remove}) {
    ASSERT_EQ(drawn[operation].size(), 128U) << name_of(operation);
    EXPECT_EQ(drawn[operation].rbegin()->first, 127U);
  }
  EXPECT_LT(drawn[Operation::lookup][0], 160U) << "of 78 on average";
}

TEST(Workload, AKeyRangeRefusesWhatItCannotMean) {
  Workload workload = workload_of("lookup=0.5,insert=0.25,remove=0.25", "uniform", 64);
  workload.key_range = 63;
  EXPECT_EQ(validate(workload).error().where, "key_range");
  workload.key_range = 64;
  EXPECT_TRUE(validate(workload).ok());
  workload.mix = parse_mix("lookup=0.5,update=0.5").value();
  EXPECT_EQ(validate(workload).error().where, "mix");
  workload.mix = parse_mix("lookup=1").value();
  workload.distribution = parse_distribution("zipfian").value();
  EXPECT_EQ(validate(workload).error().where, "keys.distribution");
}

}  // namespace
}  // namespace perdure::workload
