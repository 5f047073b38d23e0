// Damaged pools of queues, on the slab heap, where every byte after the header is the queue's own:
// an error in one line, or a queue that works. Whatever a queue gives after a clean close was
// pushed, unless it is longer than a header has room for: such payloads have no checksum.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>

#include "index/common/index_root.h"
#include "lockfree/slots/slot_store.h"
#include "support/damage.h"
#include "support/queue_bed.h"

namespace perdure::testing {
namespace {

using lockfree::Directory;

constexpr std::uint64_t body = 4096;  ///< what lies before is the pool's own

/// A queue in a closed pool, some of whose payloads were popped, as a new one each time it is read.
class DamagedQueue : public ::testing::TestWithParam<QueueTarget> {
 protected:
  void make(const QueueBedOptions& options, Reopen how) {
    options_ = options;
    auto made = QueueBed::create(GetParam(), options_);
    ASSERT_TRUE(holds(made));
    bed_ = std::move(made).value();
    std::uint64_t next = 1;
    ASSERT_TRUE(holds(fill(bed_->queue(), model_, next)));
    ASSERT_TRUE(holds(take(bed_->queue(), model_, options_.slots / 2)));
    ASSERT_TRUE(holds(fill(bed_->queue(), model_, next)));
    ASSERT_TRUE(holds(take(bed_->queue(), model_, options_.slots / 4)));
    for (std::uint32_t producer = 0; producer < 3; ++producer)
      last_push_.push_back(bed_->queue().last_push(producer));
    root_at_ = bed_->pool().roots().front().offset;
    if (how == Reopen::clean)
      ASSERT_TRUE(holds(bed_->close()));
    else
      bed_->drop();
  }

  /// Opens what is in the file, and uses it. Error: what must never happen.
  [[nodiscard]] Result<Verdict> judge(Reopen how = Reopen::crash) const {
    auto opened = QueueBed::open(GetParam(), options_, bed_->path());
    if (!opened) return refusal(opened.error());
    DurableQueue& queue = opened.value()->queue();
    if (auto sound = queue.check_invariants(); !sound) return sound.error();
    bool same = true;
    if (auto done = pop_all(queue, how, same); !done) return done.error();
    if (queue.size() != 0) return wrong("it gives no more, and is not empty");
    // Whatever was noticed: from here on it is a queue.
    for (unsigned round = 0; round < 2; ++round) {
      std::deque<std::string> model;
      std::uint64_t next = 1'000'000'000;
      if (auto done = fill(queue, model, next); !done) return done.error();
      if (model.size() != queue.capacity())
        return wrong("it is full of " + std::to_string(model.size()) + " payloads");
      if (auto done = drain(queue, model); !done) return done.error();
    }
    if (auto sound = queue.check_invariants(); !sound) return sound.error();
    return same ? Verdict::working : Verdict::differing;
  }

  /// Who refuses says where, why and what to do, in one line.
  [[nodiscard]] Result<Verdict> refusal(const Error& error) const {
    const bool is_clear = !error.what.empty() && !error.remedy.empty() &&
                          error.where == bed_->path() &&
                          error.line().find('\n') == std::string::npos;
    const bool is_apt = error.code == ErrorCode::corrupt || error.code == ErrorCode::foreign ||
                        error.code == ErrorCode::newer || error.code == ErrorCode::truncated;
    if (is_clear && is_apt) return Verdict::refused;
    return wrong("refused by '" + error.line() + "', code " +
                 std::to_string(static_cast<int>(error.code)));
  }

  /// `same`: all of `model_` is there, and nothing else. After a clean close only the bytes of long
  /// payloads may differ.
  [[nodiscard]] Result<void> pop_all(DurableQueue& queue, Reopen how, bool& same) const {
    bool headers_same = queue.size() == model_.size();
    for (std::uint32_t producer = 0; producer < 3; ++producer)
      headers_same = headers_same && queue.last_push(producer) == last_push_[producer];
    std::string payload;
    const std::uint64_t present = queue.size();
    for (std::uint64_t i = 0; i < present; ++i) {
      if (queue.pop(payload) != Outcome::ok) return wrong("it gives less than there is");
      if (payload.size() > queue.payload_bytes()) return wrong("a payload is too long");
      const bool is_same = i < model_.size() && payload == model_[i];
      const bool is_long = payload.size() > lockfree::inline_bytes;
      same = same && is_same;
      headers_same = headers_same && (is_same || (is_long && payload.size() == model_[i].size()));
    }
    same = same && headers_same;
    if (how == Reopen::clean && !headers_same) return wrong("it gives what was never pushed");
    return {};
  }

