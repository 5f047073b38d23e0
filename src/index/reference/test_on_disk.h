// What the tests of the on-disk references share: a directory of the test's own, and the checks of
// recovery, of bad directories and of a full index.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/rng.h"
#include "index/reference/test_reference.h"

namespace perdure {

class OnDiskTest : public testing::Test {
 protected:
  explicit OnDiskTest(const char* index) : index_(index) {}

  void SetUp() override {
    const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
    const std::filesystem::path memory = "/dev/shm";  // a sync costs nothing there
    base_ = (std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path()) /
            ("perdure_" + std::string(index_) + "_" + test->name() + std::to_string(getpid()));
    std::filesystem::remove_all(base_);
    std::filesystem::create_directory(base_);
  }
  void TearDown() override { std::filesystem::remove_all(base_); }

  [[nodiscard]] std::string path(const char* name = "index") const { return base_ / name; }
  [[nodiscard]] IndexPlace place(const char* name = "index") const {
    IndexPlace place;
    place.path = path(name);
    place.capacity_bytes = capacity_bytes_;
    return place;
  }
  template <class Keys>
  [[nodiscard]] auto create(const char* name = "index") const {
    return make_index<Keys>(index_, place(name));
  }
  template <class Keys>
  [[nodiscard]] auto recover(const char* name = "index") const {
    return recover_index<Keys>(*IndexRegistry::find(index_).value(), place(name));
  }

  // The child reports each acknowledged insert through a pipe and is killed at a random moment. The
  // index is only ever open in children: RocksDB's threads would not survive the next fork.
  void check_recovery_after_kill() {
    in_child([this] { ASSERT_NE(create<IntegerKeys>(), nullptr); });
    Rng rng(11);
    std::uint64_t acknowledged = 0;
    for (int round = 0; round < 5; ++round) {
      int ends[2];
      ASSERT_EQ(pipe(ends), 0);
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) insert_for_ever(ends[1], acknowledged);
      close(ends[1]);
      std::uint64_t last = acknowledged;
      const std::uint64_t enough = acknowledged + 1 + rng.below(40);
      while (last < enough && read(ends[0], &last, sizeof last) == sizeof last) continue;
      ASSERT_EQ(kill(child, SIGKILL), 0);
      waitpid(child, nullptr, 0);
      while (read(ends[0], &last, sizeof last) == sizeof last) continue;
      close(ends[0]);
      ASSERT_GE(last, enough);
      acknowledged = last;
      in_child([&] { check_recovered(acknowledged); });
      if (HasFailure()) return;
    }
  }

  void check_bad_directories(const char* data_file) {
    const auto absent = recover<IntegerKeys>("absent");
    ASSERT_FALSE(absent.ok());
    EXPECT_EQ(absent.error().code, ErrorCode::not_found);
    std::filesystem::create_directory(path("empty"));
    const auto empty = recover<IntegerKeys>("empty");
    ASSERT_FALSE(empty.ok());
    EXPECT_EQ(empty.error().code, ErrorCode::foreign);
    auto index = create<IntegerKeys>();
    const auto second = create_index<IntegerKeys>(*IndexRegistry::find(index_).value(), place());
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().code, ErrorCode::busy);
    const auto busy = recover<IntegerKeys>();
    ASSERT_FALSE(busy.ok());
    EXPECT_EQ(busy.error().code, ErrorCode::busy);
    index.reset();
    const auto other_kind = recover<ByteKeys>();
    ASSERT_FALSE(other_kind.ok());
    EXPECT_EQ(other_kind.error().code, ErrorCode::foreign);
    EXPECT_TRUE(recover<IntegerKeys>().ok());
    std::ofstream(path() + "/" + data_file, std::ios::trunc) << "this is no index of ours";
    const auto damaged = recover<IntegerKeys>();
    ASSERT_FALSE(damaged.ok());
    EXPECT_FALSE(damaged.error().remedy.empty());
    const auto nowhere = create_index<IntegerKeys>(*IndexRegistry::find(index_).value(), {});
    ASSERT_FALSE(nowhere.ok());
    EXPECT_EQ(nowhere.error().code, ErrorCode::usage);
  }

  void check_full() {
    capacity_bytes_ = std::uint64_t{1} << 20;
    auto index = create<ByteKeys>();
    const std::string value(16 * 1024, 'v');
    std::uint64_t inserted = 0;
    while (inserted < 1000 && index->insert(std::to_string(inserted), value) == Outcome::ok)
      ++inserted;
    ASSERT_GT(inserted, 20U);
    ASSERT_LT(inserted, 100U);
    EXPECT_EQ(index->insert("x", value), Outcome::out_of_space);
    EXPECT_EQ(index->upsert("x", value), Outcome::out_of_space);
    index.reset();
    auto recovered = recover<ByteKeys>();
    ASSERT_TRUE(recovered.ok()) << recovered.error().line();
    EXPECT_EQ(recovered.value()->size(), inserted);
    std::string seen;
    for (std::uint64_t i = 0; i < inserted; ++i) {
      ASSERT_EQ(recovered.value()->lookup(std::to_string(i), seen), Outcome::ok);
      ASSERT_EQ(seen, value);
    }
    EXPECT_EQ(recovered.value()->lookup("x", seen), Outcome::not_found);
    EXPECT_EQ(recovered.value()->remove("0"), Outcome::ok);
    EXPECT_EQ(recovered.value()->lookup("0", seen), Outcome::not_found);
  }

 private:
  template <class Check>
  static void in_child(Check&& check) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      check();
      _exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  }

  [[noreturn]] void insert_for_ever(int acknowledgements, std::uint64_t from) const {
    auto index = recover<IntegerKeys>();
    if (!index) _exit(1);
    for (std::uint64_t i = from + 1;; ++i) {
      if (index.value()->upsert(i, 2 * i) != Outcome::ok) _exit(1);
      if (write(acknowledgements, &i, sizeof i) != sizeof i) _exit(1);
    }
  }

  void check_recovered(std::uint64_t acknowledged) const {
    auto index = recover<IntegerKeys>();
    ASSERT_TRUE(index.ok()) << index.error().line();
    for (std::uint64_t i = 1; i <= acknowledged; ++i) {
      std::uint64_t value = 0;
      ASSERT_EQ(index.value()->lookup(i, value), Outcome::ok) << "of " << acknowledged;
      ASSERT_EQ(value, 2 * i);
    }
    const std::uint64_t in_flight = index.value()->size() - acknowledged;
    EXPECT_LE(in_flight, 1U);
    EXPECT_TRUE(index.value()->check_invariants().ok());
  }

  const char* index_;
  std::filesystem::path base_;
  std::uint64_t capacity_bytes_ = std::uint64_t{64} << 20;
};

}  // namespace perdure
