#include "platform/description/placement.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "core/suggest.h"

namespace perdure::platform {
namespace {

struct Switch {
  const char* name;
  bool Ablation::*member;
};
constexpr std::array<Switch, 13> switches = {
    {{"in-order-arrival", &Ablation::in_order_arrival},
     {"lru-write-buffer", &Ablation::lru_write_buffer},
     {"no-directory", &Ablation::no_directory},
     {"no-prefetchers", &Ablation::no_prefetchers},
     {"no-dependence-window", &Ablation::no_dependence_window},
     {"no-read-modify-write", &Ablation::no_read_modify_write},
     {"no-address-cache", &Ablation::no_address_cache},
     {"no-wear-levelling", &Ablation::no_wear_levelling},
     {"no-flush-gap", &Ablation::no_flush_gap},
     {"no-hit-places", &Ablation::no_hit_places},
     {"no-buffer-sets", &Ablation::no_buffer_sets},
     {"no-write-hindrance", &Ablation::no_write_hindrance},
     {"no-early-lines", &Ablation::no_early_lines}}};
static_assert(sizeof(Ablation) == switches.size() * sizeof(bool), "name the new mechanism here");

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto comma = text.find(',');
    parts.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

std::optional<unsigned> number(std::string_view text) {
  unsigned value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

unsigned node_of(const Platform& platform, unsigned cpu) noexcept {
  return cpu / platform.cpu.cores_per_socket % platform.cpu.sockets;
}

std::vector<unsigned> default_cpus(const Platform& platform) {
  std::vector<unsigned> cpus(platform.cpus());
  for (unsigned i = 0; i < cpus.size(); ++i) cpus[i] = i;
  return cpus;
}

Result<std::vector<unsigned>> parse_cpus(std::string_view text, const Platform& platform,
                                         std::string_view where) {
  const auto bad = [&](const std::string& what, const std::string& remedy) {
    return Error{ErrorCode::usage, what, std::string(where) + " " + std::string(text), remedy};
  };
  const unsigned count = platform.cpus();
  const std::string nodes = platform.cpu.sockets == 1
                                ? "node0"
                                : "node0 to node" + std::to_string(platform.cpu.sockets - 1);
  const std::string range =
      platform.name + " has CPUs 0 to " + std::to_string(count - 1) + ", " + nodes;
  std::vector<unsigned> cpus;
  for (const std::string_view part : split(text)) {
    std::vector<unsigned> named;
    if (part.starts_with("node")) {
      const auto node = number(part.substr(4));
      if (!node) return bad("'" + std::string(part) + "' is no node", "write node0");
      for (unsigned cpu = 0; cpu < count; ++cpu)
        if (node_of(platform, cpu) == *node) named.push_back(cpu);
      if (named.empty()) return bad("there is no " + std::string(part), range);
    } else {
      const auto dash = part.find('-');
      const auto first = number(part.substr(0, dash));
      const auto last = dash == std::string_view::npos ? first : number(part.substr(dash + 1));
      if (!first || !last || *last < *first)
        return bad("'" + std::string(part) + "' is no CPU or range", "write node0, 0-13 or 0,2,4");
      if (*last >= count) return bad("there is no CPU " + std::to_string(*last), range);
      for (unsigned cpu = *first; cpu <= *last; ++cpu) named.push_back(cpu);
    }
    for (const unsigned cpu : named) {
      if (std::ranges::find(cpus, cpu) != cpus.end())
        return bad("CPU " + std::to_string(cpu) + " is named twice", "name it once");
      cpus.push_back(cpu);
    }
  }
  return cpus;
}

std::vector<std::string> ablation_names() {
  std::vector<std::string> names;
  for (const Switch& one : switches) names.emplace_back(one.name);
  return names;
}

Result<Ablation> parse_ablations(std::span<const std::string> names, std::string_view where) {
  Ablation ablation;
  for (const std::string& list : names)
    for (const std::string_view name : split(list)) {
      const auto found = std::ranges::find_if(
          switches, [&](const Switch& candidate) { return name == candidate.name; });
      if (found == switches.end()) {
        const auto known = ablation_names();
        std::string all = "give one of";
        for (const std::string& one : known) all += (one == known.front() ? " " : ", ") + one;
        return Error{ErrorCode::usage, "no mechanism is called '" + std::string(name) + "'",
                     std::string(where), suggestion(name, known, all)};
      }
      ablation.*found->member = true;
    }
  return ablation;
}

std::vector<std::string> names_of(const Ablation& ablation) {
  std::vector<std::string> names;
  for (const Switch& one : switches)
    if (ablation.*one.member) names.emplace_back(one.name);
  return names;
}

}  // namespace perdure::platform
