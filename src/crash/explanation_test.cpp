// Explanations of findings whose cause is known: the text must name the line that is at fault, or
// the right kind of fault, and must not advise what would not help.
#include "crash/explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "crash/probe.h"
#include "crash/repair.h"
#include "crash/report.h"
#include "crash/search.h"
#include "crash/shrink.h"
#include "crash/toys/toys.h"
#include "pm/pm.h"

namespace perdure::crash {
namespace {

using testing::HasSubstr;
using testing::Not;
using Kind = Explanation::Kind;

constexpr std::size_t explained_bytes = std::size_t{256} << 10;

/// "FILE:LINE" of the one line of a toy's source that holds `text`.
std::string line_of(const std::string& file, const std::string& text) {
  const std::filesystem::path folder = std::filesystem::path(__FILE__).parent_path();
  std::ifstream source(folder / "toys" / file);
  std::string found;
  std::string line;
  for (unsigned number = 1; std::getline(source, line); ++number)
    if (line.find(text) != std::string::npos)
      found += (found.empty() ? "" : ", ") + file + ":" + std::to_string(number);
  EXPECT_FALSE(found.empty()) << text << " is not in " << file;
  return found;
}
std::string table(const std::string& text) { return line_of("table.cpp", text); }
std::string list(const std::string& text) { return line_of("list.cpp", text); }

struct Finding {
  Case small;
  Verdict verdict;
  Explanation explanation;
  std::string text;
};

class ExplanationTest : public testing::Test {
 protected:
  Workspace workspace_{explained_bytes};

