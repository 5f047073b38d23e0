// Runs the program as a user does and looks at exit code, stdout, stderr and what it left behind.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/test_program.h"

namespace perdure::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* small_run =
    "bench --records 20k --operations 10k --repetitions 1 --quiet --json ";

constexpr Bad bad_flags[] = {
    {"", "a sub-command is missing"},
    {"bensh --index null", "did you mean 'bench'?"},
    {"bench", "--index: an index is missing"},
    {"bench --index fptre --pool p", "did you mean 'fptree'?"},
    {"bench --index null --index stdmap", "--index: is given more than once"},
    {"bench --indx null", "--indx: there is no such flag; did you mean '--index'?"},
    {"bench --index", "--index: needs a value"},
    {"bench --index null extra", "'extra': was not expected here"},
    {"bench --index null --records ten", "--records"},
    {"bench --index null --records -5", "--records"},
    {"bench --index null --records 1.5", "--records"},
    {"bench --index null --mix lookup=0.9", "--mix"},
    {"bench --index null --mix lokup=1", "did you mean 'lookup'?"},
    {"bench --index null --distribution ziphian", "did you mean 'zipfian'?"},
    {"bench --index null --distribution zipfian:-1", "--distribution"},
    {"bench --index null --keys random:9999", "--keys"},
    {"bench --index null --keys mixed --key-kind bytes", "--key-kind bytes"},
    {"bench --index null --key-kind text", "give one of integer, bytes"},
    {"bench --index null --value-bytes 16", "values of 8 bytes"},
    {"bench --index null --scan-count 0", "--scan-count"},
    {"bench --index null --load-order random1", "did you mean 'random'?"},
    {"bench --index null --seed x", "--seed"},
    {"bench --index null --threads 0", "--threads 0: out of range"},
    {"bench --index null --threads 100000", "--threads 100000: out of range"},
    {"bench --index null --threads two", "--threads"},
    {"bench --index null --seconds 0", "--seconds 0"},
    {"bench --index null --seconds nan", "--seconds"},
    {"bench --index null --seconds 1 --operations 5", "give one of the two"},
    {"bench --index null --operations 0", "--operations 0"},
    {"bench --index null --warmup-seconds=-1", "--warmup-seconds"},
    {"bench --index null --repetitions 0", "--repetitions 0: out of range"},
    {"bench --index null --rate 0", "--rate 0"},
    {"bench --index null --arrivals poisson", "--arrivals: is for an open loop"},
    {"bench --index null --rate 5 --arrivals pois", "--arrivals"},
    {"bench --index null --target sim:optane", "this program has no simulator"},
    {"bench --index null --target natve", "did you mean 'native'?"},
    {"bench --index null --option a=1", "--option a=1"},
    {"bench --index null --verify", "--verify"},
    {"bench --index stdmap --answers a.txt", "add --verify"},
    {"bench --index stdmap --host-times a.json", "--host-times: is for simulated runs"},
    {"bench --index null --reuse", "--reuse"},
    {"bench --index null --export-histograms", "add --json"},
    {"bench --index null --json --export-histograms --no-histograms", "--no-histograms"},
    {"bench --index null --json --export-histograms --latency off", "--latency off"},
    {"bench --index null --latency every --no-histograms", "the opposite"},
    {"bench --index null --latency often", "sampled, every, off"},
    {"bench --index null --latency sampled:0", "1 to 1000000"},
    {"bench --index null --latency every:7", "sampled:N"},
    {"bench --index null --latency sampled --rate 1000", "an open loop times every operation"},
    {"bench --index null --workload nowhere.toml", "nowhere.toml"},
    {"bench --index null --keys file:nowhere.txt", "nowhere.txt"},
    {"bench --index null --plugin x.so", "give one of the two"},
    {"bench --plugin x.so", "x.so: there is no such file"},
    {"bench --index null --quiet=maybe", "--quiet"},
    {"bench --index fptree", "--pool: fptree needs a place"},
    {"bench --index fptree --pool p --heap slap", "did you mean 'slab'?"},
    {"bench --index fptree --pool p --pool-bytes 1k", "is smaller than a pool can be"},
    {"bench --index fptree --pool p --pool-bytes many", "--pool-bytes"},
    {"bench --index fptree --pool p --durability adrr", "did you mean 'adr'?"},
    {"bench --index fptree --pool p --transactions always", "give one of auto, on, off"},
    {"bench --index fptree --pool p --simd avx", "did you mean 'avx2'?"},
    {"bench --index fptree --pool p --flush clwbb", "did you mean 'clwb'?"},
    {"bench --index fptree --pool p --durability none --flush clflush", "leave --flush out"},
    {"bench --index fptree --pool p --option leaf=64", "--option leaf=64"},
    {"bench --index fptree --pool p --reuse", "does not exist"},
    {"bench --index fptree --pool p --reuse --force", "give one of the two"},
    {"bench --index fptree --heap dram --reuse", "outlives a run"},
    {"bench --index fptree --pool nowhere/p --records 1k", "nowhere"},
    {"list", "does not say what to list"},
    {"list index", "did you mean 'indexes'?"},
    {"list indexes heaps", "lists one thing at a time"},
    {"environment --jsn", "did you mean '--json'?"},
    {"version 7", "'7'"},
};

