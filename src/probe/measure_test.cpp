// Measuring on a rig made of numbers: threads that take turns, a clock that tells what it is told.
#include "probe/measure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "probe/catalogue.h"
#include "probe/document.h"
#include "probe/tracks.h"

namespace perdure::probe {
namespace {

std::uint64_t clock_ticks = 0;
std::uint64_t step() noexcept { return clock_ticks += 100; }
void spend(std::uint64_t ps) noexcept { clock_ticks += ps / 1000; }

/// One tick is one ns; every mark takes 100.
class FakeRig final : public Rig {
 public:
  [[nodiscard]] std::optional<std::string> lacks(const Point& point) const override {
    if (point.node == Node::remote) return "this rig has one node";
    return std::nullopt;
  }
  [[nodiscard]] Result<void> prepare(const Point& point) override {
    threads_ = point.threads;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, point.region_bytes)));
    std::fill_n(memory_.get(), point.region_bytes, fill);
    return {};
  }
  [[nodiscard]] std::byte* region() noexcept override { return memory_.get(); }
  void run(const Job& job) override {
    for (unsigned t = 0; t < threads_; ++t) {
      if (!apart) clock_ticks = 1'000'000;  // all start together
      job(t);
    }
  }
  void set_model(Model) noexcept override {}
  [[nodiscard]] std::uint64_t cache_bytes() const noexcept override { return 0; }
  [[nodiscard]] Clock clock() const noexcept override { return &step; }
  [[nodiscard]] double ticks_per_ns() const noexcept override { return 1; }
  [[nodiscard]] Spender spender() const noexcept override { return &spend; }
  [[nodiscard]] std::uint64_t lines_per_point() const noexcept override { return 4096; }
  [[nodiscard]] double seconds_per_point() const noexcept override { return 0; }
  [[nodiscard]] std::uint64_t operations_per_mark() const noexcept override { return 1; }
  [[nodiscard]] std::optional<CounterValues> counters() const override {
    reads_ += 1;
    return CounterValues{{"controller_write_bytes", 64 * reads_},
                         {"media_write_bytes", 256 * reads_}};
  }
  [[nodiscard]] std::string counters_missing() const override { return ""; }

  std::byte fill{0};
  bool apart = false;  ///< each thread starts when the one before has ended

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  unsigned threads_ = 1;
  mutable std::uint64_t reads_ = 0;
};

Point small_point() {
  Point point;
  point.experiment = "bandwidth";
  point.region_bytes = 1 << 20;
  point.op = Op::ntstore;
  return point;
}

TEST(Measure, BandwidthIsBytesOverTheCommonWindow) {
  FakeRig rig;
  Point point = small_point();
  point.threads = 4;
  point.access_bytes = 256;
  const auto outcome = measure(point, rig, 1);
  ASSERT_TRUE(outcome.ok());
  ASSERT_TRUE(outcome->bandwidth_gib_s.has_value());
  // Each thread makes an operation in 100 ns: 4 * 256 B / 100 ns.
  EXPECT_NEAR(*outcome->bandwidth_gib_s, 4 * 256 / 100e-9 / 0x1p30, 1e-6);
  EXPECT_NEAR(outcome->latency_ns->mean, 100, 1e-9);
  EXPECT_EQ(outcome->operations, 4096U / 4);
}

TEST(Measure, TheCostOfAnOperationIsSpent) {
  FakeRig rig;
  Point point = small_point();
  point.op_cost_ns = 190;
  const auto outcome = measure(point, rig, 1);
  ASSERT_TRUE(outcome.ok());
  EXPECT_NEAR(outcome->latency_ns->mean, 290, 290 * 0.01);
}

TEST(Measure, CountersAreDifferencesAndRatiosFollow) {
  FakeRig rig;
  const Point point = small_point();
  const auto outcome = measure(point, rig, 1);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->counters->at("controller_write_bytes"), 64U);
  const Ratios ratios = ratios_of(point, *outcome);
  EXPECT_DOUBLE_EQ(*ratios.ewr, 0.25);
  EXPECT_DOUBLE_EQ(*ratios.write_amplification, 4);
  EXPECT_FALSE(ratios.err.has_value()) << "nothing was read from the media";
}

TEST(Measure, APointThatTheRigLacksSomethingForIsSkipped) {
  FakeRig rig;
  Point point = small_point();
  point.node = Node::remote;
  const auto outcome = measure(point, rig, 1);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->skipped, "this rig has one node");
  EXPECT_FALSE(outcome->bandwidth_gib_s.has_value());
}

