// Machine: the server that a simulation runs on, from the cores' load ports to the media.
//
//   core  (issue window, store buffer, L1, L2, TLB, prefetchers)     one per simulated thread
//   socket (LLC, directory, UPI)
//   memory controller (read and write queues per channel, interleaving)
//   DIMM  (DRAM; or PM: buffers, address-indirection cache, media)
//
// It knows nothing of fibers, hooks or indexes: it is called with physical addresses and moves the
// calling core's clock. It is deterministic: no host time, no host addresses, no hash of either.
//
// M1  calls that reach beyond a core's private caches come in order of time: the caller runs the
//     core with the smallest clock whenever `reaches_shared` says that the next access does.
// M2  conservation: bytes that enter a level leave it or lie in it (`check_conservation`).
// M3  the time split of a core adds up to its clock.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/result.h"
#include "platform/model/counters.h"
#include "platform/model/platform.h"
#include "platform/model/time.h"

namespace perdure::platform {

using PhysicalAddress = std::uint64_t;

enum class MemoryKind : std::uint8_t { dram, pm };

/// What a page of physical memory is. The caller decides at first touch.
struct PageHome {
  MemoryKind memory = MemoryKind::dram;
  unsigned node = 0;
};

enum class FlushKind : std::uint8_t { clwb, clflushopt, clflush };
enum class PrefetchKind : std::uint8_t { read, write, once };
enum class AbortCause : std::uint8_t { conflict, capacity, explicit_abort, flush, other };

/// Mechanisms that an ablation may switch off; names as in `--ablate NAME` and
/// docs/platform-model.md.
struct Ablation {
  bool in_order_arrival = false;      ///< stores reach the controller in program order
  bool lru_write_buffer = false;      ///< XPBuffer evicts the oldest line in place of a random one
  bool no_directory = false;          ///< remote reads of PM write no directory bits
  bool no_prefetchers = false;        ///< streamer and adjacent line
  bool no_dependence_window = false;  ///< every load waits for the one before
  bool no_read_modify_write = false;
  bool no_address_cache = false;
  bool no_wear_levelling = false;
  bool no_flush_gap = false;        ///< flushed lines of a core leave as soon as they can
  bool no_hit_places = false;       ///< stores that hit delay none that miss
  bool no_buffer_sets = false;      ///< an XPLine may lie anywhere in the XPBuffer
  bool no_write_hindrance = false;  ///< reads wait for nothing that is being written
  bool no_early_lines = false;      ///< all lines of an XPLine wait for the whole media read
};

class Machine {
 public:
  /// `cpus`: the platform's core that each simulated thread runs on.
  Machine(const Platform& platform, std::span<const unsigned> cpus, const Ablation& ablation);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Every call below concerns simulated thread `core` and may move `now(core)` forward.

  [[nodiscard]] Time now(unsigned core) const noexcept { return clocks_[core]; }
  /// Sets a clock forward (waiting for a lock holder, start of a phase); counted as lock wait.
  void wait_until(unsigned core, Time time) noexcept;
  /// Instructions between accesses.
  void compute(unsigned core, Time duration) noexcept;

  /// True when the access cannot be served by the core's private caches and buffers alone: then
  /// the caller must let cores with smaller clocks run first (M1). Changes nothing. Fast.
  [[nodiscard]] bool reaches_shared(unsigned core, PhysicalAddress address, unsigned bytes,
                                    bool writes) const noexcept;

  // What almost every access does, inline (machine_inline.h): false, and nothing has happened,
  // when the line is not in the core's L1 or, for a store, not exclusive there. Otherwise the same
  // as `load` and `store` of a piece of the line, and no other core need run first.
  bool load_from_l1(unsigned core, std::uint64_t line, Time ready, Time& done) noexcept;
  bool store_to_l1(unsigned core, std::uint64_t line) noexcept;
  /// The core's private caches are another hardware thread's, too.
  [[nodiscard]] bool shares_caches(unsigned core) const noexcept;
  [[nodiscard]] unsigned socket_of(unsigned core) const noexcept;
  /// Brings the model's own data on a line that L1 does not hold into the host's cache: the caller
  /// runs other cores before the access.
  void prefetch_on_host(unsigned core, std::uint64_t line) const noexcept;

  /// A load. `ready`: when the load that produced its address completes (0: long ago), so that
  /// dependent misses cannot overlap. Returns when the value is there; the clock itself moves only
  /// as far as the issue window, line-fill buffers and ordering demand.
  Time load(unsigned core, PhysicalAddress address, unsigned bytes, Time ready);
  void store(unsigned core, PhysicalAddress address, unsigned bytes);
  /// A locked read-modify-write: a full fence, and the value is waited for.
  void atomic(unsigned core, PhysicalAddress address, unsigned bytes);
  /// `ready` as for load.
  void prefetch(unsigned core, PhysicalAddress address, PrefetchKind kind, Time ready = 0);
  /// `address`: any byte of the line.
  void flush(unsigned core, PhysicalAddress address, FlushKind kind);
  /// Streaming store of one aligned piece of at most 64 bytes that does not cross a line.
  void stream(unsigned core, PhysicalAddress address, unsigned bytes);
  /// sfence: waits until flushes and streaming stores have been accepted by the persistence domain.
  void store_fence(unsigned core);
  /// mfence, or the fence of a locked instruction.
  void full_fence(unsigned core);
  /// lfence: waits until the loads issued so far have their values, for nothing else.
  void load_fence(unsigned core);
  /// Waits until the loads have their values and the stores are visible; not for flushes. What
  /// system calls and clock reads between the operations of a benchmark amount to.
  void drain(unsigned core);
  /// Cost and counters of hardware transactions; read and write sets are the caller's. The time
  /// since `begin` of one that aborts is booked as aborted.
  void transaction_begin(unsigned core);
  void transaction_commit(unsigned core);
  void transaction_abort(unsigned core, AbortCause cause);
  /// A spin loop's pause.
  void pause(unsigned core) noexcept;

  /// Tells what a page is, before its first access. `page` is an address >> 12.
  void place_page(std::uint64_t page, PageHome home);
  /// Counts the traffic of these pages for a part of a pool, too.
  void count_part(std::size_t part, std::uint64_t first_page, std::uint64_t end_page) noexcept;

  /// Loading with the model off: tags only, no time; makes later misses what they would be
  /// (--warm).
  void touch(unsigned core, PhysicalAddress address, unsigned bytes, bool writes) noexcept;
  void finish_touches() noexcept;

  /// Everything since the start; subtract two for a phase.
  [[nodiscard]] Counters counters() const;
  [[nodiscard]] TimeSplit time_split(unsigned core) const;
  /// M2, M3. Errors: failed, naming the law and the numbers.
  [[nodiscard]] Result<void> check_conservation() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
  const Time* clocks_ = nullptr;  ///< one per simulated thread
};

}  // namespace perdure::platform