constexpr Bad more_bad_flags[] = {
    {"bench --index null --keys snowflke", "did you mean 'snowflake'?"},
    {"bench --index null --keys ipv4 --records 200M", "ipv4 has 110609856 keys"},
    {"bench --index null --batch 8 --rate 9", "--batch 8: in an open loop"},
    {"bench --index null --batch 1025", "--batch 1025: out of range"},
    {"bench --index null --bach 8", "did you mean '--batch'?"},
    {"bench --index null --think-ns 5 --rate 9", "--think-ns 5: in an open loop"},
    {"bench --index null --think-ns 2G", "--think-ns 2G: out of range"},
    {"bench --index null --think-ns soon", "--think-ns"},
    {"bench --index null --mix-steps 1", "mix_steps: a mix has no shares of that size"},
    {"bench --index null --mix-steps 65537", "--mix-steps 65537: out of range"},
    {"bench --index fptree --pool p --heap memkind",
     "--heap memkind: fptree needs another heap; leave it out"},
    {"bench --index null --parallel many", "--parallel"},
    {"bench --index null --parallel single --threads 2", "--parallel single: needs --threads 1"},
    {"bench --index stdmap --parallel concurrent-contended", "synchronizes its threads itself"},
    {"bench --index null --parallel numa --no-pin", "leave --no-pin out"},
    {"bench --index lmdb --pool p --parallel parallel-saturated", "only one lmdb"},
    {"bench --index null --parallel parallel-saturated --threads 9 --operations 8", "fewer than"},
    {"bench --index stdmap --lock pthread", "synchronizes its threads itself"},
    {"bench --index rbtree --mode dram --value-bytes 100 --lock pmemobj", "--lock"},
    {"bench --index rbtree --mode dram --value-bytes 100 --lock buckets", "--lock"},
    {"bench --index rbtree --mode dram --value-bytes 100 --threads 2 --lock none",
     "without a lock"},
};

TEST_F(Cli, EveryBadFlagIsOneLineAndCreatesNothing) {
  for (const Bad& bad : bad_flags) expect_refused(bad);
  for (const Bad& bad : more_bad_flags) expect_refused(bad);
}

TEST_F(Cli, AWorkloadFileErrorNamesTheLine) {
  write("bad.toml", "name = \"bad\"\nrecords = 10\n[mix]\nlookup = 0.5\n");
  const Finished finished = run("bench --index null --workload bad.toml");
  EXPECT_EQ(finished.code, 2);
  EXPECT_THAT(finished.err, HasSubstr("bad.toml:"));
}

