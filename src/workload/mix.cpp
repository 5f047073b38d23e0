#include "workload/mix.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/suggest.h"

namespace perdure::workload {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::array<const char*, operation_kinds> names{
    "lookup", "lookup_negative", "insert", "upsert", "update", "remove", "scan", "push", "pop"};

constexpr std::size_t share_decimals = 9;

std::string decimal(std::uint64_t parts) {
  std::string text = std::to_string(parts / whole_share);
  std::string fraction = std::to_string(parts % whole_share);
  fraction.insert(0, share_decimals - fraction.size(), '0');
  while (!fraction.empty() && fraction.back() == '0') fraction.pop_back();
  return fraction.empty() ? text : text + "." + fraction;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

const char* name_of(Operation operation) noexcept {
  return names[static_cast<std::size_t>(operation)];
}

Result<Operation> parse_operation(std::string_view name, std::string_view where) {
  for (std::size_t i = 0; i < index_operation_kinds; ++i)
    if (name == names[i]) return static_cast<Operation>(i);
  const std::vector<std::string> known(names.begin(), names.begin() + index_operation_kinds);
  return usage("no operation is called '" + std::string(name) + "'", where,
               suggestion(name, known,
                          "use lookup, lookup_negative, insert, upsert, update, remove or scan"));
}

Result<std::uint64_t> parse_share(std::string_view text, std::string_view where) {
  const std::string_view given = text;
  const auto bad = [&](const char* remedy) {
    return usage("'" + std::string(given) + "' is no share", where, remedy);
  };
  const char* form = "write a decimal from 0 to 1, as in 0.95";
  std::uint64_t parts = 0;
  std::size_t at = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    parts = parts * 10 + static_cast<unsigned>(text[at] - '0');
    if (parts > 1) return bad("a share is at most 1");
  }
  if (at == 0) return bad(form);
  parts *= whole_share;
  text.remove_prefix(at);
  if (!text.empty()) {
    if (text[0] != '.' || text.size() == 1) return bad(form);
    text.remove_prefix(1);
    std::uint64_t unit = whole_share;
    for (const char c : text) {
      if (c < '0' || c > '9') return bad(form);
      if (unit == 1 && c != '0') return bad("write at most nine decimals");
      if (unit == 1) continue;
      unit /= 10;
      parts += static_cast<unsigned>(c - '0') * unit;
    }
  }
  if (parts > whole_share) return bad("a share is at most 1");
  return parts;
}

Result<void> check_sum(const Mix& mix, std::string_view where) {
  const std::uint64_t sum = mix.parts_per_billion.total();
  if (sum == whole_share) return {};
  const bool over = sum > whole_share;
  return usage("the shares sum to " + decimal(sum), where,
               over ? "they must sum to exactly 1: take away " + decimal(sum - whole_share)
                    : "they must sum to exactly 1: add " + decimal(whole_share - sum));
}

Result<Mix> parse_mix(std::string_view text, std::string_view where) {
  Mix mix;
  std::array<bool, operation_kinds> given{};
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view item = trimmed(text.substr(0, comma));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos)
      return usage("'" + std::string(item) + "' has no '='", where,
                   "write operation=share, separated by commas, as in lookup=0.9,insert=0.1");
    const auto operation = parse_operation(trimmed(item.substr(0, equals)), where);
    if (!operation) return operation.error();
    const auto share = parse_share(trimmed(item.substr(equals + 1)), where);
    if (!share) return share.error();
    bool& seen = given[static_cast<std::size_t>(*operation)];
    if (seen)
      return usage(std::string(name_of(*operation)) + " is given twice", where, "give it once");
    seen = true;
    mix.parts_per_billion[*operation] = *share;
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  if (const auto sum = check_sum(mix, where); !sum) return sum.error();
  return mix;
}

std::string text_of(const Mix& mix) {
  std::string text;
  for (std::size_t i = 0; i < operation_kinds; ++i) {
    const std::uint64_t parts = mix.parts_per_billion.of[i];
    if (parts == 0) continue;
    if (!text.empty()) text += ',';
    text += std::string(names[i]) + "=" + decimal(parts);
  }
  return text;
}

Mix in_steps(const Mix& mix, std::uint64_t steps) noexcept {
  if (steps == 0) return mix;
  Mix rounded;
  for (std::size_t i = 0; i < operation_kinds; ++i) {
    const Wide whole = static_cast<Wide>(mix.parts_per_billion.of[i]) * steps / whole_share;
    rounded.parts_per_billion.of[i] = static_cast<std::uint64_t>(whole * whole_share / steps);
  }
  rounded.parts_per_billion[Operation::lookup] += whole_share - rounded.parts_per_billion.total();
  return rounded;
}

OperationCounts apportion(const Mix& mix, std::uint64_t operations) noexcept {
  OperationCounts counts;
  PerOperation<std::uint64_t> remainder;
  std::uint64_t left = operations;
  for (std::size_t i = 0; i < operation_kinds; ++i) {
    const Wide exact = static_cast<Wide>(operations) * mix.parts_per_billion.of[i];
    counts.of[i] = static_cast<std::uint64_t>(exact / whole_share);
    remainder.of[i] = static_cast<std::uint64_t>(exact % whole_share);
    left -= counts.of[i];
  }
  // Fewer than operation_kinds are left; each goes to the largest remainder, the earlier kind
  // first among equals.
  for (; left != 0; --left) {
    const auto largest = std::max_element(remainder.of.begin(), remainder.of.end());
    ++counts.of[static_cast<std::size_t>(largest - remainder.of.begin())];
    *largest = 0;
  }
  return counts;
}

OperationCounts thread_part(const OperationCounts& counts, unsigned thread,
                            unsigned threads) noexcept {
  // Laid out kind after kind, the operations are dealt to the threads in turn.
  const auto dealt = [&](std::uint64_t up_to) {
    return up_to / threads + (up_to % threads > thread ? 1 : 0);
  };
  OperationCounts part;
  std::uint64_t start = 0;
  for (std::size_t i = 0; i < operation_kinds; ++i) {
    part.of[i] = dealt(start + counts.of[i]) - dealt(start);
    start += counts.of[i];
  }
  return part;
}

OperationCounts repeating_deck(const Mix& mix, std::uint64_t batch) noexcept {
  constexpr std::uint64_t shortest = 4096;
  std::uint64_t divisor = whole_share;
  for (const std::uint64_t parts : mix.parts_per_billion.of) divisor = std::gcd(divisor, parts);
  const std::uint64_t denominator = whole_share / divisor;
  const std::uint64_t copies = (shortest + denominator - 1) / denominator;
  return apportion(mix, denominator * copies * batch);
}

}  // namespace perdure::workload
