#include "engine/recorder/recorder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>
#include <vector>

#include "core/rng.h"
#include "engine/store/test_image.h"
#include "engine/trace/trace.h"

namespace perdure::engine {
namespace {

using testing::Test;

constexpr std::size_t mib = 1U << 20;

class RecorderTest : public Test {
 protected:
  ~RecorderTest() override { std::filesystem::remove(path_); }
  [[nodiscard]] Recorder::Options options() const {
    return {.path = path_, .header = {.pool_bytes = 24 * mib, .index = "pactree"}};
  }
  const std::string path_ = (std::filesystem::temp_directory_path() /
                             ("perdure_recorder_test." + std::to_string(getpid())))
                                .string();
};

/// Entries as a trace says that they came and went.
class TraceRule final : public EntryRule {
 public:
  [[nodiscard]] bool has_entries(std::string_view) const override { return now->has_entries; }
  void entries(std::string_view, std::string_view document, Entries& out) const override {
    for (const TraceEntry& entry : document == now->second ? now->added : now->gone)
      out.add(entry.unique).append(entry.text);
  }
  const TraceOperation* now = nullptr;
};

/// Executes writes only: what they answer now.
Status repeat(DocumentStore& store, const TraceOperation& operation) {
  class As final : public DocumentStore::Change {
   public:
    explicit As(const TraceOperation& operation) : operation_(operation) {}
    bool operator()(const std::string*, std::string& out, bool& remove) override {
      out = operation_.second;
      remove = operation_.removes;
      return operation_.status != Status::unchanged;
    }

   private:
    const TraceOperation& operation_;
  } change(operation);
  switch (operation.action) {
    case Action::insert:
      return store.put(operation.key, operation.second, Put::insert);
    case Action::update:
      return store.put(operation.key, operation.second, Put::update);
    case Action::upsert:
      return store.put(operation.key, operation.second, Put::upsert);
    case Action::remove:
      return store.remove(operation.key);
    case Action::modify:
      return store.modify(operation.key, change);
    default:
      break;
  }
  std::string document;
  return store.lookup(operation.key, document);
}

class Toggle final : public DocumentStore::Change {
 public:
  explicit Toggle(std::string document) : document_(std::move(document)) {}
  bool operator()(const std::string* document, std::string& out, bool& remove) override {
    out = document_;
    remove = document != nullptr && document->size() % 3 == 0;
    return document == nullptr || document->size() % 3 != 1;
  }