TEST_F(Cli, KeyFilesSupplyStringsOrIntegersAndAreRefusedByName) {
  std::string keys;
  for (int key = 0; key < 2000; ++key) keys += std::to_string(key * 7) + "\n";
  write("keys.txt", keys);
  for (const std::string kind : {"integer", "bytes", "slots"}) {
    const Finished finished =
        run("bench --index " + std::string(kind == "slots" ? "btree:dram" : "stdmap") +
            " --workload ycsb-a --records 1k --operations 10k --repetitions 1 --quiet --verify "
            "--mix lookup=0.5,lookup_negative=0.3,update=0.2 --keys file:keys.txt --key-kind " +
            kind + (kind == "slots" ? " --value-bytes 100" : ""));
    EXPECT_EQ(finished.code, 0) << kind << finished.err;
  }
  write("keys.gz", "\x1f\x8b\x08");
  write("workloada", "recordcount=1000\nreadproportion=0.5\n");
  const std::string bench = "bench --index stdmap --keys file:";
  EXPECT_EQ(run(bench + "keys.gz --key-kind integer").err,
            "perdure: keys.gz:1: is compressed: gzip; gunzip -c keys.gz > keys.txt\n");
  EXPECT_THAT(run(bench + "workloada").err, HasSubstr("give --workload ycsb-a"));
  EXPECT_THAT(run("bench --index stdmap --workload ./workloada").err,
              HasSubstr("workloada:1: is a property file of YCSB; give --workload ycsb-a"));
  EXPECT_THAT(run("bench --index stdmap --workload workloadb").err, HasSubstr("is ycsb-a here"));
  const Finished endless = run(bench + "/dev/zero");
  EXPECT_EQ(endless.code, 2);
  EXPECT_THAT(endless.err, HasSubstr("/dev/zero: the key file is a device"));
}

TEST_F(Cli, EveryKeySetIsServedAndVerified) {
  for (const std::string keys : {"snowflake", "clustered", "ipv4", "kmer", "uuid", "uuid_binary",
                                 "kmer_text", "email", "url"}) {
    const Finished finished = run(
        "bench --index fptree --records 3k --operations 6k --repetitions 1 --threads 2 --verify "
        "--check --json --scan-count 1-20 --pool keys.pool --force --mix lookup=0.3,"
        "lookup_negative=0.1,insert=0.3,update=0.1,remove=0.1,scan=0.1 --keys " +
        keys);
    EXPECT_EQ(finished.code, 0) << keys << finished.err;
    const auto record = nlohmann::json::parse(finished.out);
    EXPECT_EQ(record.at("configuration").at("workload").at("keys").at("form"), keys);
    EXPECT_EQ(record.at("configuration").at("workload").at("load_order"),
              keys == "snowflake" || keys == "clustered" ? "sequential" : "random");
  }
}

TEST_F(Cli, BatchesAreServedVerifiedAndRecorded) {
  const std::string arguments =
      "bench --records 3k --operations 6k --repetitions 1 --verify --check --pool p --force --mix "
      "lookup=0.3,lookup_negative=0.1,insert=0.2,update=0.1,upsert=0.1,remove=0.1,scan=0.1 "
      "--scan-count 9 --batch 16 --index ";
  for (const std::string index :
       {"stdmap --keys email", "fptree --keys url", "fptree", "btree:dram --value-bytes 100"}) {
    const Finished finished = run(arguments + index + " --json");
    EXPECT_EQ(finished.code, 0) << index << finished.err;
    const auto record = nlohmann::json::parse(finished.out);
    EXPECT_EQ(record.at("configuration").at("workload").at("batch"), 16);
  }
  const std::string table = run(arguments + "fptree").out;
  EXPECT_THAT(table, HasSubstr("batches of 16 (a latency is that of a batch)"));
  EXPECT_THAT(table, HasSubstr("of the batches that hold one operation in 256"));
}