  [[nodiscard]] static Plan plan_for(Defect defect) {
    Plan plan;
    plan.subject.info = &toys()[static_cast<std::size_t>(defect)];
    plan.subject.pool_bytes = explained_bytes;
    plan.threads = threads_of(defect);
    plan.most_states = 200'000;
    plan.seconds = 60;
    plan.transactions = is_elided(defect);
    return plan;
  }
  [[nodiscard]] Finding find(const Plan& plan) {
    Finding finding;
    const bool adr = plan.domain == Domain::adr;
    EXPECT_TRUE(
        pm::configure(adr ? pm::Durability::adr : pm::Durability::eadr, pm::FlushInstruction::clwb)
            .ok());
    const Summary summary = explore_many(plan, workspace_, [](const Summary&) {});
    EXPECT_TRUE(summary.violation.has_value()) << plan.subject.info->name;
    if (!summary.violation) return finding;
    finding.verdict.violation = summary.violation;
    finding.small = shrink(*summary.failed, finding.verdict, workspace_, 60);
    Places places;
    finding.explanation = explain(finding.small, finding.verdict, workspace_, places, 60);
    finding.text = tell(finding.small, finding.verdict, places, finding.explanation);
    return finding;
  }
};

/// "in change" may be "in perdure::crash::Table::change": the compiler decides which names are
/// whole.
bool names(const std::string& told, const std::string& what) {
  if (told.find(what) != std::string::npos) return true;
  return what.starts_with("in ") && told.find("::" + what.substr(3)) != std::string::npos;
}

struct Expected {
  Defect defect;
  Kind kind;
  std::vector<std::string> named;      ///< all of them
  std::vector<std::string> unnamed{};  ///< none of them
};

TEST_F(ExplanationTest, EachPlantedDefectIsNamed) {
  const std::string fills = table("record.check.store(mix64(key)");
  const std::string commits = table("table_.commit.store(bits, std::memory_order_release)");
  const std::string payload_fence = table("if (!has(Defect::missing_fence)) pm::fence();");
  const std::string payload_flush = table("    pm::flush(&record.key, bytes);");
  const Expected all[] = {
      {Defect::missing_flush, Kind::fixes, {"a flush of what", fills, payload_fence}},
      {Defect::missing_fence, Kind::fixes, {"a fence after the flush at", payload_flush}},
      {Defect::wrong_address,
       Kind::fixes,
       {"a flush of what", fills, payload_fence, table("return pm::flush(&table_.commit, bytes)"),
        "nothing was stored"}},
      {Defect::flush_of_a_temporary, Kind::fixes, {"a flush of what", fills, payload_fence}},
      {Defect::last_line_missed,
       Kind::fixes,
       {"a flush of what", fills, payload_fence},
       {table("record.value.store(value, relaxed)")}},
      {Defect::valid_before_payload, Kind::too_early, {commits, fills}, {"a flush of"}},
      {Defect::two_tokens,
       Kind::several_steps,
       {commits, table("table_.second.store(bits, relaxed)")}},
      {Defect::non_atomic_move, Kind::several_steps, {commits}},
      {Defect::unlock_before_flush, Kind::other_thread, {commits, "drop_lock", "acts on what"}},
      {Defect::publish_before_init, Kind::too_early, {"root@4096.head", "in fill"}},
      {Defect::free_before_unlink,
       Kind::several_steps,
       {list("    link.store(next, relaxed);"), "in replace"}},
      {Defect::log_reset_unflushed,
       Kind::fixes,
       {"a flush and a fence after the store at", "in change"}},
      {Defect::replay_not_idempotent,
       Kind::several_steps,
       {"in apply_log", "log.valid", "however often"}},
      {Defect::lock_survives, Kind::lock, {"table@4096.lock", "recovery has to release it"}},
      {Defect::leak_in_allocation,
       Kind::several_steps,
       {table("if (is(Defect::leak_in_allocation)) pm::store_persist(table_.allocated, live"),
        commits}},
      {Defect::read_of_unflushed,
       Kind::other_thread,
       {commits, "thread 1 acts on what thread 0", "the return of lookup"},
       {"a fence after"}},
      {Defect::elided_publish, Kind::several_steps, {fills, "hardware transaction"}},
      {Defect::recovery_unflushed,
       Kind::fixes,
       {"in recovery: a flush of what is stored at", table("pm::persist(&record.copy")},
       {table("if (flushes) pm::persist")}},
      {Defect::recovery_clears_first,
       Kind::several_steps,
       {"in recovery: ", "record[0].value", "record[0].copy", "in apply_log"}},
      {Defect::torn_pair, Kind::torn, {table("std::memcpy(&table_.pair"), "8 bytes"}},
      {Defect::old_node_not_freed, Kind::lost_block, {"node at pool offset", "in fill"}},
  };
  for (const Expected& expected : all) {
    const Finding finding = find(plan_for(expected.defect));
    const std::string& told = finding.explanation.text;
    const char* const name = name_of(expected.defect);
    EXPECT_STREQ(name_of(finding.explanation.kind), name_of(expected.kind)) << name << ": " << told;
    for (const std::string& each : expected.named) EXPECT_TRUE(names(told, each)) << name << told;
    for (const std::string& each : expected.unnamed)
      EXPECT_THAT(told, Not(HasSubstr(each))) << name;
    if (expected.kind != Kind::fixes) {
      EXPECT_THAT(finding.text, Not(HasSubstr("repair: "))) << name;
    }
  }
}

// A lock word is released in the line that is lost, last of all: no advice names it.
TEST_F(ExplanationTest, NoAdviceIsALockRelease) {
  for (const Defect defect : {Defect::missing_flush, Defect::unlock_before_flush})
    EXPECT_THAT(find(plan_for(defect)).explanation.text, Not(HasSubstr("version_lock")));
}

TEST_F(ExplanationTest, WhatNeedsNoCutShowsNoLostLines) {
  const Finding finding = find(plan_for(Defect::valid_before_payload));
  EXPECT_TRUE(finding.verdict.violation->fails_without_loss);
  EXPECT_THAT(finding.text, HasSubstr("\nno power cut is needed"));
  EXPECT_THAT(finding.text, HasSubstr("nothing is lost: all that was stored before the cut"));
  EXPECT_THAT(finding.text, Not(HasSubstr("lost:\n")));
  EXPECT_THAT(finding.text, Not(HasSubstr("older content")));
}

TEST_F(ExplanationTest, UnderEadrWordsDoNotSpeakOfMedia) {
  Plan plan = plan_for(Defect::valid_before_payload);
  plan.domain = Domain::eadr;
  const Finding finding = find(plan);
  EXPECT_THAT(finding.text, HasSubstr("before the cut is durable"));
  EXPECT_THAT(finding.text, Not(HasSubstr("on media")));
  EXPECT_TRUE(pm::configure(pm::Durability::adr, pm::FlushInstruction::clwb).ok());
}

TEST_F(ExplanationTest, ASecondCutShowsWhatRecoveryLost) {
  const Finding finding = find(plan_for(Defect::recovery_unflushed));
  ASSERT_FALSE(finding.verdict.violation->recovery.empty());
  ASSERT_FALSE(finding.verdict.violation->recovery_lines.empty());
  const auto again = finding.text.find("another power cut, in the recovery of that");
  ASSERT_NE(again, std::string::npos) << finding.text;
  const std::string behind = finding.text.substr(again);
  EXPECT_THAT(behind, HasSubstr("lost:\n"));
  EXPECT_THAT(behind, HasSubstr("record[0].value, line 67 + 56, 8 bytes = "));
  EXPECT_THAT(behind, HasSubstr("in apply_log"));
}

TEST_F(ExplanationTest, ALossIsAsSmallAsItCanBe) {
  const Finding finding = find(plan_for(Defect::missing_flush));
  EXPECT_EQ(finding.verdict.violation->lines.size(), 1U) << finding.text;
  Probe probe(finding.small, workspace_, deadline_after(20), false);
  const Events lost = lost_in(finding.verdict.violation->lines);
  ASSERT_FALSE(lost.empty());
  const Recorded& run = finding.verdict.run;
  EXPECT_TRUE(probe.judge(run, finding.verdict.violation->event, lost).has_value());
  EXPECT_FALSE(probe.judge(run, finding.verdict.violation->event, {lost.begin() + 1, lost.end()})
                   .has_value());
}

// The continued workload's seed hangs on the event's number, which additions move.
TEST_F(ExplanationTest, ARepairedTraceIsAskedTheSame) {
  const Finding finding = find(plan_for(Defect::missing_fence));
  const Recorded& run = finding.verdict.run;
  Events moved;
  const auto flush = std::ranges::find(run.trace, Event::Kind::flush, &Event::kind);
  ASSERT_NE(flush, run.trace.end());
  const Recorded changed = repaired(run, {{Fix::Kind::fence_after_flush, flush->pc}}, moved);
  ASSERT_GT(changed.trace.size(), run.trace.size());
  ASSERT_EQ(changed.numbers.size(), changed.trace.size() + 1);
  for (std::uint32_t event = 0; event <= run.trace.size(); ++event)
    EXPECT_EQ(changed.numbers[moved[event]], event);
}

TEST_F(ExplanationTest, ReplaysOfVersionThreeAreRead) {
  const Finding finding = find(plan_for(Defect::missing_flush));
  Json old = write_replay(finding.small, finding.verdict);
  old["version"] = 3;
  old.erase("first_cut");
  old.erase("only_threads");
  EXPECT_TRUE(read_replay(old.dump(), "test").ok());
  Case cut = finding.small;
  cut.cut = 12;
  const auto read = read_replay(write_replay(cut, finding.verdict).dump(), "test");
  ASSERT_TRUE(read.ok()) << read.error().line();
  EXPECT_EQ(read->what.cut, 12U);
}

/// What the program lost before it recovered and went on is part of the story.
TEST_F(ExplanationTest, ARunAfterACutShowsTheCutFirst) {
  Plan plan = plan_for(Defect::missing_flush);
  plan.subject.info = &toys()[defects];  // the repaired twin, which recovers from any cut
  Case what{plan.subject, {}, {}, plan.domain, plan.bounds, {}};
  what.program = generate(program_plan(plan, 1));
  EXPECT_TRUE(pm::configure(pm::Durability::adr, pm::FlushInstruction::clwb).ok());
  bool told = false;
  for (what.cut = 2; what.cut < 60 && !told; ++what.cut) {
    Verdict verdict = record(what, workspace_);
    if (verdict.run.first_cut == nullptr || verdict.run.first_cut->lines.empty()) continue;
    if (verdict.run.recovers_to >= verdict.run.trace.size()) continue;
    verdict.violation = Violation{.oracle = Oracle::recovery,
                                  .what = "",
                                  .event = static_cast<std::uint32_t>(verdict.run.trace.size())};
    Places places;
    const std::string text = crash::tell(what, verdict, places, {});
    const auto before = text.find("operations before the first cut");
    const auto first = text.find("first power cut");
    const auto lost = text.find("keeps an older content");
    const auto recovery = text.find("recovery of what that left");
    const auto after = text.find("operations after it");
    const auto next = text.find("next power cut");
    EXPECT_LT(before, first) << text;
    EXPECT_LT(first, lost);
    EXPECT_LT(lost, recovery);
    EXPECT_LT(recovery, after);
    EXPECT_LT(after, next);
    told = next != std::string::npos;
  }
  EXPECT_TRUE(told) << "no cut of sixty lost a line";
}

}  // namespace
}  // namespace perdure::crash
