#include "engine/trace/trace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

namespace perdure::engine {
namespace {

using testing::Test;

/// A file that is gone with the test.
class TraceFile {
 public:
  explicit TraceFile(std::string bytes) : bytes_(std::move(bytes)) { write(bytes_); }
  ~TraceFile() { std::filesystem::remove(path_); }
  void write(std::string_view bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::string refusal() const {
    const auto trace = Trace::open(path_);
    return trace ? "" : trace.error().line();
  }

 private:
  const std::string path_ =
      (std::filesystem::temp_directory_path() / ("perdure_trace_test." + std::to_string(getpid())))
          .string();
  std::string bytes_;
};

const EntryText common{"common", false};
const EntryText unique_entry{"unique", true};

std::string operations(std::initializer_list<Observation> seen) {
  std::string text =
      TraceHeader{.pool_bytes = 64 << 20, .documents = 0, .index = "pactree"}.encoded();
  for (const Observation& each : seen) append_record(each, text);
  return text;
}

std::string three_operations() {
  const std::array<const EntryText*, 2> added{&common, &unique_entry};
  return operations(
      {{.action = Action::insert,
        .status = Status::ok,
        .key = "key",
        .document = "document",
        .added = added,
        .has_entries = true},
       {.action = Action::scan, .key = "a", .to = "b", .count = 7, .found = 3},
       {.action = Action::modify, .status = Status::ok, .key = "key", .removes = true}});
}

std::string with_end(std::string text, std::uint64_t count) {
  const Digest digest{.sum = {1, 2}, .documents = 3, .entries = 4};
  return text + TraceEnd{.operations = count, .digest = digest}.encoded();
}

TEST(Trace, GivesBackWhatWasRecorded) {
  const TraceFile file(with_end(three_operations(), 3));
  const auto trace = Trace::open(file.path());
  ASSERT_TRUE(trace.ok()) << trace.error().line();
  EXPECT_EQ((*trace)->header().pool_bytes, 64U << 20);
  EXPECT_EQ((*trace)->header().index, "pactree");
  ASSERT_EQ((*trace)->size(), 3U);
  TraceOperation operation;
  decode_again((*trace)->record(0), operation);
  EXPECT_EQ(operation.action, Action::insert);
  EXPECT_EQ(operation.key, "key");
  EXPECT_EQ(operation.second, "document");
  ASSERT_EQ(operation.added.size(), 2U);
  EXPECT_EQ(operation.added[0].text, "common");
  EXPECT_FALSE(operation.added[0].unique);
  EXPECT_TRUE(operation.added[1].unique);
  EXPECT_TRUE(operation.has_entries);
  EXPECT_FALSE(operation.removes);
  decode_again((*trace)->record(1), operation);
  EXPECT_EQ(operation.second, "b");
  EXPECT_EQ(operation.count, 7U);
  EXPECT_EQ(operation.found, 3U);
  decode_again((*trace)->record(2), operation);
  EXPECT_TRUE(operation.removes);
  ASSERT_TRUE((*trace)->end());
  EXPECT_EQ((*trace)->end()->digest, (Digest{.sum = {1, 2}, .documents = 3, .entries = 4}));
}

// T2: whatever a killed server leaves is a trace of what was written whole.
TEST(Trace, IsReadUpToWhereItWasCutOff) {
  const std::string whole = three_operations();
  const TraceFile file(with_end(whole, 3));
  for (std::size_t bytes = trace_header_bytes; bytes < file.bytes().size(); ++bytes) {
    file.write(file.bytes().substr(0, bytes));
    const auto trace = Trace::open(file.path());
    ASSERT_TRUE(trace.ok()) << bytes << ": " << trace.error().line();
    EXPECT_FALSE((*trace)->end());
    EXPECT_EQ((*trace)->size() == 3, bytes >= whole.size());
  }
}

TEST(Trace, SaysWhereItIsDamagedWhateverByteChanges) {
  const TraceFile file(with_end(three_operations(), 3));
  for (std::size_t at = 0; at < file.bytes().size(); ++at) {
    std::string bytes = file.bytes();
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    file.write(bytes);
    const auto trace = Trace::open(file.path());
    // A length that is too long now looks like a record that was cut off.
    if (trace)
      EXPECT_FALSE((*trace)->end()) << at;
    else
      EXPECT_EQ(file.refusal().find('\n'), std::string::npos);
  }
  std::string bytes = file.bytes();
  bytes[trace_header_bytes + 45] = '!';
  file.write(bytes);
  EXPECT_NE(file.refusal().find("is damaged at byte 64"), std::string::npos) << file.refusal();
}

TEST(Trace, RefusesWhatIsNone) {
  const TraceFile file("PERDTRAC and nothing else");
  EXPECT_NE(file.refusal().find("is no trace"), std::string::npos) << file.refusal();
  file.write(std::string(4096, 'x'));
  EXPECT_NE(file.refusal().find("is no trace"), std::string::npos) << file.refusal();
  std::string newer = three_operations();
  newer[8] = 2;
  file.write(newer);
  EXPECT_NE(file.refusal().find("format 2"), std::string::npos) << file.refusal();
  file.write(with_end(three_operations(), 4));
  EXPECT_NE(file.refusal().find("damaged"), std::string::npos) << file.refusal();
  const auto absent = Trace::open(file.path() + ".absent");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, ErrorCode::not_found);
}

TEST(Trace, DealsKeysAndThoseThatShareAUniqueEntryToOneThread) {
  const std::array<const EntryText*, 1> shared{&unique_entry};
  const std::array<const EntryText*, 1> other{&common};
  const TraceFile file(operations({{.action = Action::insert, .key = "a", .added = shared},
                                   {.action = Action::insert, .key = "b", .added = other},
                                   {.action = Action::insert, .key = "c", .added = other},
                                   {.action = Action::lookup, .key = "b"},
                                   {.action = Action::remove, .key = "c", .gone = shared}}));
  const auto trace = Trace::open(file.path());
  ASSERT_TRUE(trace.ok());
  const auto dealt = (*trace)->deal(2);
  ASSERT_TRUE(dealt.ok());
  EXPECT_EQ((*dealt)[0], (std::vector<std::uint32_t>{0, 2, 4}));
  EXPECT_EQ((*dealt)[1], (std::vector<std::uint32_t>{1, 3}));
  file.write(operations({{.action = Action::remove_entries, .key = "a", .to = "b"}}));
  const auto dropping = Trace::open(file.path());
  EXPECT_TRUE((*dropping)->deal(1).ok());
  EXPECT_FALSE((*dropping)->deal(2).ok());
}

}  // namespace
}  // namespace perdure::engine
