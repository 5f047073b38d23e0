#include "driver/environment.h"

#include <cpuid.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "core/rng.h"
#include "driver/clock.h"
#include "driver/topology.h"
#include "pm/pm.h"

namespace perdure::driver {
namespace {

namespace fs = std::filesystem;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::uint64_t number_in(const std::string& path, std::uint64_t fallback) {
  const std::string line = first_line(path);
  std::uint64_t number = 0;
  const bool hexadecimal = line.starts_with("0x");
  const char* const first = line.data() + (hexadecimal ? 2 : 0);
  const auto parsed =
      std::from_chars(first, line.data() + line.size(), number, hexadecimal ? 16 : 10);
  return parsed.ec == std::errc{} && parsed.ptr != first ? number : fallback;
}

// "always [madvise] never" -> "madvise"
std::string chosen_in(const std::string& path) {
  const std::string line = first_line(path);
  const auto open = line.find('[');
  const auto close = line.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return "unknown";
  return line.substr(open + 1, close - open - 1);
}

// The value of the first "name : value" line of a /proc file.
std::string field(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const auto begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::vector<std::string> sorted_entries(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

bool is_numbered(const std::string& name, const std::string& prefix) {
  return name.size() > prefix.size() && name.starts_with(prefix) && name[prefix.size()] >= '0' &&
         name[prefix.size()] <= '9';
}

unsigned count_numbered(const std::string& folder, const std::string& prefix) {
  const auto names = sorted_entries(folder);
  return static_cast<unsigned>(
      std::ranges::count_if(names, [&](const auto& name) { return is_numbered(name, prefix); }));
}

std::vector<MemoryDevice> find_devices(const std::string& root) {
  std::vector<MemoryDevice> devices;
  for (const std::string& name : sorted_entries(root + "/dev"))
    if (is_numbered(name, "dax"))
      devices.push_back({"devdax", "/dev/" + name,
                         number_in(root + "/sys/bus/dax/devices/" + name + "/size", 0)});
    else if (is_numbered(name, "pmem"))
      devices.push_back({"pmem", "/dev/" + name,
                         512 * number_in(root + "/sys/class/block/" + name + "/size", 0)});
  for (const std::string& name : sorted_entries(root + "/sys/bus/nd/devices"))
    if (is_numbered(name, "region"))
      devices.push_back({"nvdimm_region", "/sys/bus/nd/devices/" + name,
                         number_in(root + "/sys/bus/nd/devices/" + name + "/size", 0)});
  for (const std::string& name : sorted_entries(root + "/sys/bus/cxl/devices"))
    if (is_numbered(name, "mem"))
      devices.push_back({"cxl", "/sys/bus/cxl/devices/" + name,
                         number_in(root + "/sys/bus/cxl/devices/" + name + "/ram/size", 0) +
                             number_in(root + "/sys/bus/cxl/devices/" + name + "/pmem/size", 0)});
  return devices;
}

std::string read_turbo(const std::string& root) {
  const std::string no_turbo = first_line(root + "/sys/devices/system/cpu/intel_pstate/no_turbo");
  if (!no_turbo.empty()) return no_turbo == "0" ? "on" : "off";
  const std::string boost = first_line(root + "/sys/devices/system/cpu/cpufreq/boost");
  if (!boost.empty()) return boost == "1" ? "on" : "off";
  return "unknown";
}

std::vector<std::string> present_features(const std::string& root) {
  static constexpr std::array wanted = {"sse4_2",       "avx2",        "avx512f",   "avx512bw",
                                        "clflush",      "clflushopt",  "clwb",      "rtm",
                                        "constant_tsc", "nonstop_tsc", "hypervisor"};
  std::istringstream flags(field(root + "/proc/cpuinfo", "flags"));
  std::set<std::string> present;
  for (std::string flag; flags >> flag;) present.insert(flag);
  std::vector<std::string> found;
  for (const char* name : wanted)
    if (present.contains(name)) found.emplace_back(name);
  return found;
}

bool reports_rtm() noexcept {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (ebx & (1U << 11)) != 0;
}

std::vector<std::pair<std::string, std::string>> find_pmdk_variables() {
  std::vector<std::pair<std::string, std::string>> found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!text.starts_with("PMEM")) continue;
    const auto equals = std::min(text.find('='), text.size() - 1);
    found.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  std::ranges::sort(found);
  return found;
}

// FNV-1a over what decides speed; no name of the host, which changes with every container.
std::string fingerprint_of(const Environment& environment) {
  std::ostringstream text;
  text << environment.cpu << '|' << environment.cores << '|' << environment.logical_cores << '|'
       << (environment.memory_bytes >> 30) << '|' << environment.kernel << '|'
       << environment.numa_nodes;
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text.str()) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx",
                static_cast<unsigned long long>(mix64(hash)));
  return digits.data();
}

}  // namespace