TEST_F(Cli, AReusedPoolContinuesAKeySetWhereItEnded) {
  const std::string arguments =
      "bench --index fptree --keys snowflake --records 1k --operations 500 --repetitions 1 "
      "--verify "
      "--quiet --pool keys.pool --mix insert=1";
  EXPECT_EQ(run(arguments).code, 0);
  const Finished again = run(arguments + " --reuse --json");
  ASSERT_EQ(again.code, 0) << again.err;
  // Without a failure: no insert meets a key of the first run.
  const auto record = nlohmann::json::parse(again.out);
  EXPECT_EQ(record.at("repetitions").at(0).at("failed_ops_s"), 0) << again.out;
}

TEST_F(Cli, FlagsOverrideTheWorkloadFile) {
  write("mine.toml",
        "name = \"mine\"\nrecords = 1000\noperations = 500\nseed = 3\n[mix]\nlookup = 1.0\n");
  const Finished finished =
      run("bench --index stdmap --workload mine.toml --records 2k --seconds 0.5 --dry-run");
  ASSERT_EQ(finished.code, 0) << finished.err;
  const auto configuration = nlohmann::json::parse(finished.out);
  EXPECT_EQ(configuration["workload"]["name"], "mine");
  EXPECT_EQ(configuration["workload"]["records"], 2000);
  EXPECT_EQ(configuration["workload"]["seed"], 3);
  EXPECT_EQ(configuration["seconds"], 0.5);
  EXPECT_TRUE(configuration["operations"].is_null());
}

TEST_F(Cli, ADryRunCreatesNothing) {
  const Finished finished = run("bench --index fptree --pool p --dry-run --threads all");
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(nlohmann::json::parse(finished.out)["pool"], "p");
  EXPECT_EQ(files(), 0U);
}

TEST_F(Cli, StdoutHoldsTheRecordAndNothingElse) {
  const Finished finished = run(std::string(small_run) + "--index stdmap --verify --threads 2");
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(finished.err, "");
  const auto record = nlohmann::json::parse(finished.out);
  EXPECT_EQ(record["schema"], "perdure-run/1");
  EXPECT_EQ(record["repetitions"][0]["operations"]["lookup"]["attempted"], 10'000);
  EXPECT_EQ(record["verification"]["wrong"], 0);
}

TEST_F(Cli, TheTableSaysTheSameAndWarningsGoToStderr) {
  const Finished finished =
      run("bench --index stdmap --records 20k --operations 10k --repetitions 1");
  ASSERT_EQ(finished.code, 0);
  EXPECT_THAT(finished.out, HasSubstr("lookup"));
  EXPECT_THAT(finished.out, HasSubstr("10000"));
  EXPECT_THAT(finished.err, HasSubstr("perdure: warning: "));
  EXPECT_THAT(finished.out, ::testing::Not(HasSubstr("warning")));
}

TEST_F(Cli, TheSameSeedGivesTheSameOperations) {
  const std::string arguments =
      std::string(small_run) +
      "--index stdmap --threads 1 --mix lookup=0.5,remove=0.3,update=0.2 --seed ";
  const auto failures = [&](const char* seed) {
    const Finished finished = run(arguments + seed);
    return nlohmann::json::parse(finished.out)["repetitions"][0]["operations"]["update"]["failed"]
        .get<int>();
  };
  const int first = failures("5");
  EXPECT_EQ(first, failures("5"));
  EXPECT_NE(first, failures("6"));
}

TEST_F(Cli, AnExistingFileIsNotOverwritten) {
  write("p", "precious");
  const std::string arguments = std::string(small_run) + "--index fptree --pool p";
  const Finished refused = run(arguments);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("p: is a file that perdure did not make; name another path"));
  const Finished forced = run(arguments + " --force");
  EXPECT_EQ(forced.code, 2);
  EXPECT_THAT(forced.err, HasSubstr("--force does not replace it"));
  EXPECT_EQ(content(folder_ / "p"), "precious");
  write("p", "");
  EXPECT_EQ(run(arguments + " --force").code, 0);
  EXPECT_THAT(run(arguments).err, HasSubstr("p: exists already; open it with --reuse"));
  EXPECT_EQ(run(arguments + " --force").code, 0);
}