  [[nodiscard]] DamagePlan plan(std::uint64_t seed) const {
    return {.name = GetParam().name(),
            .path = bed_->path(),
            .pool_bytes = options_.pool_bytes,
            .seed = seed_or(seed),
            .trials = static_cast<unsigned>(scaled(120, 20))};
  }
  void print(const char* what, const CorruptionReport& report) const {
    std::printf("%-20s %-32s refused %4u, as before %4u, unnoticed %4u\n",
                GetParam().name().c_str(), what, report.refused, report.working, report.differing);
  }

  /// The file, of which `damage` changes something each time.
  class Trials {
   public:
    explicit Trials(const DamagedQueue& test) : test_(test), image_(test.bed_->path()) {
      EXPECT_TRUE(image_.read(body, test.options_.pool_bytes, 1));
    }
    /// What the file held.
    template <class T>
    [[nodiscard]] T read(std::uint64_t at) const {
      T value;
      std::memcpy(static_cast<void*>(&value), image_.bytes(at, sizeof value).data(), sizeof value);
      return value;
    }
    /// What a queue says to these bytes in place of what was there.
    [[nodiscard]] Result<Verdict> with(std::uint64_t at, const void* bytes, std::size_t count) {
      image_.overwrite(at, std::string(static_cast<const char*>(bytes), count));
      Result<Verdict> verdict = test_.judge();
      image_.restore();
      return verdict;
    }
    [[nodiscard]] Result<Verdict> with_flipped(std::uint64_t at, unsigned bit) {
      const auto flipped = static_cast<unsigned char>(read<unsigned char>(at) ^ (1U << bit));
      return with(at, &flipped, 1);
    }

   private:
    const DamagedQueue& test_;
    PoolImage image_;
  };

