// Channels of the memory controllers: queues and buses between the sockets and the DIMMs.
//
// A write is durable under ADR when its channel has accepted it. A full write queue accepts one
// line for each that it hands on; the lines that wait compete, and which of them gets the place is
// drawn at random. Reads compete for their queue in the same way. The draw decides which line goes,
// not how long each caller waits: places are promised in the order of arrival, so that a caller
// knows its time at once. The effect on the DIMM, which sees the lines in the drawn order, is the
// same; the spread of waiting times is smaller than in a real controller.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/rng.h"
#include "platform/model/counters.h"
#include "platform/model/divisor.h"
#include "platform/model/machine.h"
#include "platform/model/pm_dimm.h"
#include "platform/model/server.h"

namespace perdure::platform {

/// Answers of a channel to one 64 B read, in addition to the idle latency of its memory.
struct ChannelRead {
  Time latency = 0;  ///< idle
  Time waited = 0;   ///< queueing
  Time hold = 0;     ///< a line-fill buffer is held by the line when it is there
};

/// What became of one 64 B write.
struct ChannelWrite {
  Time accepted = 0;  ///< the controller has it: durable under ADR
  Time taken = 0;     ///< it has left the write queue, and the core may forget it
};

/// The times of the last `size` events of a kind; asked for the one `size` ago.
class TimeRing {
 public:
  explicit TimeRing(std::size_t size) : times_(size == 0 ? 1 : size, 0) {}
  [[nodiscard]] Time oldest() const noexcept { return times_[next_]; }
  void push(Time time) noexcept {
    times_[next_] = time;
    if (++next_ == times_.size()) next_ = 0;
  }

 private:
  std::vector<Time> times_;
  std::size_t next_ = 0;
};

/// How many requests are still under way, to an interval of 32 ns; their ends come in no order.
class Outstanding {
 public:
  [[nodiscard]] std::size_t at(Time now) noexcept;
  void push(Time end) noexcept;

 private:
  static constexpr Time interval = 32 * ns;
  std::vector<std::uint32_t> ending_ = std::vector<std::uint32_t>(1 << 12, 0);
  std::uint64_t first_ = 0;  ///< interval not yet over
  std::size_t count_ = 0;
};

/// Writes that lie ahead of the calls, in order of time; few, and nearly in order when they come.
class LaterWrites {
 public:
  void push(LineAddress line, Time at);
  /// The earliest, if it is due by `now`.
  [[nodiscard]] bool due(Time now) const noexcept {
    return first_ != writes_.size() && writes_[first_].at <= now;
  }
  struct Write {
    LineAddress line;
    Time at;
  };
  Write pop() noexcept { return writes_[first_++]; }

 private:
  std::vector<Write> writes_;
  std::size_t first_ = 0;
};

class Channel {
 public:
  virtual ~Channel() = default;
  /// A line that arrives at `at`.
  virtual ChannelWrite write(LineAddress line, Time at) = 0;
  /// A remote read changed the line's directory bits, which lie beside its data.
  virtual void write_directory(LineAddress line, Time at) = 0;
  /// `demand` false: a prefetch; those of a stream are sent together and do not compete.
  virtual ChannelRead read(LineAddress line, Time at, bool demand) = 0;
  /// A flush of a line that no cache holds reads its directory bits from the media.
  virtual ChannelRead read_directory(LineAddress line, Time at) { return read(line, at, true); }
  /// The same for a streaming store: a buffer answers, so only the bus is occupied.
  virtual Time claim(LineAddress /*line*/, Time at) { return at; }
  /// Lets everything that still competes go to the DIMM.
  virtual void settle() {}
  [[nodiscard]] virtual bool conserves() const { return true; }

  ChannelCounters counters;
};

class DramChannel final : public Channel {
 public:
  explicit DramChannel(const DramParameters& parameters, const Ablation& ablation = {});
  ChannelWrite write(LineAddress line, Time at) override;
  void write_directory(LineAddress line, Time at) override;
  ChannelRead read(LineAddress line, Time at, bool demand) override;

 private:
  /// Lines of a channel go round its banks. A bank closes its row after each access; whether the
  /// next is in the same one matters to its latency alone. Reads go first; what they take is taken
  /// from the writes, which the queue holds back.
  struct Bank {
    Server reads, writes;
    std::uint64_t read_row = ~std::uint64_t{0};
  };
  struct Place {
    Bank& bank;
    std::uint64_t row;
  };
  [[nodiscard]] Place place_of(LineAddress line) noexcept;

  DramParameters parameters_;
  Server reads_, writes_;  ///< of the bus, likewise
  std::vector<Bank> banks_;
  TimeRing drained_;
  Time last_drained_ = 0;
  /// Lines that wait to be written, by address: a store to one of them joins it.
  struct Pending {
    LineAddress line = ~LineAddress{0};
    Time until = 0;
  };
  std::array<Pending, 64> pending_;
  Time line_read_, line_write_, turnaround_, burst_, row_miss_, latency_, row_cycle_,
      write_recovery_, hold_;
  Divisor interleave_, channels_, lines_of_row_, bank_count_;
};

class PmChannel final : public Channel {
 public:
  PmChannel(const PmParameters& parameters, const Ablation& ablation, std::uint64_t seed);
  ChannelWrite write(LineAddress line, Time at) override;
  void write_directory(LineAddress line, Time at) override;
  ChannelRead read(LineAddress line, Time at, bool demand) override;
  ChannelRead read_directory(LineAddress line, Time at) override;
  Time claim(LineAddress line, Time at) override;
  void settle() override;
  [[nodiscard]] bool conserves() const override { return dimm_.conserves(); }

 private:
  [[nodiscard]] ChannelRead read_dimm(LineAddress line, Time at);
  void write_due_directories(Time now);
  /// Adds the bus and remembers a demand read as under way.
  ChannelRead note_read(ChannelRead answer, Time at, bool demand);
  [[nodiscard]] LineAddress draw(std::vector<LineAddress>& waiting);

  const PmParameters& parameters_;
  const Ablation& ablation_;
  Rng rng_;
  PmDimm dimm_;
  Server read_bus_, write_bus_;
  TimeRing drained_, durable_;
  Time last_drained_ = 0, last_entered_ = 0;
  LaterWrites directories_;
  Outstanding waiting_writes_, outstanding_reads_;
  std::vector<LineAddress> competing_writes_, competing_reads_;
  Time line_read_, line_write_, hit_latency_, miss_latency_, address_miss_;
  Time last_read_end_ = 0;
};

}  // namespace perdure::platform