Environment read_environment(const std::string& root) {
  Environment environment;
  environment.cpu = field(root + "/proc/cpuinfo", "model name");
  if (environment.cpu.empty()) environment.cpu = "unknown";

  const auto cores = usable_cores(root + "/sys");
  std::set<std::pair<unsigned, unsigned>> physical;
  for (const Core& core : cores) physical.emplace(core.package, core.core_id);
  environment.cores = static_cast<unsigned>(physical.size());
  environment.logical_cores = static_cast<unsigned>(cores.size());

  std::istringstream memory(field(root + "/proc/meminfo", "MemTotal"));
  std::uint64_t kibibytes = 0;
  if (memory >> kibibytes) environment.memory_bytes = kibibytes << 10;

  utsname system{};
  environment.kernel = uname(&system) == 0 ? system.release : "unknown";
  environment.numa_nodes = std::max(1U, count_numbered(root + "/sys/devices/system/node", "node"));

  environment.flush = pm::name_of(pm::persist_mode().flush);
  environment.simd = pm::name_of(pm::detail::simd_level);
  environment.transactions = !pm::transactions_available() ? "unavailable"
                             : pm::transactions_on()       ? "rtm"
                                                           : "off";
  const std::string pages = root + "/sys/kernel/mm/transparent_hugepage/";
  environment.huge_pages = "anonymous " + chosen_in(pages + "enabled") + ", shared memory " +
                           chosen_in(pages + "shmem_enabled");
  environment.governor = first_line(root + "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (environment.governor.empty()) environment.governor = "unknown";
  environment.turbo = read_turbo(root);
  environment.pmdk_variables = find_pmdk_variables();
  environment.host_fingerprint = fingerprint_of(environment);

  environment.cpu_features = present_features(root);
  environment.rtm_reported = reports_rtm();
  environment.invariant_counter = has_invariant_counter();
  std::ifstream paranoid(root + "/proc/sys/kernel/perf_event_paranoid");
  if (int level = 0; paranoid >> level) environment.perf_event_paranoid = level;
  struct statvfs shared {};
  if (statvfs((root + "/dev/shm").c_str(), &shared) == 0)
    environment.shared_memory_free_bytes =
        static_cast<std::uint64_t>(shared.f_bavail) * shared.f_frsize;
  environment.memory_room = memory_room(root);
  environment.cpu_quota = cpu_quota(root);
  environment.devices = find_devices(root);
  environment.memory_nodes = memory_nodes(root + "/sys");
  return environment;
}

nlohmann::ordered_json record_of(const Environment& environment, const std::string& medium) {
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  for (const auto& [name, value] : environment.pmdk_variables) variables[name] = value;
  return {{"cpu", environment.cpu},
          {"cores", environment.cores},
          {"memory_bytes", environment.memory_bytes},
          {"kernel", environment.kernel},
          {"numa_nodes", environment.numa_nodes},
          {"flush", environment.flush},
          {"simd", environment.simd},
          {"transactions", environment.transactions},
          {"medium", medium},
          {"huge_pages", environment.huge_pages},
          {"governor", environment.governor},
          {"pmdk_variables", std::move(variables)},
          {"host_fingerprint", environment.host_fingerprint}};
}

nlohmann::ordered_json facts_of(const Environment& environment) {
  nlohmann::ordered_json facts = record_of(environment, "none");
  facts.erase("medium");
  facts["logical_cores"] = environment.logical_cores;
  facts["turbo"] = environment.turbo;
  facts["cpu_features"] = environment.cpu_features;
  facts["rtm"] = {{"reported", environment.rtm_reported},
                  {"usable", environment.transactions != "unavailable"}};
  facts["invariant_tsc"] = environment.invariant_counter;
  if (environment.perf_event_paranoid == 99)
    facts["perf_event_paranoid"] = nullptr;
  else
    facts["perf_event_paranoid"] = environment.perf_event_paranoid;
  facts["shared_memory_free_bytes"] = environment.shared_memory_free_bytes;
  if (environment.memory_room.bytes == Room::unknown)
    facts["memory_room"] = nullptr;
  else
    facts["memory_room"] = {{"bytes", environment.memory_room.bytes},
                            {"bound", environment.memory_room.bound}};
  if (environment.cpu_quota)
    facts["cpu_quota"] = {{"cores", environment.cpu_quota->cores},
                          {"group", environment.cpu_quota->group}};
  else
    facts["cpu_quota"] = nullptr;
  nlohmann::ordered_json persistent = nlohmann::ordered_json::array();
  nlohmann::ordered_json cxl = nlohmann::ordered_json::array();
  for (const MemoryDevice& device : environment.devices)
    (device.kind == "cxl" ? cxl : persistent)
        .push_back({{"kind", device.kind}, {"path", device.path}, {"bytes", device.bytes}});
  facts["pm_devices"] = std::move(persistent);
  facts["cxl_devices"] = std::move(cxl);
  nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
  for (const MemoryNode& node : environment.memory_nodes)
    nodes.push_back({{"node", node.number}, {"bytes", node.bytes}});
  facts["memory_nodes"] = std::move(nodes);
  return facts;
}

std::vector<std::string> pmdk_warnings_of(const Environment& environment) {
  struct Effect {
    const char* name;
    const char* says;
  };
  static constexpr std::array effects = {
      Effect{"PMEM_NO_CLWB", "libpmem flushes without clwb"},
      Effect{"PMEM_NO_CLFLUSHOPT", "libpmem flushes without clflushopt"},
      Effect{"PMEM_NO_FLUSH", "libpmem may flush nothing"},
      Effect{"PMEM_NO_MOVNT", "libpmem copies without streaming stores"},
      Effect{"PMEM_MOVNT_THRESHOLD", "libpmem streams copies of another length than it would"},
      Effect{"PMEM_NO_GENERIC_MEMCPY", "libpmem copies with the C library's memcpy"},
      Effect{"PMEM_AVX", "libpmem copies with other instructions than it would"},
      Effect{"PMEM_AVX512F", "libpmem copies with other instructions than it would"},
      Effect{"PMEM_MOVDIR64B", "libpmem copies with other instructions than it would"},
      Effect{"PMEM_WC_WORKAROUND", "libpmem orders its streaming stores otherwise"},
      Effect{"PMEM2_FORCE_GRANULARITY", "libpmem2 takes the medium for another than it is"},
      Effect{"PMEMOBJ_CONF", "libpmemobj is configured otherwise than by default"},
      Effect{"PMEMOBJ_CONF_FILE", "libpmemobj is configured otherwise than by default"},
      Effect{"PMEMOBJ_NLANES", "libpmemobj has another number of lanes, which transactions share"}};
  std::vector<std::string> warnings;
  for (const auto& [name, value] : environment.pmdk_variables) {
    const auto effect = std::ranges::find(effects, name, &Effect::name);
    if (effect != effects.end())
      warnings.push_back(name + "=" + value + " is set: " + effect->says);
    else if (name == "PMEM_IS_PMEM_FORCE" && value != "1")
      warnings.push_back(name + "=" + value +
                         " is set: libpmem calls msync where it would flush cache lines");
  }
  return warnings;
}

std::vector<std::string> warnings_of(const Environment& environment) {
  std::vector<std::string> warnings;
  if (environment.governor == "unknown")
    warnings.emplace_back("the frequency governor is unknown: the clock rate may have changed");
  else if (environment.governor != "performance")
    warnings.push_back("the frequency governor is '" + environment.governor +
                       "', not 'performance': the clock rate may have changed");
  if (environment.turbo == "unknown")
    warnings.emplace_back("whether turbo is on is unknown: the clock rate may depend on the load");
  else if (environment.turbo == "on")
    warnings.emplace_back("turbo is on: the clock rate depends on the load and the temperature");
  if (!environment.invariant_counter)
    warnings.emplace_back(
        "the time stamp counter is not invariant: latencies are read with clock_gettime");
  return warnings;
}

}  // namespace perdure::driver