  QueueBedOptions options_;
  std::unique_ptr<QueueBed> bed_;
  std::deque<std::string> model_;
  std::vector<std::uint64_t> last_push_;
  std::uint64_t root_at_ = 0;
};

/// All in headers.
constexpr QueueBedOptions short_payloads{.slots = 200, .payload_bytes = 40};

TEST_P(DamagedQueue, shows_after_a_clean_close_or_is_harmless) {
  ASSERT_NO_FATAL_FAILURE(make(short_payloads, Reopen::clean));
  const auto report = try_damage(plan(43), [&](unsigned) { return judge(Reopen::clean); });
  ASSERT_TRUE(holds(report));
  EXPECT_GT(report->refused, 0U) << "no damage was noticed";
  EXPECT_GT(report->working, 0U) << "every pool was refused";
  EXPECT_EQ(report->differing, 0U) << "something came that was not there";
  print("after a clean close", *report);
}

TEST_P(DamagedQueue, is_an_error_or_a_queue) {
  for (const Reopen how : {Reopen::clean, Reopen::crash}) {
    model_.clear();
    last_push_.clear();
    ASSERT_NO_FATAL_FAILURE(make({.slots = 100, .payload_bytes = 700}, how));
    const auto report = try_damage(plan(44), [&](unsigned) { return judge(how); });
    ASSERT_TRUE(holds(report));
    EXPECT_GT(report->refused, 0U) << "no damage was noticed";
    print(how == Reopen::clean ? "with long payloads" : "with long payloads, crashed", *report);
  }
}

// Root, directory, all marks that are used and the first headers, bit by bit.
TEST_P(DamagedQueue, notices_each_flipped_bit_that_changes_what_is_there) {
  for (const Reopen how : {Reopen::clean, Reopen::crash}) {
    model_.clear();
    last_push_.clear();
    ASSERT_NO_FATAL_FAILURE(make({.slots = 4, .payload_bytes = 40}, how));
    Trials trials(*this);
    const auto root = trials.read<IndexRoot>(root_at_);
    const auto directory = trials.read<Directory>(root.head);
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges{
        {root_at_, sizeof(IndexRoot)},
        {root.head, sizeof(Directory) + directory.chunks * sizeof(std::uint64_t)}};
    for (std::uint64_t i = 0; i < directory.chunks; ++i)
      ranges.emplace_back(trials.read<std::uint64_t>(root.head + sizeof(Directory) + 8 * i),
                          options_.slots * sizeof(lockfree::SlotHeader));
    CorruptionReport report;
    const std::uint64_t step = std::max<std::uint64_t>(1, 3 * 1000 / scaled(1000, 25));
    std::uint64_t count = 0;
    for (const auto& [begin, bytes] : ranges)
      for (std::uint64_t bit = 0; bit < 8 * bytes; ++bit) {
        if (count++ % step != 0) continue;
        const auto verdict = trials.with_flipped(begin + bit / 8, bit % 8);
        ASSERT_TRUE(holds(verdict)) << "byte " << begin + bit / 8 << ", bit " << bit % 8;
        report.add(*verdict);
        if (how == Reopen::clean) {
          ASSERT_NE(*verdict, Verdict::differing)
              << "byte " << begin + bit / 8 << ", bit " << bit % 8;
        }
      }
    EXPECT_GT(report.refused, 0U);
    EXPECT_GT(report.working, 0U);
    print(how == Reopen::clean ? "flipped bits" : "flipped bits, crashed", report);
  }
}

// Whoever damages a root may also compute its checksum.
TEST_P(DamagedQueue, refuses_a_root_that_says_something_else) {
  ASSERT_NO_FATAL_FAILURE(make(short_payloads, Reopen::clean));
  Trials trials(*this);
  const auto root = trials.read<IndexRoot>(root_at_);
  const auto is_refused = [&](const char* what, const std::function<void(IndexRoot&)>& change) {
    SCOPED_TRACE(what);
    for (const bool knows_the_checksum : {false, true}) {
      IndexRoot bad = root;
      change(bad);
      if (knows_the_checksum) bad.checksum = checksum_of(bad);
      const auto verdict = trials.with(root_at_, &bad, sizeof bad);
      ASSERT_TRUE(holds(verdict));
      EXPECT_EQ(*verdict, Verdict::refused) << knows_the_checksum;
    }
  };
  is_refused("name", [](IndexRoot& bad) { bad.index[0] ^= 1; });
  is_refused("no name", [](IndexRoot& bad) { bad.index.fill('\xff'); });
  is_refused("older", [](IndexRoot& bad) { bad.layout_version -= 1; });
  is_refused("newer", [](IndexRoot& bad) { bad.layout_version += 1; });
  is_refused("kind of key", [](IndexRoot& bad) { bad.key_kind += 1; });
  for (const std::size_t option : {0U, 1U, 2U}) {
    is_refused("option more", [&](IndexRoot& bad) { bad.option[option] += 1; });
    is_refused("option less", [&](IndexRoot& bad) { bad.option[option] -= 1; });
    is_refused("option", [&](IndexRoot& bad) { bad.option[option] = ~std::uint64_t{0}; });
  }
  for (const std::uint64_t head :
       {std::uint64_t{0}, std::uint64_t{8}, root.head + 8, root.head + 1, root.head - 64, root_at_,
        options_.pool_bytes - 8, options_.pool_bytes, std::uint64_t{1} << 62, ~std::uint64_t{7}})
    is_refused("head", [&](IndexRoot& bad) { bad.head = head; });
}

TEST_P(DamagedQueue, refuses_a_directory_that_leads_elsewhere) {
  ASSERT_NO_FATAL_FAILURE(make({.slots = 100, .payload_bytes = 700}, Reopen::clean));
  Trials trials(*this);
  const std::uint64_t at = trials.read<IndexRoot>(root_at_).head;
  const auto first = trials.read<Directory>(at);
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t i = 0; i < first.chunks; ++i)
    offsets.push_back(trials.read<std::uint64_t>(at + sizeof(Directory) + 8 * i));
  const auto is_refused = [&](Directory directory, const std::vector<std::uint64_t>& to) {
    const auto known = static_cast<std::uint64_t>(to.size());
    directory.checksum = lockfree::checksum_of({0, std::min(directory.chunks, known)}, to.data());
    std::string bytes(sizeof directory + 8 * to.size(), '\0');
    std::memcpy(bytes.data(), &directory, sizeof directory);
    std::memcpy(bytes.data() + sizeof directory, to.data(), 8 * to.size());
    const auto verdict = trials.with(at, bytes.data(), bytes.size());
    ASSERT_TRUE(holds(verdict));
    EXPECT_EQ(*verdict, Verdict::refused);
  };
  for (const std::uint64_t chunks : {first.chunks - 1, first.chunks + 1, ~std::uint64_t{0}})
    is_refused({0, chunks}, offsets);
  for (std::size_t i = 0; i < offsets.size(); ++i)
    for (const std::uint64_t offset :
         {std::uint64_t{0}, std::uint64_t{64}, body - 64, offsets[i] + 8, offsets[i] + 4096 * 256,
          offsets[(i + 1) % offsets.size()], at, root_at_, options_.pool_bytes - 64,
          options_.pool_bytes, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
      SCOPED_TRACE("chunk " + std::to_string(i) + " at " + std::to_string(offset));
      std::vector<std::uint64_t> bad = offsets;
      bad[i] = offset;
      is_refused(first, bad);
    }
}

// From here the next seqs would be no seqs.
TEST_P(DamagedQueue, refuses_a_seq_that_no_push_could_have) {
  ASSERT_NO_FATAL_FAILURE(make(short_payloads, Reopen::crash));
  Trials trials(*this);
  const std::uint64_t at = trials.read<IndexRoot>(root_at_).head;
  const auto marks = trials.read<std::uint64_t>(at + sizeof(Directory));
  const auto directory = trials.read<Directory>(at);
  for (const std::uint64_t seq : {lockfree::unfinished - 1, lockfree::largest_seq + 1}) {
    for (std::uint64_t i = 0; i < directory.chunks; ++i) {
      const auto chunk = trials.read<std::uint64_t>(at + sizeof(Directory) + 8 * i);
      const bool is_headers = i == directory.chunks - 1;
      if (!is_headers && chunk != marks) continue;
      const auto verdict = trials.with(chunk + 64 * 7, &seq, sizeof seq);
      ASSERT_TRUE(holds(verdict));
      EXPECT_EQ(*verdict, Verdict::refused) << "chunk " << i;
    }
  }
}

class TruncatedQueue : public ::testing::TestWithParam<QueueTarget> {};

TEST_P(TruncatedQueue, is_refused_and_left_as_it_is) {
  const QueueBedOptions options;
  auto made = QueueBed::create(GetParam(), options);
  ASSERT_TRUE(holds(made));
  QueueBed& bed = **made;
  ASSERT_EQ(bed.queue().push("a"), Outcome::ok);
  ASSERT_TRUE(holds(bed.close()));
  for (const std::uint64_t bytes :
       {options.pool_bytes - 1, options.pool_bytes - 4096, options.pool_bytes / 2,
        std::uint64_t{8192}, std::uint64_t{4096}, std::uint64_t{4095}, std::uint64_t{100},
        std::uint64_t{1}, std::uint64_t{0}}) {
    SCOPED_TRACE(bytes);
    ASSERT_EQ(truncate(bed.path().c_str(), static_cast<off_t>(bytes)), 0);
    const auto opened = QueueBed::open(GetParam(), options, bed.path());
    ASSERT_FALSE(opened.ok());
    const Error& error = opened.error();
    EXPECT_TRUE(error.code == ErrorCode::truncated || error.code == ErrorCode::corrupt ||
                error.code == ErrorCode::foreign)
        << error.line();
    EXPECT_EQ(error.where, bed.path());
    EXPECT_FALSE(error.remedy.empty());
    EXPECT_EQ(error.line().find('\n'), std::string::npos);
    EXPECT_EQ(std::filesystem::file_size(bed.path()), bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Queues, DamagedQueue, ::testing::ValuesIn(slab_queue_targets()),
                         [](const auto& test) { return test.param.name(); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DamagedQueue);

INSTANTIATE_TEST_SUITE_P(Queues, TruncatedQueue, ::testing::ValuesIn(queue_targets()),
                         [](const auto& test) { return test.param.name(); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TruncatedQueue);

}  // namespace
}  // namespace perdure::testing