TEST_F(Cli, AUsersDirectorySurvivesReuseAndThenForce) {
  fs::create_directories(folder_ / "home/photos");
  write("home/diary.txt", "precious");
  for (const char* index : {"rocksdb", "lmdb", "fptree"})
    for (const char* way : {" --reuse", " --force", ""}) {
      const Finished finished = run(std::string(small_run) + "--pool home --index " + index + way);
      EXPECT_EQ(finished.code, 2) << index << way;
      EXPECT_EQ(std::ranges::count(finished.err, '\n'), 1) << finished.err;
      EXPECT_THAT(finished.err, HasSubstr("home")) << index << way;
    }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "home"), {}), 2);
  EXPECT_EQ(content(folder_ / "home/diary.txt"), "precious");
}

TEST_F(Cli, AnOutputThatCannotBeWrittenFailsBeforeTheWork) {
  const std::string arguments =
      "bench --index stdmap --records 2k --operations 4k --repetitions 1 --verify --quiet --json ";
  for (const char* path : {"no/folder/a.txt", "."}) {
    const Finished refused = run(arguments + "--answers " + path);
    EXPECT_EQ(refused.code, 2);
    EXPECT_EQ(refused.out, "") << "no work was done";
    EXPECT_EQ(std::ranges::count(refused.err, '\n'), 1) << refused.err;
  }
  const Finished full = run(arguments + "--answers /dev/full");
  EXPECT_EQ(full.code, 2);
  EXPECT_EQ(nlohmann::json::parse(full.out)["verification"]["wrong"], 0)
      << "the result comes first";
  EXPECT_THAT(full.err, HasSubstr("/dev/full: cannot be written"));
  EXPECT_EQ(run(arguments + "--answers a.txt").code, 0);
  EXPECT_EQ(files(), 1U);
  EXPECT_NE(content(folder_ / "a.txt"), "");
}

