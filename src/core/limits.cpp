#include "core/limits.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

namespace perdure {
namespace {

/// Where a hierarchy of control groups is mounted, and which of its groups is seen there.
struct Mount {
  std::string group;
  std::string folder;
};

bool names(std::string_view list, std::string_view name) {
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (list.substr(begin, end - begin) == name) return true;
    begin = end + 1;
  }
  return false;
}

// The kernel writes a space in a path as "\040".
std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    unsigned code = 0;
    const char* const digits = text.data() + at + 1;
    if (text[at] == '\\' && at + 3 < text.size() &&
        std::from_chars(digits, digits + 3, code, 8).ptr == digits + 3) {
      plain += static_cast<char>(code);
      at += 3;
    } else {
      plain += text[at];
    }
  }
  return plain;
}

// "36 35 0:30 GROUP FOLDER rw,relatime shared:1 - TYPE SOURCE OPTIONS". `controller` empty:
// cgroup2.
std::vector<Mount> mounts_of(const std::string& root, std::string_view controller) {
  std::vector<Mount> mounts;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::string type;
    std::string source;
    std::string options;
    std::istringstream(line.substr(dash + 3)) >> type >> source >> options;
    if (controller.empty() ? type != "cgroup2" : type != "cgroup" || !names(options, controller))
      continue;
    std::string skipped;
    Mount mount;
    std::istringstream(line.substr(0, dash)) >> skipped >> skipped >> skipped >> mount.group >>
        mount.folder;
    mounts.push_back({unescaped(mount.group), unescaped(mount.folder)});
  }
  return mounts;
}

// A group's path below the mounted one. Empty where it lies elsewhere: a container may be shown its
// own group as if it were the hierarchy's root, under a path of the host.
std::string below(const Mount& mount, const std::string& group) {
  const std::string start = mount.group == "/" ? "" : mount.group;
  if (group.find("/..") != std::string::npos || !group.starts_with(start + "/")) return "";
  const std::string rest = group.substr(start.size());
  return rest == "/" ? "" : rest;
}

// The folders of a group and of all around it, as far as they are mounted.
void add_folders(const std::string& root, std::string_view controller, const std::string& group,
                 std::vector<std::string>& folders) {
  const std::vector<Mount> mounts = mounts_of(root, controller);
  if (mounts.empty()) return;
  const auto nearest = std::ranges::max_element(
      mounts, {}, [&group](const Mount& mount) { return below(mount, group).size(); });
  std::string path = below(*nearest, group);
  for (;; path.resize(path.rfind('/'))) {
    folders.push_back(nearest->folder + path);
    if (path.empty()) return;
  }
}

// Lines "5:cpu,cpuacct:/group" of the first version, and "0::/group" of the second.
std::vector<std::string> group_folders(const std::string& root, std::string_view controller) {
  std::vector<std::string> folders;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty())
      add_folders(root, "", group, folders);
    else if (names(controllers, controller))
      add_folders(root, controller, group, folders);
  }
  return folders;
}

std::optional<std::uint64_t> number_in(const std::string& path) {
  std::uint64_t number = 0;
  if (std::ifstream file(path); file >> number) return number;
  return std::nullopt;  // no such file, or "max"
}

// Of the first of `names` that a file of lines "name number" has.
std::uint64_t field(const std::string& path, std::initializer_list<std::string_view> names) {
  std::vector<std::pair<std::string, std::uint64_t>> fields;
  std::ifstream file(path);
  for (std::string name; file >> name;) {
    std::uint64_t number = 0;
    file >> number;
    fields.emplace_back(std::move(name), number);
    file.ignore(256, '\n');
  }
  for (const std::string_view name : names)
    for (const auto& [found, number] : fields)
      if (found == name) return number;
  return 0;
}

void bound_by_group(const std::string& root, const std::string& folder, Room& room) {
  struct Limit {
    const char* name;
    const char* usage;
  };
  static constexpr std::array limits = {Limit{"memory.max", "memory.current"},
                                        Limit{"memory.high", "memory.current"},
                                        Limit{"memory.limit_in_bytes", "memory.usage_in_bytes"}};
  for (const Limit& each : limits) {
    const auto limit = number_in(root + folder + "/" + each.name);
    const auto usage = number_in(root + folder + "/" + each.usage);
    if (!limit || !usage) continue;
    const std::uint64_t reclaimable =
        field(root + folder + "/memory.stat", {"total_inactive_file", "inactive_file"});
    const std::uint64_t held = *usage - std::min(*usage, reclaimable);
    const std::uint64_t left = *limit - std::min(*limit, held);
    if (left >= room.bytes) continue;
    room.bytes = left;
    room.bound = "the control group's limit of " + std::to_string(*limit >> 20) + " MiB (" +
                 folder + "/" + each.name + ")";
  }
}

// "50000 100000" or "max 100000", in microseconds.
std::optional<double> quota_of(const std::string& folder) {
  double quota = 0;
  double period = 0;
  if (std::ifstream file(folder + "/cpu.max"); file >> quota >> period && period > 0)
    return quota / period;
  if (std::ifstream file(folder + "/cpu.cfs_quota_us"); !(file >> quota) || quota <= 0)
    return std::nullopt;
  if (std::ifstream file(folder + "/cpu.cfs_period_us"); !(file >> period) || period <= 0)
    return std::nullopt;
  return quota / period;
}

}  // namespace

Room memory_room(const std::string& root) {
  Room room;
  std::ifstream file(root + "/proc/meminfo");
  for (std::string name; file >> name;) {
    std::uint64_t kibibytes = 0;
    file >> kibibytes;
    if (name == "MemAvailable:") room = {kibibytes << 10, "this machine's memory"};
    file.ignore(64, '\n');
  }
  for (const std::string& folder : group_folders(root, "memory"))
    bound_by_group(root, folder, room);
  return room;
}

std::optional<CpuQuota> cpu_quota(const std::string& root) {
  std::optional<CpuQuota> least;
  for (const std::string& folder : group_folders(root, "cpu")) {
    const auto cores = quota_of(root + folder);
    if (cores && (!least || *cores < least->cores)) least = CpuQuota{*cores, folder};
  }
  return least;
}

std::uint64_t throttled_periods(const std::string& root) {
  std::uint64_t periods = 0;
  for (const std::string& folder : group_folders(root, "cpu"))
    periods += field(root + folder + "/cpu.stat", {"nr_throttled"});
  return periods;
}

}  // namespace perdure
