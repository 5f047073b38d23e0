// What the numbers of a platform must be to each other.
#include "platform/description/description.h"

namespace perdure::platform {
namespace {

constexpr std::uint64_t line_bytes = 64;

struct Rule {
  const char* field;  ///< the one to blame,
  const char* other;  ///< unless only this one is written in the file itself
  const char* what;
  const char* remedy;
  bool (*broken)(const Platform&);
};

bool splits_evenly(const CacheShape& cache) { return cache.bytes % (line_bytes * cache.ways) == 0; }

const Rule rules[] = {
    {"cpu.l1_bytes", "cpu.l1_ways", "cpu.l1_bytes is no multiple of 64 B times cpu.l1_ways",
     "change one of them", [](const Platform& p) { return !splits_evenly(p.cpu.l1); }},
    {"cpu.l2_bytes", "cpu.l2_ways", "cpu.l2_bytes is no multiple of 64 B times cpu.l2_ways",
     "change one of them", [](const Platform& p) { return !splits_evenly(p.cpu.l2); }},
    {"cpu.llc_bytes_per_core", "cpu.llc_ways",
     "cpu.llc_bytes_per_core times cores is no multiple of 64 B times cpu.llc_ways",
     "change one of them",
     [](const Platform& p) {
       return p.cpu.llc_per_core.bytes * p.cpu.cores_per_socket %
                  (line_bytes * p.cpu.llc_per_core.ways) !=
              0;
     }},
    {"cpu.l2_bytes", "cpu.l1_bytes", "cpu.l2_bytes is smaller than cpu.l1_bytes",
     "a lower level is larger", [](const Platform& p) { return p.cpu.l2.bytes < p.cpu.l1.bytes; }},
    {"cpu.l2_latency_cycles", "cpu.l1_latency_cycles",
     "cpu.l2_latency_cycles is below cpu.l1_latency_cycles", "a lower level is slower",
     [](const Platform& p) { return p.cpu.l2.latency_cycles < p.cpu.l1.latency_cycles; }},
    {"cpu.llc_latency_cycles", "cpu.l2_latency_cycles",
     "cpu.llc_latency_cycles is below cpu.l2_latency_cycles", "a lower level is slower",
     [](const Platform& p) { return p.cpu.llc_per_core.latency_cycles < p.cpu.l2.latency_cycles; }},
    {"cpu.second_tlb_entries", "cpu.tlb_entries", "cpu.second_tlb_entries is below cpu.tlb_entries",
     "the second level is larger",
     [](const Platform& p) { return p.cpu.second_tlb_entries < p.cpu.tlb_entries; }},
    {"pm.sockets_with_dimms", "cpu.sockets", "pm.sockets_with_dimms is more than cpu.sockets",
     "lower it", [](const Platform& p) { return p.pm.sockets_with_dimms > p.cpu.sockets; }},
    {"pm.read_hit_latency_ns", "pm.read_miss_latency_ns",
     "pm.read_hit_latency_ns is above pm.read_miss_latency_ns", "a hit is the faster one",
     [](const Platform& p) { return p.pm.read_hit_latency_ns > p.pm.read_miss_latency_ns; }},
    {"pm.write_buffer_xplines", "pm.write_buffer_ways",
     "pm.write_buffer_xplines is no multiple of pm.write_buffer_ways", "change one of them",
     [](const Platform& p) { return p.pm.write_buffer_xplines % p.pm.write_buffer_ways != 0; }},
    {"pm.interleave_bytes", "pm.interleave_bytes", "pm.interleave_bytes is no multiple of 64 B",
     "4096 is usual", [](const Platform& p) { return p.pm.interleave_bytes % line_bytes != 0; }},
    {"dram.interleave_bytes", "dram.interleave_bytes",
     "dram.interleave_bytes is no multiple of 64 B", "256 is usual",
     [](const Platform& p) { return p.dram.interleave_bytes % line_bytes != 0; }},
    {"dram.row_bytes", "dram.row_bytes", "dram.row_bytes is no multiple of 64 B", "8192 is usual",
     [](const Platform& p) { return p.dram.row_bytes % line_bytes != 0; }},
};

const DescribedValue* find(const PlatformDescription& description, std::string_view path) {
  for (const DescribedValue& value : description.values)
    if (value.field != nullptr && path.starts_with(value.field->section) &&
        path.substr(value.field->section.size() + 1) == value.field->key)
      return &value;
  return nullptr;
}

// Of two numbers that disagree, the one in the user's own file is the one he can change.
std::string place_of(const PlatformDescription& description, std::string_view field,
                     std::string_view other) {
  const DescribedValue* const first = find(description, field);
  const DescribedValue* const second = find(description, other);
  const auto is_own = [](const DescribedValue* value) {
    return value != nullptr && value->platform.empty();
  };
  if (!is_own(first) && is_own(second)) return second->place;
  if (first != nullptr) return first->place;
  return description.file.string() + ":1";
}

}  // namespace

Result<void> check_platform(const PlatformDescription& description) {
  const Platform& platform = description.platform;
  for (const Rule& rule : rules)
    if (rule.broken(platform))
      return Error{ErrorCode::bad_input, rule.what, place_of(description, rule.field, rule.other),
                   rule.remedy};
  if (!platform.pm.present && platform.domain != PersistenceDomain::none)
    return Error{ErrorCode::bad_input,
                 std::string("persistence_domain is ") + name_of(platform.domain) +
                     ", and pm.present is false",
                 description.domain_place.empty()
                     ? place_of(description, "pm.present", "pm.present")
                     : description.domain_place,
                 "give persistence_domain = \"none\", or say that there is persistent memory"};
  return {};
}

}  // namespace perdure::platform