TEST_F(Cli, AReusedPoolHoldsWhatTheRunBeforeLeft) {
  for (const char* heap : {"slab", "pmdk"})
    for (const char* kind : {"integer", "bytes"}) {
      const std::string common = std::string(small_run) + "--index fptree --pool p --verify " +
                                 "--mix lookup=0.5,insert=0.5 --key-kind " + kind;
      const Finished first = run(common + " --heap " + heap + " --force");
      ASSERT_EQ(first.code, 0) << first.err;
      const Finished second = run(common + " --reuse --check");
      ASSERT_EQ(second.code, 0) << heap << kind << second.err;
      const auto record = nlohmann::json::parse(second.out);
      EXPECT_EQ(record["recovery"]["records"], 25'000);
      EXPECT_EQ(record["recovery"]["clean"], true);
      EXPECT_EQ(record["configuration"]["heap"], heap);
      EXPECT_EQ(record["repetitions"][0]["operations"]["insert"]["failed"], 0);
      EXPECT_EQ(record["verification"]["wrong"], 0);
    }
}

TEST_F(Cli, AFileThatIsNoPoolIsRefusedAndKept) {
  write("p", std::string(1 << 20, 'x'));
  const Finished finished = run("bench --index fptree --pool p --reuse --records 1k");
  EXPECT_EQ(finished.code, 2);
  EXPECT_EQ(std::ranges::count(finished.err, '\n'), 1) << finished.err;
  EXPECT_EQ(content(folder_ / "p"), std::string(1 << 20, 'x'));
}

TEST_F(Cli, AnOnDiskIndexRunsInADirectoryOfItsOwn) {
  const std::string arguments = std::string(small_run) + "--index lmdb --pool d --bulk-load ";
  const Finished first = run(arguments + "--operations 200 --verify");
  EXPECT_EQ(first.code, 2);  // --operations twice
  const std::string once =
      "bench --records 2k --operations 200 --repetitions 1 --quiet --json --index lmdb --pool d ";
  const Finished created = run(once + "--bulk-load --mix lookup=0.9,upsert=0.1 --verify");
  ASSERT_EQ(created.code, 0) << created.err;
  EXPECT_GT(nlohmann::json::parse(created.out)["memory"]["pm_bytes"], 2000 * 16);
  EXPECT_EQ(run(once).code, 2);
  const Finished reused = run(once + "--reuse --verify");
  ASSERT_EQ(reused.code, 0) << reused.err;
  EXPECT_EQ(nlohmann::json::parse(reused.out)["recovery"]["records"], 2000);
  EXPECT_EQ(run(once + "--bulk-load --force").code, 0);
}

#ifdef PERDURE_HONEST_WRAPPER
TEST_F(Cli, AWrapperIsBelievedOnlyWhenItsAnswersAreRight) {
  const std::string arguments =
      "bench --records 2k --operations 4k --repetitions 1 --threads 2 --quiet --json --verify "
      "--mix lookup=0.5,insert=0.2,remove=0.1,scan=0.2 --plugin ";
  for (const char* keys : {" --keys mixed", " --keys random:16"}) {
    const Finished honest = run(arguments + PERDURE_HONEST_WRAPPER + keys);
    ASSERT_EQ(honest.code, 0) << honest.err;
    EXPECT_EQ(nlohmann::json::parse(honest.out)["verification"]["wrong"], 0);
  }
  setenv("LYING_WRAPPER", "wrong_value", 1);
  const Finished lying = run(arguments + PERDURE_LYING_WRAPPER);
  unsetenv("LYING_WRAPPER");
  EXPECT_EQ(lying.code, 1);
  EXPECT_THAT(lying.err, HasSubstr("answers were wrong"));
  EXPECT_GT(nlohmann::json::parse(lying.out)["verification"]["wrong"], 0);
  // However much it lost, no more answers are wrong than there were.
  EXPECT_LE(nlohmann::json::parse(lying.out)["verification"]["wrong"],
            nlohmann::json::parse(lying.out)["verification"]["checked"]);
  const Finished lengths = run(arguments + PERDURE_HONEST_WRAPPER " --keys random:8-16");
  EXPECT_EQ(lengths.code, 2);
  EXPECT_THAT(lengths.err, HasSubstr("keys of one length"));
}

TEST_F(Cli, WhatAWrapperPrintsIsNoPartOfTheResult) {
  const std::string arguments =
      "bench --records 1k --operations 1k --repetitions 1 --quiet --mix lookup=1 "
      "--plugin " PERDURE_LYING_WRAPPER;
  setenv("LYING_WRAPPER", "chatty", 1);
  const Finished json = run(arguments + " --json");
  const Finished table = run(arguments);
  unsetenv("LYING_WRAPPER");
  ASSERT_EQ(json.code, 0) << json.err;
  EXPECT_TRUE(nlohmann::json::accept(json.out)) << json.out;
  EXPECT_THAT(table.out, Not(HasSubstr("chat")));
  for (const char* says : {"while it is made", "of printf", "of cout", "of write", "of a child",
                           "that is still in the buffer at the end"})
    for (const Finished& finished : {json, table})
      EXPECT_THAT(finished.err, HasSubstr(std::string("chat ") + says));
}

TEST_F(Cli, AWrapperWithoutScansIsMeasuredAndSaidToHaveNone) {
  const std::string arguments =
      "bench --records 1k --operations 1k --repetitions 1 --check --mix lookup=0.5,scan=0.5 "
      "--plugin " PERDURE_LYING_WRAPPER;
  setenv("LYING_WRAPPER", "null_scan", 1);
  const Finished counted = run(arguments + " --verify");
  setenv("LYING_WRAPPER", "no_scan", 1);
  const Finished nothing = run(arguments);
  setenv("LYING_WRAPPER", "negative_scan", 1);
  const Finished impossible = run(arguments);
  unsetenv("LYING_WRAPPER");
  EXPECT_EQ(counted.code, 0) << counted.err;
  EXPECT_THAT(counted.out, ContainsRegex("scan +[1-9][0-9]+ +[1-9][0-9]+ +0 "));
  EXPECT_THAT(counted.err, HasSubstr("scans handed out no records: they count by"));
  EXPECT_EQ(nothing.code, 0) << nothing.err;
  EXPECT_THAT(nothing.err, HasSubstr("the wrapper may have no scan"));
  EXPECT_THAT(nothing.err, HasSubstr("operations 'scan' succeeded"));
  EXPECT_EQ(impossible.code, 1);
  EXPECT_THAT(impossible.out, HasSubstr("repetitions "));  // the figures are there all the same
  EXPECT_THAT(impossible.err, HasSubstr("impossible scans (U3)"));
}

TEST_F(Cli, AWrapperMayHaveADirectoryThatExists) {
  const std::string arguments =
      "bench --records 1k --operations 1k --repetitions 1 --json --mix lookup=1 "
      "--plugin " PERDURE_LYING_WRAPPER " --pool ";
  setenv("LYING_WRAPPER", "wants_directory", 1);
  const Finished file = run(arguments + "d");
  const Finished missing = run(arguments + "d/");
  fs::create_directory(folder_ / "d");
  const Finished given = run(arguments + "d/");
  const Finished again = run(arguments + "d");
  unsetenv("LYING_WRAPPER");
  EXPECT_THAT(file.err, HasSubstr("a directory that exists"));
  EXPECT_THAT(missing.err, HasSubstr("make it first"));
  EXPECT_EQ(given.code, 0) << given.err;
  EXPECT_TRUE(fs::exists(folder_ / "d" / "data"));
  EXPECT_THAT(again.err, HasSubstr("an empty directory only"));
}
#endif

// Waits until the program has created `file`, then sends the signal.
TEST_F(Cli, AnInterruptedRunClosesItsPool) {
  const pid_t child = fork();
  if (child == 0) {
    const std::string line =
        command("bench --index fptree --pool p --records 20k --seconds 60 --warmup-seconds 0");
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(127);
  }
  for (int i = 0; i < 1000 && !fs::exists(folder_ / "p"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::this_thread::sleep_for(std::chrono::seconds(2));  // past the load of 20000 records
  kill(child, SIGINT);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_EQ(content(folder_ / "stdout"), "");
  const Finished reused = run(std::string(small_run) + "--index fptree --pool p --reuse");
  ASSERT_EQ(reused.code, 0) << reused.err;
  EXPECT_EQ(nlohmann::json::parse(reused.out)["recovery"]["clean"], true);
}

TEST_F(Cli, AFullStdoutIsAFailure) {
  const int status = std::system(PERDURE_NATIVE " list heaps >/dev/full 2>/dev/null");
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

TEST_F(Cli, ListsAndTheEnvironmentAreJson) {
  const auto indexes = nlohmann::json::parse(run("list indexes --json").out);
  EXPECT_TRUE(std::ranges::any_of(indexes, [](const auto& i) { return i["name"] == "null"; }));
  EXPECT_EQ(nlohmann::json::parse(run("list heaps --json").out).size(), 4U);
  EXPECT_TRUE(nlohmann::json::parse(run("list options --json").out).is_array());
  const auto flags = nlohmann::json::parse(run("list flags --json").out);
  const std::string help = run("bench --help").out;
  for (const auto& flag : flags)
    if (flag["command"] == "bench") {
      EXPECT_THAT(help, HasSubstr(flag["name"].get<std::string>()));
    }
  EXPECT_TRUE(nlohmann::json::parse(run("list workloads --json").out).is_array());
  const auto facts = nlohmann::json::parse(run("environment --json").out);
  for (const char* name : {"cpu", "rtm", "pm_devices", "cxl_devices", "perf_event_paranoid"})
    EXPECT_TRUE(facts.contains(name)) << name;
}

TEST_F(Cli, HelpIsAResult) {
  for (const char* arguments : {"--help", "bench --help", "list --help", "environment --help"}) {
    const Finished finished = run(arguments);
    EXPECT_EQ(finished.code, 0) << arguments;
    EXPECT_EQ(finished.err, "") << arguments;
    EXPECT_GT(finished.out.size(), 100U) << arguments;
  }
}

}  // namespace
}  // namespace perdure::cli