TEST(Measure, ThreadsThatNeverMeetSaySoInPlaceOfAFigure) {
  for (const char* const name : {"loaded-latency", "bandwidth"}) {
    Settings settings;
    settings.region_bytes = 1 << 20;
    settings.most_threads = 2;
    settings.threads = {2};
    settings.operations = 2000;
    const Point point = points_of(name, settings).front();
    FakeRig rig;
    const auto together = measure(point, rig, 1);
    ASSERT_TRUE(together.ok());
    EXPECT_EQ(together->skipped, std::nullopt) << name;
    rig.apart = true;
    const auto apart = measure(point, rig, 1);
    ASSERT_TRUE(apart.ok());
    ASSERT_TRUE(apart->skipped.has_value()) << name;
    EXPECT_NE(apart->skipped->find("never ran side by side"), std::string::npos) << name;
    EXPECT_FALSE(apart->latency_ns.has_value()) << name;
  }
}

TEST(Measure, ReadersLeaveWhatOthersWriteAlone) {
  Settings settings;
  settings.region_bytes = 1 << 20;
  settings.ops = {Op::store};
  settings.sizes = {64};
  settings.threads = {2};
  settings.readers = 1;
  settings.operations = 2000;
  const std::vector<Point> points = points_of("bandwidth", settings);
  ASSERT_EQ(points.size(), 1U);
  EXPECT_TRUE(points[0].reads() && points[0].writes());
  FakeRig rig;
  rig.fill = std::byte{0x55};
  ASSERT_TRUE(measure(points[0], rig, 1).ok());
  const auto changed = [&](std::size_t from) {
    const std::byte* const part = rig.region() + from;
    return std::any_of(part, part + (1 << 19), [](std::byte b) { return b != std::byte{0x55}; });
  };
  EXPECT_FALSE(changed(0)) << "the first thread reads";
  EXPECT_TRUE(changed(1 << 19));
}

TEST(Measure, LatencyUnderLoadHasReadOnlyLoadWhateverTheOthersWriteWith) {
  Settings settings;
  settings.mix_reads = {1.0, 0.5, 0.0};
  settings.op_cost_ns = 0;
  settings.ops = {Op::store_flush};
  const std::vector<Point> points = points_of("loaded-latency", settings);
  ASSERT_EQ(points.size(), 3U);
  EXPECT_EQ(points[0].op, Op::load);
  EXPECT_EQ(points[0].mix_reads, 0);
  EXPECT_EQ(points[1].op, Op::store_flush);
  EXPECT_EQ(points[1].mix_reads, 0.5);
  EXPECT_EQ(points[2].op, Op::store_flush);
  EXPECT_EQ(points[2].mix_reads, 0);
}

TEST(Measure, EveryKindWorksOnTheSmallestRegion) {
  for (const Probe& probe : probes()) {
    Settings settings;
    settings.region_bytes = 1 << 20;
    settings.cached_region_bytes = 1 << 16;
    settings.most_threads = 2;
    settings.regions = {1 << 18};
    settings.operations = 2000;
    for (const Point& point : points_of(probe.name, settings)) {
      FakeRig rig;
      const auto outcome = measure(point, rig, 3);
      ASSERT_TRUE(outcome.ok());
      if (outcome->skipped) continue;
      EXPECT_GT(outcome->operations, 0U) << probe.name << json_of(point).dump();
      EXPECT_GT(outcome->seconds, 0) << probe.name << json_of(point).dump();
      EXPECT_TRUE(outcome->latency_ns.has_value()) << probe.name << json_of(point).dump();
    }
  }
}

TEST(Tracks, TheWindowIsWhereAllThreadsWork) {
  std::vector<Track> tracks;
  for (int i = 0; i < 2; ++i) tracks.emplace_back(8, &step, &spend);
  clock_ticks = 0;  // marks at 100, 200, 300, 400
  for (int i = 0; i < 4; ++i) tracks[0].lane().done(&tracks[0], i == 0 ? 0 : 10);
  clock_ticks = 150;  // marks at 250, 350, 450
  for (int i = 0; i < 3; ++i) tracks[1].lane().done(&tracks[1], i == 0 ? 0 : 10);
  const Window window = common_window(tracks);
  EXPECT_EQ(window.begin, 250U);
  EXPECT_EQ(window.end, 400U);
  EXPECT_DOUBLE_EQ(operations_in(tracks[0], window), 15);  // half of 200..300, all of 300..400
  EXPECT_DOUBLE_EQ(operations_in(tracks[1], window), 15);
}

