// Uncore: what cores share. Last-level caches, the record of who holds a line, the links between
// sockets, the memory channels.
//
// U1  a core is in `holders_` of a line exactly when its L2 holds the line (L1 is within L2).
// U2  at most one L2 holds a line exclusive or dirty, and then no other L2 holds it.
// U3  a line is in at most one LLC, and dirty there only if no L2 holds it dirty.
#pragma once

#include <memory>
#include <vector>

#include "platform/model/cache_tags.h"
#include "platform/model/channel.h"
#include "platform/model/divisor.h"
#include "platform/model/holders.h"
#include "platform/model/machine.h"
#include "platform/model/page_table.h"

namespace perdure::platform {

enum class Where : std::uint8_t { l1, l2, llc, memory };

/// The caches of one physical core.
struct PrivateCaches {
  PrivateCaches(const CoreParameters& cpu, unsigned on_socket)
      : l1(cpu.l1.bytes / 64, cpu.l1.ways, false),
        l2(cpu.l2.bytes / 64, cpu.l2.ways, false),
        socket(on_socket) {}
  CacheTags l1, l2;
  unsigned socket;
  unsigned threads = 0;
};

/// A line as it reaches a core, and what became of its copies.
struct Taken {
  bool exclusive = false;
  bool dirty = false;              ///< came from a cache that had not written it back
  bool held = false;               ///< others have it, or had until now
  bool in_llc = false;             ///< an LLC had it until now
  bool across = false;             ///< it comes from the other socket
  CacheTags::Victim pushed_out{};  ///< a dirty line that the LLC lost over it

  [[nodiscard]] std::uint64_t flags() const noexcept {
    return (exclusive ? CacheTags::exclusive_bit : 0) | (dirty ? CacheTags::dirty_bit : 0);
  }
};

struct Fetch {
  Time done = 0;
  Time waited = 0;  ///< of it, queueing
  Time hold = 0;    ///< until the line-fill buffer is free, after the line has arrived
  Where where = Where::memory;
  Taken taken{};
};

class Uncore {
 public:
  Uncore(const Platform& platform, const Ablation& ablation, std::size_t physical_cores);
  /// Says where a physical core is; before any call that concerns it.
  void place_core(unsigned core, unsigned socket) { cores_of_socket_[socket].add(core); }

  /// Brings a line to a core's L2; `writes`: no one else may keep it. The caller inserts the tags.
  Fetch fetch(std::vector<PrivateCaches>& cores, unsigned core, LineAddress line, Time at,
              bool writes, bool demand = true);
  /// Takes the right to write from all other cores; the core has the line.
  Fetch upgrade(std::vector<PrivateCaches>& cores, unsigned core, LineAddress line, Time at);
  /// Takes the line out of all caches (or only cleans it); returns whether anybody had it, dirty.
  CacheTags::Victim flush(std::vector<PrivateCaches>& cores, LineAddress line, bool keep);
  /// A flush of a line that no cache holds still reads the directory bits at its home, from the
  /// media; these reads queue per line.
  Time ask_home(unsigned socket, LineAddress line, Time at);
  /// When the home answers a streaming store of a line that no cache holds: its directory bits
  /// come out of a buffer of the DIMM, and delay no other request.
  [[nodiscard]] Time claim(unsigned socket, LineAddress line, Time at);
  /// A line goes from a socket to its memory; returns what became of it.
  ChannelWrite write_back(unsigned socket, LineAddress line, Time at, Time extra);
  /// How much longer than by its instruction a line that a socket writes to memory holds its
  /// line-fill buffer, because of where that memory is.
  [[nodiscard]] Time distance_hold(unsigned socket, LineAddress line);
  /// Bytes of a partly filled write-combining buffer: the controller must read the rest.
  ChannelWrite write_partial(unsigned socket, LineAddress line, Time at, Time extra);
  /// A victim of an L2 goes to the LLC; returns the dirty line that this pushed out, if any.
  CacheTags::Victim accept_victim(unsigned socket, CacheTags::Victim victim) noexcept;

  /// The part of `fetch` that moves tags: no time, no traffic.
  Taken take(std::vector<PrivateCaches>& cores, unsigned core, LineAddress line,
             bool writes) noexcept;

  /// Prefetches what a fetch of the line will look at into the host's cache.
  void prefetch_on_host(LineAddress line) const noexcept {
    holders.prefetch_on_host(line);
    for (const CacheTags& cache : llc_)
      if (!cache.empty()) cache.prefetch_on_host(line);
  }

  Holders holders;
  PageTable pages;

  void add_to(Counters& counters) const;
  void count_part(std::size_t part, std::uint64_t first_page, std::uint64_t end_page) noexcept {
    constexpr unsigned lines_of_page_bits = 6;
    parts_.add(part, first_page << lines_of_page_bits, end_page << lines_of_page_bits);
  }
  void settle();
  [[nodiscard]] bool conserves() const;

 private:
  struct Answer {
    Time done, waited, hold = 0;
  };
  Answer read_memory(unsigned socket, LineAddress line, Time at, bool writes, bool demand);
  /// An answer without data, and no copy is given out: directory bits stay as they are.
  Answer read_directory(unsigned socket, LineAddress line, Time at);
  [[nodiscard]] Channel& channel_of(PageHome home, LineAddress line);
  Time cross(unsigned from, Time at, Time occupancy, std::uint64_t bytes);
  [[nodiscard]] bool is_pm(PageHome home) const noexcept;

  const Platform& platform_;
  const Ablation& ablation_;
  std::vector<CoreSet> cores_of_socket_;
  Divisor pm_interleave_, pm_dimms_, dram_interleave_, dram_channels_;
  std::vector<CacheTags> llc_;
  Rng llc_rng_;
  /// Dirty lines that an LLC writes back. Its slices do so in no common order, so one is drawn each
  /// time; while one long run of lines comes in, they keep their order.
  /// They are in no cache any more: a core that needs one fetches it from memory.
  struct Leaving {
    void note_filled(LineAddress line) noexcept;
    CacheTags::Victim pass(CacheTags::Victim victim, Rng& rng) noexcept;
    std::vector<LineAddress> lines;
    std::size_t most = 0;
    LineAddress last = 0;
    std::uint64_t run = 0;  ///< how many that came in lay near each other, up to the last
  };
  std::vector<Leaving> leaving_;
  std::vector<Lane> links_;  ///< by the socket that sends
  PartRanges parts_;
  std::vector<std::unique_ptr<Channel>> dram_, pm_;  ///< socket-major
  struct BusyLine {
    LineAddress line = ~LineAddress{0};
    Time until = 0;
  };
  std::vector<BusyLine> busy_lines_;
  std::uint64_t link_bytes_ = 0;
  Time llc_latency_, snoop_, link_latency_, message_, data_message_;
};

}  // namespace perdure::platform
