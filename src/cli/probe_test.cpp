// The flags of `probe`: each wrong one is a line and exit code 2, and a plan is printed for right
// ones.
#include <nlohmann/json.hpp>

#include "cli/test_program.h"

namespace perdure::cli {
namespace {

class ProbeCli : public Cli {};

constexpr Bad bad_probe_flags[] = {
    {"probe", "no probe is named"},
    {"probe I8", "probe"},
    {"probe bandwith", "did you mean 'bandwidth'?"},
    {"probe latency --memry pm", "did you mean '--memory'?"},
    {"probe latency --memory", "--memory: needs a value"},
    {"probe latency --memory pm --memory dram", "--memory: is given more than once"},
    {"probe latency --memory disk", "give one of"},
    {"probe bandwidth --op flush", "--op"},
    {"probe bandwidth --pattern random", "--pattern"},
    {"probe bandwidth --sizes 7", "--sizes 7: out of range"},
    {"probe bandwidth --sizes 100", "is neither 8, 16, 32 nor a multiple of 64"},
    {"probe bandwidth --sizes 1T", "out of range"},
    {"probe bandwidth --sizes many", "--sizes"},
    {"probe bandwidth --threads 0", "--threads 0: out of range"},
    {"probe bandwidth --threads 1,x", "--threads"},
    {"probe bandwidth --threads 100000", "out of range"},
    {"probe bandwidth --region 1G --regions 1G", "give one of the two"},
    {"probe bandwidth --region 1G,2G", "takes one value"},
    {"probe bandwidth --region 1", "out of range"},
    {"probe bandwidth --region 64 --threads 4", "is too small for 4 threads"},
    {"probe bandwidth --pattern stride", "needs --stride"},
    {"probe bandwidth --stride 256", "is for --pattern stride"},
    {"probe bandwidth --pattern stride --stride 100", "is no multiple of 64"},
    {"probe bandwidth --pattern stride --stride 64,128", "takes one value"},
    {"probe bandwidth --fence sometimes", "give one of none, each, every=N"},
    {"probe bandwidth --fence every=0", "--fence every"},
    {"probe bandwidth --op-cost-ns=-1", "--op-cost-ns"},
    {"probe bandwidth --op-state lost", "give one of kept, stored"},
    {"probe bandwidth --op-cost-ns 1,2", "takes one value"},
    {"probe bandwidth --op-cost-ns nan", "--op-cost-ns"},
    {"probe bandwidth --node far", "--node"},
    {"probe bandwidth --node local,remote", "takes one value"},
    {"probe bandwidth --dimms 0", "--dimms 0: out of range"},
    {"probe bandwidth --prefetch maybe", "--prefetch"},
    {"probe bandwidth --variant corrected", "is for the probe I1"},
    {"probe bandwidth --hit-ratios 0.5", "is for the probe I1"},
    {"probe I1 --hit-ratios 1.5", "--hit-ratios 1.5: out of range"},
    {"probe I1 --variant published", "--variant"},
    {"probe chase --mix-reads 0.5", "is for the probes bandwidth and loaded-latency"},
    {"probe bandwidth --mix-reads 2", "--mix-reads 2: out of range"},
    {"probe chase --sizes 8", "are no multiples of 64"},
    {"probe write-buffer --regions 300", "is no multiple of 256"},
    {"probe loaded-latency --threads 1", "one thread chases"},
    {"probe latency --operations 0", "--operations 0: out of range"},
    {"probe latency --seconds 0", "--seconds 0: out of range"},
    {"probe latency --seconds 1 --operations 5", "give one of the two"},
    {"probe latency --seed x", "--seed"},
    {"probe latency --target natve", "did you mean 'native'?"},
    {"probe latency --target sim:optane100-8280l-2s", "--target sim:optane100-8280l-2s"},
    {"probe latency --ablate no-directory", "is for simulated targets"},
    {"probe latency --guard", "is for simulated targets"},
    {"probe latency --jobs 4", "is for simulated targets"},
    {"probe latency --jobs 0", "--jobs 0: out of range"},
    {"probe latency --pool nowhere/there", "nowhere"},
    {"probe latency --quiet=maybe", "--quiet"},
};

TEST_F(ProbeCli, EveryBadFlagIsOneLineAndCreatesNothing) {
  for (const Bad& bad : bad_probe_flags) expect_refused(bad);
}

TEST_F(ProbeCli, ARegionThatACacheHoldsIsSaidToBeNoMemory) {
  const std::string arguments =
      "probe bandwidth --threads 1 --sizes 64 --operations 20k --pool p --force --json --region ";
  const Finished small = run(arguments + "16KiB --op load");
  ASSERT_EQ(small.code, 0) << small.err;
  EXPECT_THAT(small.err, ::testing::HasSubstr("1 of 1 points measure the L1 cache"));
  EXPECT_EQ(nlohmann::json::parse(small.out)["points"][0]["cache"]["level"], 1);
  const Finished flushed = run(arguments + "16KiB --op ntstore");
  ASSERT_EQ(flushed.code, 0) << flushed.err;
  EXPECT_THAT(flushed.err, ::testing::Not(::testing::HasSubstr("cache")));
  EXPECT_TRUE(nlohmann::json::parse(flushed.out)["points"][0]["cache"].is_null());
}

TEST_F(ProbeCli, ADryRunPrintsThePointsAndCreatesNothing) {
  const Finished finished =
      run("probe bandwidth --op load,ntstore --sizes 64,256 --threads 1 --memory dram --dry-run "
          "--json");
  ASSERT_EQ(finished.code, 0) << finished.err;
  const auto plan = nlohmann::json::parse(finished.out);
  ASSERT_GE(plan.size(), 4U);
  for (const auto& point : plan) EXPECT_EQ(point["experiment"], "bandwidth");
  EXPECT_EQ(files(), 0U);
}

}  // namespace
}  // namespace perdure::cli
