#include "platform/model/platform_fields.h"

#include <type_traits>
#include <vector>

namespace perdure::platform {
namespace {

template <auto part, auto member>
PlatformField field(std::string_view section, std::string_view key, std::string_view unit,
                    double minimum, double maximum, std::string_view what) {
  using Value = std::remove_cvref_t<decltype((Platform{}.*part).*member)>;
  constexpr FieldKind kind = std::is_same_v<Value, bool> ? FieldKind::boolean
                             : std::is_integral_v<Value> ? FieldKind::integer
                                                         : FieldKind::number;
  return {section,
          key,
          unit,
          kind,
          minimum,
          maximum,
          what,
          [](const Platform& p) { return static_cast<double>((p.*part).*member); },
          [](Platform& p, double value) { (p.*part).*member = static_cast<Value>(value); }};
}

template <auto cache, auto member>
PlatformField cache_field(std::string_view key, std::string_view unit, double minimum,
                          double maximum, std::string_view what) {
  using Value = std::remove_cvref_t<decltype((CoreParameters{}.*cache).*member)>;
  constexpr FieldKind kind = std::is_integral_v<Value> ? FieldKind::integer : FieldKind::number;
  return {"cpu",
          key,
          unit,
          kind,
          minimum,
          maximum,
          what,
          [](const Platform& p) { return static_cast<double>((p.cpu.*cache).*member); },
          [](Platform& p, double value) { (p.cpu.*cache).*member = static_cast<Value>(value); }};
}

template <auto member>
PlatformField cpu(std::string_view key, std::string_view unit, double minimum, double maximum,
                  std::string_view what) {
  return field<&Platform::cpu, member>("cpu", key, unit, minimum, maximum, what);
}
template <auto member>
PlatformField link(std::string_view key, std::string_view unit, double minimum, double maximum,
                   std::string_view what) {
  return field<&Platform::link, member>("link", key, unit, minimum, maximum, what);
}
template <auto member>
PlatformField dram(std::string_view key, std::string_view unit, double minimum, double maximum,
                   std::string_view what) {
  return field<&Platform::dram, member>("dram", key, unit, minimum, maximum, what);
}
template <auto member>
PlatformField pm(std::string_view key, std::string_view unit, double minimum, double maximum,
                 std::string_view what) {
  return field<&Platform::pm, member>("pm", key, unit, minimum, maximum, what);
}

using C = CoreParameters;
using S = CacheShape;
using L = LinkParameters;
using D = DramParameters;
using P = PmParameters;

const PlatformField core_fields[] = {
    cpu<&C::sockets>("sockets", "", 1, 2, "sockets, each one NUMA node"),
    cpu<&C::cores_per_socket>("cores_per_socket", "", 1, 64, "cores of a socket"),
    cpu<&C::threads_per_core>("threads_per_core", "", 1, 2, "hardware threads of a core"),
    cpu<&C::clock_ghz>("clock_ghz", "GHz", 0.5, 6, "clock of the cores"),
    cache_field<&C::l1, &S::bytes>("l1_bytes", "B", 4096, 1 << 20, "first-level data cache"),
    cache_field<&C::l1, &S::ways>("l1_ways", "", 1, 32, "its ways"),
    cache_field<&C::l1, &S::latency_cycles>("l1_latency_cycles", "cycles", 1, 20,
                                            "load to use when it hits"),
    cache_field<&C::l2, &S::bytes>("l2_bytes", "B", 65536, 16 << 20, "second-level cache"),
    cache_field<&C::l2, &S::ways>("l2_ways", "", 1, 32, "its ways"),
    cache_field<&C::l2, &S::latency_cycles>("l2_latency_cycles", "cycles", 4, 60,
                                            "load to use when it hits"),
    cache_field<&C::llc_per_core, &S::bytes>("llc_bytes_per_core", "B", 65536, 64 << 20,
                                             "share of the last-level cache per core"),
    cache_field<&C::llc_per_core, &S::ways>("llc_ways", "", 1, 32, "its ways"),
    cache_field<&C::llc_per_core, &S::latency_cycles>("llc_latency_cycles", "cycles", 10, 300,
                                                      "load to use when it hits"),
    cpu<&C::llc_disorder_lines>("llc_disorder_lines", "", 0, 100000,
                                "dirty lines among which the next to leave an LLC is drawn"),
    cpu<&C::line_fill_buffers>("line_fill_buffers", "", 1, 64, "misses of a core under way"),
    cpu<&C::reorder_buffer_accesses>("reorder_buffer_accesses", "", 1, 512,
                                     "accesses that may issue past the oldest incomplete load"),
    cpu<&C::l2_misses>("l2_misses", "", 1, 64,
                       "misses of L2 under way beyond which prefetches are dropped"),
    cpu<&C::stores_ahead>("stores_ahead", "", 1, 64, "stores whose lines are asked for ahead"),
    cpu<&C::store_hit_places>("store_hit_places", "", 0, 64,
                              "of these, what a run of stores that hit takes"),
    cpu<&C::store_buffer_entries>("store_buffer_entries", "", 1, 256,
                                  "stores that wait for their line"),
    cpu<&C::outstanding_write_backs>("outstanding_write_backs", "", 1, 256,
                                     "flushed or streamed lines of a core not yet accepted"),
    cpu<&C::stream_again_ns>("stream_again_ns", "ns", 0, 1000,
                             "a streaming store waits for its line's last one, a line sent since"),
    cpu<&C::stream_hold_ns>("stream_hold_ns", "ns", 0, 5000,
                            "a streamed line on its way out holds its line-fill buffer"),
    cpu<&C::flush_hold_ns>("flush_hold_ns", "ns", 0, 5000,
                           "a flushed line on its way out holds its line-fill buffer"),
    cpu<&C::flush_gap_ns>("flush_gap_ns", "ns", 0, 5000,
                          "between two flushed lines that leave a core"),
    cpu<&C::stream_extra_ns>("stream_extra_ns", "ns", 0, 1000,
                             "a streamed line leaves this much later than a flushed one"),
    cpu<&C::snoop_ns>("snoop_ns", "ns", 0, 1000, "asking another core, beyond the LLC"),
};

const PlatformField instruction_fields[] = {
    cpu<&C::access_cycles>("access_cycles", "cycles", 0.1, 20, "issue of a load or store"),
    cpu<&C::flush_cycles>("flush_cycles", "cycles", 0, 500, "issue of a flush"),
    cpu<&C::stream_cycles>("stream_cycles", "cycles", 0, 500, "issue of 64 B of streaming store"),
    cpu<&C::fence_cycles>("fence_cycles", "cycles", 0, 500, "a fence with nothing to wait for"),
    cpu<&C::atomic_cycles>("atomic_cycles", "cycles", 1, 500, "a locked instruction that hits L1"),
    cpu<&C::pause_cycles>("pause_cycles", "cycles", 1, 1000, "the pause instruction"),
    cpu<&C::hardware_transactions>("hardware_transactions", "", 0, 1, "there are transactions"),
    cpu<&C::transaction_begin_cycles>("transaction_begin_cycles", "cycles", 0, 10000, "xbegin"),
    cpu<&C::transaction_commit_cycles>("transaction_commit_cycles", "cycles", 0, 10000, "xend"),
    cpu<&C::transaction_abort_cycles>("transaction_abort_cycles", "cycles", 0, 10000,
                                      "the way back to xbegin"),
    cpu<&C::flush_keeps_line>("flush_keeps_line", "", 0, 1, "clwb leaves the line in the cache"),
    cpu<&C::huge_pages>("huge_pages", "", 0, 1, "memory is mapped in 2 MiB pages, not 4 KiB"),
    cpu<&C::tlb_entries>("tlb_entries", "", 1, 4096, "first-level TLB, of the page size in use"),
    cpu<&C::second_tlb_entries>("second_tlb_entries", "", 1, 65536, "second-level TLB"),
    cpu<&C::second_tlb_cycles>("second_tlb_cycles", "cycles", 0, 100, "a hit in the second TLB"),
    cpu<&C::page_walk_cycles>("page_walk_cycles", "cycles", 0, 1000, "a page walk"),
    cpu<&C::streamer>("streamer", "", 0, 1, "the L2 streaming prefetcher is on"),
    cpu<&C::adjacent_line>("adjacent_line", "", 0, 1, "the adjacent-line prefetcher is on"),
    cpu<&C::prefetch_patience_ns>("prefetch_patience_ns", "ns", 0, 10000,
                                  "queueing of a line beyond which prefetches are held back"),
    cpu<&C::streamer_lines>("streamer_lines", "", 1, 64, "lines a stream is fetched ahead"),
};

const PlatformField memory_fields[] = {
    link<&L::latency_ns>("latency_ns", "ns", 0, 1000, "added to an access of the other socket"),
    link<&L::bandwidth_gb_s>("bandwidth_gb_s", "GB/s", 0.1, 1000, "per direction, all links"),
    link<&L::hold_ns>("hold_ns", "ns", 0, 5000,
                      "longer does a line on its way across hold its line-fill buffer"),
    link<&L::message_bytes>("message_bytes", "B", 1, 128, "a message without data"),
    link<&L::data_message_bytes>("data_message_bytes", "B", 64, 256, "a message with a line"),

    dram<&D::channels>("channels", "", 1, 16, "channels of a socket"),
    dram<&D::interleave_bytes>("interleave_bytes", "B", 64, 1 << 20, "run of one channel"),
    dram<&D::read_latency_ns>("read_latency_ns", "ns", 10, 1000, "idle load, row open"),
    dram<&D::row_miss_ns>("row_miss_ns", "ns", 0, 200, "added when it is not the bank's last row"),
    dram<&D::banks>("banks", "", 1, 512, "banks of a channel"),
    dram<&D::row_cycle_ns>("row_cycle_ns", "ns", 0, 1000, "between two accesses to one bank"),
    dram<&D::write_recovery_ns>("write_recovery_ns", "ns", 0, 1000, "more, after a write"),
    dram<&D::row_bytes>("row_bytes", "B", 64, 1 << 20, "row of a bank"),
    dram<&D::line_read_ns>("line_read_ns", "ns", 0.1, 100, "channel time of a 64 B read"),
    dram<&D::line_write_ns>("line_write_ns", "ns", 0.1, 100, "channel time of a 64 B write"),
    dram<&D::turnaround_ns>("turnaround_ns", "ns", 0, 100, "bus time lost by a read among writes"),
    dram<&D::write_burst_ns>("write_burst_ns", "ns", 0, 1000,
                             "a burst of writes, which a read waits for"),
    dram<&D::write_accept_ns>("write_accept_ns", "ns", 1, 1000,
                              "a flushed line until the controller has it"),
    dram<&D::write_queue_lines>("write_queue_lines", "", 1, 256, "write queue of a channel"),
    dram<&D::read_hold_ns>("read_hold_ns", "ns", 0, 1000,
                           "a line that is there holds its line-fill buffer"),
};

const PlatformField pm_fields[] = {
    pm<&P::present>("present", "", 0, 1, "there is persistent memory"),
    pm<&P::behaves_as_dram>("behaves_as_dram", "", 0, 1, "no XPLines and no internal buffer"),
    pm<&P::dimms>("dimms", "", 1, 16, "interleaved DIMMs of a socket"),
    pm<&P::sockets_with_dimms>("sockets_with_dimms", "", 1, 2, "1: only node 0 has any"),
    pm<&P::interleave_bytes>("interleave_bytes", "B", 64, 1 << 30, "run of one DIMM"),
    pm<&P::read_hit_latency_ns>("read_hit_latency_ns", "ns", 10, 5000,
                                "idle load served by the DIMM's buffer"),
    pm<&P::read_miss_latency_ns>("read_miss_latency_ns", "ns", 10, 5000,
                                 "idle load served by the media"),
    pm<&P::line_read_ns>("line_read_ns", "ns", 0.1, 100, "DDR-T time of a 64 B read"),
    pm<&P::line_write_ns>("line_write_ns", "ns", 0.1, 100, "DDR-T time of a 64 B write"),
    pm<&P::write_accept_ns>("write_accept_ns", "ns", 1, 1000,
                            "a flushed line until the write queue has it"),
    pm<&P::write_queue_lines>("write_queue_lines", "", 1, 256,
                              "write queue of a channel; what waits for it competes for room"),
    pm<&P::competing_write_share>("competing_write_share", "", 0, 1,
                                  "of the lines that wait for room, those that compete"),
    pm<&P::durable_queue_lines>("durable_queue_lines", "", 1, 256,
                                "of them, at the controller: a line there is durable under ADR"),
    pm<&P::read_queue_lines>("read_queue_lines", "", 1, 256,
                             "read queue of a channel; what waits for it competes for room"),
    pm<&P::competing_read_lines>("competing_read_lines", "", 1, 4096,
                                 "of the reads that wait for room, those that compete"),
    pm<&P::hold_ns>("hold_ns", "ns", 0, 5000,
                    "longer does a line on its way out hold its line-fill buffer"),
    pm<&P::piece_read_ns>("piece_read_ns", "ns", 0, 5000,
                          "what other lines of an XPLine wait for, once it is being read"),
    pm<&P::partitions>("partitions", "", 1, 64,
                       "of the media; a read waits for a write in its own"),
    pm<&P::media_read_ns>("media_read_ns", "ns", 0.1, 5000, "between two XPLine reads"),
    pm<&P::media_write_ns>("media_write_ns", "ns", 0.1, 5000, "between two XPLine writes"),
    pm<&P::common_read_ns>("common_read_ns", "ns", 0, 5000,
                           "an XPLine read's share of what reads and writes have in common"),
    pm<&P::common_write_ns>("common_write_ns", "ns", 0, 5000, "an XPLine write's share"),
    pm<&P::read_modify_write_ns>("read_modify_write_ns", "ns", 0, 5000,
                                 "added to the write of an XPLine that is not whole"),
    pm<&P::writes_per_table_write>("writes_per_table_write", "", 1, 1e9,
                                   "media writes to each one that the DIMM does for itself"),
    pm<&P::write_buffer_xplines>("write_buffer_xplines", "", 1, 4096, "XPLines it can merge"),
    pm<&P::write_buffer_ways>("write_buffer_ways", "", 1, 4096, "its ways"),
    pm<&P::victim_chances>("victim_chances", "", 1, 16,
                           "draws at an eviction, to pass over lines not yet whole"),
    pm<&P::read_buffer_xplines>("read_buffer_xplines", "", 1, 4096, "XPLines kept after reads"),
    pm<&P::fetches_on_open>("fetches_on_open", "", 0, 1,
                            "the first piece of an XPLine makes the DIMM read the rest"),
    pm<&P::directory>("directory", "", 0, 1, "remote reads write directory bits to memory"),
    pm<&P::address_cache_bytes>("address_cache_bytes", "B", 4096, 1e12,
                                "media covered by the address-indirection cache"),
    pm<&P::address_miss_ns>("address_miss_ns", "ns", 0, 5000, "added when it misses"),
    pm<&P::wear_levelling_writes>("wear_levelling_writes", "", 1, 1e12,
                                  "writes of one XPLine between two stalls"),
    pm<&P::wear_levelling_stall_ns>("wear_levelling_stall_ns", "ns", 0, 1e9, "such a stall"),
};

}  // namespace

std::span<const PlatformField> platform_fields() noexcept {
  static const std::vector<PlatformField> all = [] {
    std::vector<PlatformField> joined;
    for (const std::span<const PlatformField> part : {std::span<const PlatformField>(core_fields),
                                                      {instruction_fields},
                                                      {memory_fields},
                                                      {pm_fields}})
      joined.insert(joined.end(), part.begin(), part.end());
    return joined;
  }();
  return all;
}

}  // namespace perdure::platform