TEST(Tracks, ThreadsThatNeverMeetHaveAnEmptyWindow) {
  std::vector<Track> tracks;
  for (int i = 0; i < 2; ++i) tracks.emplace_back(4, &step, &spend);
  clock_ticks = 0;
  for (int i = 0; i < 2; ++i) tracks[0].lane().done(&tracks[0], i == 0 ? 0 : 1);
  clock_ticks = 5000;
  for (int i = 0; i < 2; ++i) tracks[1].lane().done(&tracks[1], i == 0 ? 0 : 1);
  const Window window = common_window(tracks);
  EXPECT_EQ(window.begin, window.end);
  EXPECT_DOUBLE_EQ(operations_in(tracks[0], window), 0);
}

TEST(Document, AnOutcomeSurvivesTheWayBetweenProcesses) {
  Outcome outcome;
  outcome.operations = 7;
  outcome.seconds = 0.1;
  outcome.bandwidth_gib_s = 1.0 / 3;
  outcome.latency_ns = Latency{.mean = 1, .p50 = 2, .p90 = 3, .p99 = 4, .p999 = 5, .max = 6};
  outcome.counters = CounterValues{{"media_read_bytes", ~std::uint64_t{0}}};
  const auto back = outcome_of(Json::parse(json_of(outcome).dump()));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(json_of(*back), json_of(outcome));
  EXPECT_EQ(*back->bandwidth_gib_s, 1.0 / 3);
  EXPECT_FALSE(outcome_of(Json::parse(R"({"skipped": 5})")).ok());
}

TEST(Document, DerivesLossesAndPeaks) {
  std::vector<Point> points;
  std::vector<Outcome> outcomes;
  const double local[] = {1, 4, 2};
  const double remote[] = {1, 2, 0.5};
  unsigned i = 0;
  for (const unsigned threads : {1U, 4U, 8U}) {
    for (const Node node : {Node::local, Node::remote}) {
      Point point = small_point();
      point.experiment = "I4";
      point.op = Op::store_flush;
      point.threads = threads;
      point.node = node;
      points.push_back(point);
      Outcome outcome;
      outcome.bandwidth_gib_s = node == Node::local ? local[i] : remote[i];
      outcomes.push_back(outcome);
    }
    ++i;
  }
  Json document;
  document["points"] = Json::array();
  for (std::size_t at = 0; at < points.size(); ++at)
    document["points"].push_back(json_of(points[at], outcomes[at]));
  conclude(points, outcomes, document);
  ASSERT_EQ(document["derived"].size(), 3U);
  EXPECT_EQ(document["derived"][0]["value"], 0.0);
  EXPECT_EQ(document["derived"][1]["value"], 50.0);
  EXPECT_EQ(document["derived"][2]["value"], 75.0);
  ASSERT_EQ(document["peaks"].size(), 2U);
  EXPECT_EQ(document["peaks"][0]["threads"], 4);
  EXPECT_EQ(document["peaks"][0]["points_before"], 1);
  EXPECT_EQ(document["peaks"][0]["points_after"], 1);
  EXPECT_EQ(document["peaks"][0]["last_over_peak"], 0.5);
  EXPECT_EQ(document["points"][2]["ebr"], 1.0);
  EXPECT_EQ(document["points"][5]["ebr"], 0.125);
}

TEST(Catalogue, ThreadsFitTheTargetUnlessGiven) {
  Settings settings;
  settings.most_threads = 2;
  for (const Point& point : points_of("I4", settings)) EXPECT_LE(point.threads, 2U);
  settings.threads = {16};
  for (const Point& point : points_of("I4", settings)) EXPECT_EQ(point.threads, 16U);
}

TEST(Catalogue, EveryListedProbeHasPoints) {
  for (const Probe& probe : probes()) EXPECT_FALSE(points_of(probe.name, {}).empty()) << probe.name;
  EXPECT_TRUE(points_of("I8", {}).empty());
}

TEST(Catalogue, FioCostIsOfThePublishedExperimentsOnly) {
  for (const Point& point : points_of("I3", {})) EXPECT_EQ(point.op_cost_ns, 190);
  for (const Point& point : points_of("bandwidth", {})) EXPECT_EQ(point.op_cost_ns, 0);
  Settings settings;
  settings.op_cost_ns = 0;
  for (const Point& point : points_of("I3", settings)) EXPECT_EQ(point.op_cost_ns, 0);
}

}  // namespace
}  // namespace perdure::probe
