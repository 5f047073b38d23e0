// Load: fills an empty index with the workload's records, by inserts of all threads or in bulk.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "driver/rounds.h"
#include "driver/steps.h"
#include "driver/target.h"
#include "index/index.h"
#include "workload/stream.h"

namespace perdure::driver {

/// The first insert that failed, from any thread.
class LoadFailure {
 public:
  void note(Outcome outcome) noexcept {
    std::uint8_t none = static_cast<std::uint8_t>(Outcome::ok);
    first_.compare_exchange_strong(none, static_cast<std::uint8_t>(outcome));
  }
  /// ok: none.
  [[nodiscard]] Outcome outcome() const noexcept { return static_cast<Outcome>(first_.load()); }

 private:
  std::atomic<std::uint8_t> first_{static_cast<std::uint8_t>(Outcome::ok)};
};

/// One thread's part of the load. Every thread loads as many records as the others (to one), so a
/// round ends when all have finished their block.
template <class Keys>
class Loader {
 public:
  Loader(const workload::Workload& workload, OrderedIndex<Keys>& index, unsigned thread,
         unsigned threads, LoadFailure& failure)
      : index_(index), failure_(failure), stream_(workload, thread, threads), buffer_(workload) {}

  bool fill() {
    const Unmeasured free;
    done_before_ += executed_;
    executed_ = 0;
    size_ = buffer_.fill(stream_);
    return size_ != 0;
  }

  void run(Rounds& rounds, OperationCounter& counter) {
    const auto* const steps = buffer_.data();
    for (; executed_ < size_ && !rounds.round_over(); ++executed_) {
      const Outcome outcome = index_.insert(steps[executed_].key, steps[executed_].value);
      if (outcome != Outcome::ok) {
        failure_.note(outcome);
        rounds.stop();
        return;
      }
      counter.done.store(done_before_ + executed_ + 1, std::memory_order_relaxed);
    }
  }

  [[nodiscard]] bool more() const noexcept { return stream_.remaining() != 0; }

 private:
  OrderedIndex<Keys>& index_;
  LoadFailure& failure_;
  workload::LoadStream stream_;
  StepBuffer<Keys> buffer_;
  std::size_t size_ = 0;
  std::size_t executed_ = 0;
  std::uint64_t done_before_ = 0;
};

/// All records of a workload in ascending key order, for bulk_load.
template <class Keys>
class SortedRecords;

template <>
class SortedRecords<IntegerKeys> {
 public:
  explicit SortedRecords(const workload::Workload& workload);
  [[nodiscard]] const std::vector<IntegerRecord>& records() const noexcept { return records_; }

 private:
  std::vector<IntegerRecord> records_;
};

/// Those with text.
template <class Keys>
class SortedTexts {
 public:
  using Record = typename Keys::Record;
  explicit SortedTexts(const workload::Workload& workload);
  [[nodiscard]] const std::vector<Record>& records() const noexcept { return records_; }

 private:
  std::vector<std::unique_ptr<char[]>> texts_;
  std::vector<Record> records_;
};
template <>
class SortedRecords<ByteKeys> : public SortedTexts<ByteKeys> {
  using SortedTexts::SortedTexts;
};
template <>
class SortedRecords<SlotKeys> : public SortedTexts<SlotKeys> {
  using SortedTexts::SortedTexts;
};

}  // namespace perdure::driver
