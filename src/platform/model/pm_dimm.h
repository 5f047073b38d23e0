// PmDimm: one persistent-memory DIMM behind its DDR-T link.
//
//   write, 64 B -> write buffer: XPLines of 256 B with a valid bit per piece -> media, 256 B
//   read, 64 B  <- write buffer, else read buffer, else media, 256 B
//
// D1  every piece that was written is in the write buffer or was written to media since.
// D2  an XPLine occupies at most one entry of the write buffer.
// D3  media work: writes and reads each have their own rate, and one that both use.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/rng.h"
#include "platform/model/cache_tags.h"
#include "platform/model/counters.h"
#include "platform/model/divisor.h"
#include "platform/model/machine.h"
#include "platform/model/server.h"

namespace perdure::platform {

class PmDimm {
 public:
  PmDimm(const PmParameters& parameters, const Ablation& ablation, std::uint64_t seed);

  /// A 64 B write that reaches the DIMM at `at`; returns when the buffer has taken it.
  Time write(LineAddress line, Time at, ChannelCounters& counters);
  /// The same, but it changes only the directory bits that lie beside the line's data: data that
  /// come while it is in the buffer replace it.
  Time write_directory(LineAddress line, Time at, ChannelCounters& counters);

  struct Read {
    Time waited = 0;   ///< for the media or for other requests
    bool hit = false;  ///< served by a buffer
    bool address_hit = true;
  };
  /// A 64 B read. Idle latencies are the caller's to add, by `hit` and `address_hit`.
  Read read(LineAddress line, Time at, ChannelCounters& counters);
  /// The same from the media, even where a buffer holds the line.
  Read read_media(LineAddress line, Time at, ChannelCounters& counters);

  /// Pieces in the write buffer.
  [[nodiscard]] std::uint64_t dirty_bytes() const noexcept;
  /// D1: pieces in = pieces out + pieces overwritten in the buffer + pieces there.
  [[nodiscard]] bool conserves() const noexcept;

 private:
  using XpLine = std::uint64_t;  ///< line >> 2
  static constexpr unsigned whole = 0xf;

  /// An XPLine being put together; one bit per 64 B.
  struct Entry {
    std::uint8_t pieces = 0;
    bool known = false;          ///< its other bytes were read when it was opened, or before
    std::uint8_t directory = 0;  ///< of them, with new directory bits only
    /// When directory bits first changed since it was opened. A read that came earlier was called
    /// later: cores run ahead of each other.
    Time directory_from = ~Time{0};
    std::uint64_t order = 0;  ///< for the LRU ablation only
  };

  struct Wear {
    XpLine line;
    std::uint64_t writes;
  };

  /// The entries that a line may be in: [at, at + used).
  struct Set {
    std::size_t at;
    std::uint32_t& used;
  };
  [[nodiscard]] Set set_of(XpLine line) noexcept;
  [[nodiscard]] std::size_t find(XpLine line) noexcept;
  [[nodiscard]] std::size_t choose_victim(Set set) noexcept;
  /// Writes entry `at` to the media; returns when the media starts on it.
  Time write_out(std::size_t at, Time from, ChannelCounters& counters);
  void free_entry(std::size_t at) noexcept;
  /// When the partition of a line has finished what is being written there.
  [[nodiscard]] Time end_of_write_beside(XpLine line, Time at) const noexcept;
  /// Idle media write whole lines out, the oldest first, up to `now`.
  void note_completion(XpLine line, Time at);
  void write_out_complete(Time now, ChannelCounters& counters);
  [[nodiscard]] Time stall_of_wear(XpLine line, ChannelCounters& counters);
  /// Whether it was there.
  bool take_from_read_buffer(XpLine line) noexcept;
  /// Its last version is in the buffer still, until the media have it.
  [[nodiscard]] bool is_being_written(XpLine line, Time at) const noexcept;

  const PmParameters& parameters_;
  const Ablation& ablation_;
  Rng rng_;
  Time write_piece(LineAddress line, Time at, ChannelCounters& counters, bool directory);
  [[nodiscard]] static bool complete(const Entry& entry) noexcept {
    return entry.pieces == whole && entry.directory == 0;
  }
  // Write buffer: sets of `ways_` entries, the used ones first, in no order. Tags lie apart,
  // because they are searched at every access.
  std::vector<XpLine> tags_;
  std::vector<Entry> entries_;
  unsigned ways_;
  Divisor sets_, partition_count_;
  std::vector<std::uint32_t> used_;  ///< of each set
  struct Completion {
    XpLine line;
    Time at;
  };
  std::vector<Completion> completed_;  ///< in order of time; some have left since
  std::size_t first_completed_ = 0;
  std::uint64_t clock_ = 0;
  /// The last lines that went to the media, in a ring, and when these had each.
  struct Written {
    XpLine line = ~XpLine{0};
    Time end = 0;
  };
  std::array<Written, 8> written_;
  unsigned next_written_ = 0;
  std::vector<XpLine> read_tags_;
  std::vector<Time> read_ready_;
  CacheTags addresses_;
  std::vector<Wear> wear_;
  std::uint64_t media_writes_ = 0;
  std::uint64_t pieces_in_ = 0, pieces_out_ = 0, pieces_overwritten_ = 0;
  Server reads_, writes_, common_;
  Time media_read_, media_write_, common_read_, common_write_, write_under_way_;
};

}  // namespace perdure::platform
