// Platform: the numbers of one server, as its TOML file gives them. Every number has a unit (in its
// name) and a source (in the file). platform_fields.cpp lists every member; a member that is not
// listed there cannot be set.
#pragma once

#include <cstdint>
#include <string>

namespace perdure::platform {

enum class PersistenceDomain : std::uint8_t { adr, eadr, none };

struct CacheShape {
  std::uint64_t bytes = 0;
  unsigned ways = 0;
  double latency_cycles = 0;
};

/// One thread's path to memory: what it can have under way, and what its own instructions cost.
struct CoreParameters {
  unsigned sockets = 2;
  unsigned cores_per_socket = 28;
  unsigned threads_per_core = 1;
  double clock_ghz = 2.7;
  CacheShape l1{32 << 10, 8, 4};
  CacheShape l2{1 << 20, 16, 14};
  CacheShape llc_per_core{1441792, 11, 70};
  unsigned llc_disorder_lines = 800;  ///< dirty lines among which the next to leave an LLC is drawn
  unsigned line_fill_buffers = 12;
  unsigned reorder_buffer_accesses = 72;  ///< loads that may issue past the oldest incomplete one
  unsigned l2_misses = 24;        ///< of demand and prefetch together; a prefetch beyond is dropped
  unsigned stores_ahead = 8;      ///< the next stores to be visible whose lines are asked for
  unsigned store_hit_places = 2;  ///< of these, for a run of stores that hit
  unsigned store_buffer_entries = 56;
  unsigned outstanding_write_backs = 18;  ///< flushed or streamed lines not yet accepted, per core
  double access_cycles = 0.5;             ///< issue of one load or store that hits L1
  double stream_hold_ns = 160;  ///< a streamed line holds its line-fill buffer until it is gone
  double flush_hold_ns = 62;    ///< the same of a flushed line
  double flush_gap_ns = 52;     ///< the flushed lines of a core leave one after the other
  double stream_extra_ns = 28;  ///< write-combining buffer to the mesh, beyond a flushed line
  double stream_again_ns = 30;  ///< a line that is being written delays its next version
  double snoop_ns = 25;         ///< asking another core of the socket, beyond the LLC
  double flush_cycles = 4;
  double stream_cycles = 4;
  double fence_cycles = 20;
  double atomic_cycles = 18;
  double pause_cycles = 140;
  bool hardware_transactions = true;
  double transaction_begin_cycles = 45;
  double transaction_commit_cycles = 15;
  double transaction_abort_cycles = 150;
  bool flush_keeps_line = false;  ///< clwb leaves the line in the cache
  bool huge_pages = true;         ///< 2 MiB pages; else 4 KiB
  unsigned tlb_entries = 64;      ///< first level, of the page size in use
  unsigned second_tlb_entries = 1536;
  double second_tlb_cycles = 7;
  double page_walk_cycles = 35;
  bool streamer = true;
  bool adjacent_line = true;
  double prefetch_patience_ns = 5000;  ///< queueing beyond which prefetches are held back
  unsigned streamer_lines = 20;        ///< how far ahead of a stream L2 fetches
};

struct LinkParameters {
  double latency_ns = 60;      ///< added to a remote access, both ways together
  double bandwidth_gb_s = 45;  ///< per direction, all links, of messages
  double hold_ns = 180;        ///< longer is a line-fill buffer held by what is written across
  double message_bytes = 16;   ///< a request or an answer without data
  double data_message_bytes = 80;
};

struct DramParameters {
  unsigned channels = 6;  ///< per socket
  std::uint64_t interleave_bytes = 256;
  double read_latency_ns = 88;    ///< whole load, row open
  double row_miss_ns = 13;        ///< added when it is not the bank's last row
  unsigned banks = 32;            ///< per channel
  double row_cycle_ns = 45;       ///< between two accesses to one bank
  double write_recovery_ns = 15;  ///< more, after a write
  std::uint64_t row_bytes = 8192;
  double line_read_ns = 3.4;  ///< channel occupancy of 64 B
  double line_write_ns = 4.64;
  double turnaround_ns = 0;     ///< of the bus, for a read among writes
  double write_burst_ns = 55;   ///< writes go in bursts, which a read waits for
  double write_accept_ns = 57;  ///< flushed line to the acceptance by the controller
  unsigned write_queue_lines = 48;
  double read_hold_ns = 0;  ///< line-fill buffer held by a line that is there already
};

/// One persistent-memory DIMM (or CXL device, or battery-backed DIMM: see `behaves_as_dram`).
struct PmParameters {
  bool present = true;
  bool behaves_as_dram = false;  ///< NVDIMM-N, CXL: no XPLines and no internal buffer
  unsigned dimms = 6;            ///< per socket with any; one channel each
  unsigned sockets_with_dimms = 2;
  std::uint64_t interleave_bytes = 4096;
  double read_hit_latency_ns = 175;   ///< whole load, line in a buffer of the DIMM
  double read_miss_latency_ns = 308;  ///< whole load, from the media
  double line_read_ns = 4.5;          ///< DDR-T occupancy of 64 B
  double line_write_ns = 4.5;
  double write_accept_ns = 62;          ///< flushed line until the controller has it
  unsigned write_queue_lines = 36;      ///< kept in order before arrivals compete for room
  double competing_write_share = 0.65;  ///< of those that wait for room; the rest keep order
  unsigned durable_queue_lines = 8;     ///< of them, at the controller: what ADR saves (WPQ)
  unsigned read_queue_lines = 56;       ///< reads kept in order before they compete
  unsigned competing_read_lines = 64;   ///< of those beyond; the rest keep order
  double hold_ns = 0;  ///< longer is a line-fill buffer held by what is written: beyond a link
  double piece_read_ns = 62;      ///< an XPLine under way: until its other lines are announced
  double media_read_ns = 36.6;    ///< between two XPLine reads
  double media_write_ns = 105.5;  ///< between two XPLine writes
  unsigned partitions = 5;        ///< a read waits for what is being written in its own
  double common_read_ns = 23;     ///< of what reads and writes both use
  double common_write_ns = 105.5;
  double read_modify_write_ns = 0;  ///< beyond the write, when the line is not whole
  unsigned writes_per_table_write = 57;
  unsigned write_buffer_xplines = 64;
  unsigned write_buffer_ways = 16;  ///< an XPLine goes into one set of so many entries
  unsigned victim_chances = 2;      ///< draws at eviction; a line not yet whole is passed over
  unsigned read_buffer_xplines = 64;
  bool fetches_on_open = true;  ///< the first piece of an XPLine makes the DIMM read it
  bool directory = true;        ///< remote reads write directory bits
  std::uint64_t address_cache_bytes = 16 << 20;
  double address_miss_ns = 67;
  std::uint64_t wear_levelling_writes = 16000;
  double wear_levelling_stall_ns = 52000;
};

struct Platform {
  std::string name;
  std::string title;
  PersistenceDomain domain = PersistenceDomain::adr;
  CoreParameters cpu;
  LinkParameters link;
  DramParameters dram;
  PmParameters pm;

  [[nodiscard]] unsigned cpus() const noexcept {
    return cpu.sockets * cpu.cores_per_socket * cpu.threads_per_core;
  }
};

}  // namespace perdure::platform