 private:
  const std::string document_;
};

/// Threads that want the same few keys and unique entries.
void make_trouble(DocumentStore& store, std::uint64_t seed) {
  Rng rng(seed);
  std::string document;
  for (int i = 0; i < 3000; ++i) {
    const std::string key = "key" + std::to_string(rng() % 8);
    std::string value;
    for (const char letter : {'x', 'y', 'U', 'V', 'W'})
      if (rng() % 3 == 0) value += letter;
    value += "." + std::string(rng() % 50, static_cast<char>('a' + rng() % 26));
    switch (rng() % 6) {
      case 0:
        static_cast<void>(store.remove(key));
        break;
      case 1:
        static_cast<void>(store.lookup(key, document));
        break;
      case 2: {
        Toggle toggle(value);
        static_cast<void>(store.modify(key, toggle));
        break;
      }
      default:
        static_cast<void>(store.put(key, value, static_cast<Put>(rng() % 3)));
    }
  }
}

// V1: one after the other, in the order of the file, every operation ends as it did among others.
TEST_F(RecorderTest, ConcurrentOperationsReplayToTheSameAnswersAndContents) {
  StoreInImage recorded(24 * mib);
  auto recorder = std::move(Recorder::start(options())).value();
  recorded->observe(recorder.get());
  std::vector<std::thread> team;
  for (std::uint64_t seed = 1; seed <= 4; ++seed)
    team.emplace_back([&, seed] { make_trouble(*recorded.operator->(), seed); });
  for (std::thread& one : team) one.join();
  recorded->observe(nullptr);
  const Digest digest = std::move(digest_of(*recorded.operator->())).value();
  ASSERT_TRUE(recorder->finish(digest).ok());

  const auto trace = Trace::open(path_);
  ASSERT_TRUE(trace.ok()) << trace.error().line();
  EXPECT_EQ((*trace)->size(), 12000U);
  ASSERT_TRUE((*trace)->end());
  EXPECT_EQ((*trace)->end()->digest, digest);
  Image image(24 * mib);
  const auto pool = std::move(Pool::create_in(image.memory())).value();
  TraceRule rule;
  const auto store = std::move(DocumentStore::create(*pool, {}, rule)).value();
  std::map<Status, int> seen;
  TraceOperation operation;
  rule.now = &operation;
  for (std::size_t i = 0; i < (*trace)->size(); ++i) {
    decode_again((*trace)->record(i), operation);
    ++seen[operation.status];
    ASSERT_EQ(repeat(*store, operation), operation.status) << "operation " << i;
  }
  EXPECT_EQ(std::move(digest_of(*store)).value(), digest);
  for (const Status status :
       {Status::ok, Status::exists, Status::not_found, Status::duplicate, Status::unchanged})
    EXPECT_GT(seen[status], 100) << name_of(status);
}

TEST_F(RecorderTest, TellsOfReadsWithWhatTheyFound) {
  StoreInImage store(2 * mib);
  ASSERT_EQ(store->put("key", "x.one", Put::insert), Status::ok);
  auto recorder = std::move(Recorder::start(options())).value();
  store->observe(recorder.get());
  EXPECT_EQ(store.at("key"), "x.one");
  EXPECT_EQ(store.at("none"), "(not found)");
  EXPECT_EQ(store.with('x').size(), 1U);
  EXPECT_EQ(store->put(std::string(max_key_bytes + 1, 'k'), "", Put::insert), Status::too_long);
  store->observe(nullptr);
  ASSERT_TRUE(recorder->finish({}).ok());
  const auto trace = std::move(Trace::open(path_)).value();
  ASSERT_EQ(trace->size(), 4U);
  std::vector<TraceOperation> operations(4);
  for (std::size_t i = 0; i < 4; ++i) decode_again(trace->record(i), operations[i]);
  EXPECT_EQ(operations[0].action, Action::lookup);
  EXPECT_EQ(operations[0].answer, extend_crc(0, "x.one"));
  EXPECT_EQ(operations[1].status, Status::not_found);
  EXPECT_EQ(operations[2].action, Action::scan_entries);
  EXPECT_EQ(operations[2].found, 1U);
  EXPECT_EQ(operations[3].action, Action::read);
  EXPECT_EQ(operations[3].key, "key");
  EXPECT_EQ(operations[3].answer, extend_crc(0, "x.one"));
}

TEST_F(RecorderTest, LeavesOtherFilesAloneAndTracesToo) {
  std::ofstream(path_) << "something else";
  for (const bool replaces : {false, true}) {
    Recorder::Options wanted = options();
    wanted.replaces = replaces;
    const auto refused = Recorder::start(std::move(wanted));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::exists);
  }
  std::ofstream(path_, std::ios::trunc) << "";
  EXPECT_FALSE(Recorder::start(options()).ok());
  Recorder::Options wanted = options();
  wanted.replaces = true;
  EXPECT_TRUE(Recorder::start(std::move(wanted)).ok());
  EXPECT_FALSE(Recorder::start(options()).ok());
  EXPECT_TRUE(Trace::open(path_).ok());
}

// W2: the store goes on, and somebody is told.
TEST_F(RecorderTest, EndsWhereTheFileCannotBeWritten) {
  StoreInImage store(2 * mib);
  std::filesystem::create_symlink("/dev/full", path_);
  EXPECT_EQ(Recorder::start(options()).error().code, ErrorCode::out_of_space);
  std::filesystem::remove(path_);
  std::filesystem::create_symlink("/dev/null", path_);
  std::atomic<int> told{0};
  Recorder::Options wanted = options();
  wanted.on_failure = [&](const Error&) { ++told; };
  auto recorder = std::move(Recorder::start(std::move(wanted))).value();
  store->observe(recorder.get());
  // Closed under it: each write fails from now on.
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    if (std::error_code ignored; std::filesystem::read_symlink(entry, ignored) == "/dev/null" &&
                                 std::stoi(entry.path().filename()) > 2) {
      const int full = ::open("/dev/full", 1);
      dup2(full, std::stoi(entry.path().filename()));
      close(full);
    }
  for (int i = 0; i < 100; ++i)
    ASSERT_EQ(store->put("key", "." + std::string(10000, 'd'), Put::upsert), Status::ok);
  const auto finished = recorder->finish({});
  ASSERT_FALSE(finished.ok());
  EXPECT_EQ(finished.error().code, ErrorCode::out_of_space);
  EXPECT_EQ(told, 1);
  store->observe(nullptr);
}

}  // namespace
}  // namespace perdure::engine
