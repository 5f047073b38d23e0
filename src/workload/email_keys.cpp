#include "workload/email_keys.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include "core/rng.h"
#include "workload/key_words.h"

namespace perdure::workload {
namespace {

constexpr std::uint64_t email_purpose = 0x4d41494c;
constexpr std::string_view separators = "._-";
constexpr std::size_t family_names = family_starts.size() * family_ends.size();
constexpr std::size_t mail_names = given_names.size() * family_names * separators.size();
constexpr std::size_t mail_domains = domain_starts.size() * domain_ends.size();
constexpr unsigned turn_bits = 12;
constexpr std::uint64_t turns = 1ULL << turn_bits;
constexpr std::string_view domain_tail = ".test";

/// turn_of[r] .. turn_of[r+1]: the turns of a name that lead to the domain of rank r.
using Turns = std::array<std::uint64_t, mail_domains + 1>;

const Turns& turn_of() {
  static const Turns sums = [] {
    double all = 0;
    for (std::size_t r = 0; r < mail_domains; ++r) all += 1 / static_cast<double>(r + 1);
    Turns made{};
    double share = 0;
    for (std::size_t r = 0; r < mail_domains; ++r) {
      share += 1 / static_cast<double>(r + 1);
      const auto end = static_cast<std::uint64_t>(share / all * turns + 0.5);
      made[r + 1] = std::max(end, made[r] + 1);
    }
    made.back() = turns;
    return made;
  }();
  return sums;
}

void add_pair(TextWriter& text, std::span<const std::string_view> starts,
              std::span<const std::string_view> ends, std::size_t pair) noexcept {
  text.add(starts[pair / ends.size()]);
  text.add(ends[pair % ends.size()]);
}

std::optional<std::size_t> find_pair(std::string_view text,
                                     std::span<const std::string_view> starts,
                                     std::span<const std::string_view> ends) noexcept {
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (!text.starts_with(starts[i])) continue;
    const auto end = std::find(ends.begin(), ends.end(), text.substr(starts[i].size()));
    if (end != ends.end()) return i * ends.size() + static_cast<std::size_t>(end - ends.begin());
  }
  return std::nullopt;
}

std::optional<std::uint64_t> find_name(std::string_view text) noexcept {
  const std::size_t at = text.find_first_of(separators);
  if (at == std::string_view::npos) return std::nullopt;
  const auto given = std::find(given_names.begin(), given_names.end(), text.substr(0, at));
  const auto family = find_pair(text.substr(at + 1), family_starts, family_ends);
  if (given == given_names.end() || !family) return std::nullopt;
  const auto place = static_cast<std::size_t>(given - given_names.begin());
  return (separators.find(text[at]) * given_names.size() + place) * family_names + *family;
}

}  // namespace

EmailKeys::EmailKeys(std::uint64_t seed) noexcept
    : key_(mix64(mix64(seed) ^ email_purpose)),
      names_(mail_names, key_),
      domains_(mail_domains, mix64(key_)) {}

SmallShuffle EmailKeys::turns_of(std::uint64_t name) const noexcept {
  return {turn_bits, mix64(name + key_)};
}

std::size_t EmailKeys::write(std::uint64_t id, char* out) const noexcept {
  const SplitId split(id);
  const std::uint64_t name = names_(split.number % mail_names);
  // How many addresses the name has had, with the absent ones between.
  const std::uint64_t before = split.number / mail_names * 2 + (split.absent ? 1 : 0);
  const std::uint64_t turn = turns_of(name)(before % turns);
  const Turns& sums = turn_of();
  const auto rank =
      static_cast<std::size_t>(std::upper_bound(sums.begin(), sums.end(), turn) - sums.begin() - 1);
  const std::uint64_t number = before / turns * (sums[rank + 1] - sums[rank]) + (turn - sums[rank]);
  TextWriter text(out);
  text.add(given_names[name / family_names % given_names.size()]);
  text.add(separators[name / family_names / given_names.size()]);
  add_pair(text, family_starts, family_ends, name % family_names);
  if (number != 0) text.add_number(number);
  text.add('@');
  add_pair(text, domain_starts, domain_ends, domains_(rank));
  text.add(domain_tail);
  return text.size();
}

std::optional<std::uint64_t> EmailKeys::id_of(std::string_view key) const {
  const std::size_t at = key.find('@');
  if (at == std::string_view::npos || !key.ends_with(domain_tail)) return std::nullopt;
  std::string_view domain_text = key.substr(at + 1);
  domain_text.remove_suffix(std::min(domain_text.size(), domain_tail.size()));
  const auto domain = find_pair(domain_text, domain_starts, domain_ends);
  std::string_view local = key.substr(0, at);
  const std::size_t digits = std::min(local.find_first_of("0123456789"), local.size());
  const auto name = find_name(local.substr(0, digits));
  if (!domain || !name) return std::nullopt;
  local.remove_prefix(digits);
  std::uint64_t number = 0;
  if (!local.empty()) {
    const auto [end, failure] = std::from_chars(local.data(), local.data() + local.size(), number);
    if (failure != std::errc{} || end != local.data() + local.size() || local.front() == '0')
      return std::nullopt;
  }
  const Turns& sums = turn_of();
  const std::uint64_t rank = domains_.inverse(*domain);
  const std::uint64_t share = sums[rank + 1] - sums[rank];
  // No id has a larger one, and the arithmetic below would overflow.
  if (number / share > first_absent_id / mail_names * 2 / turns) return std::nullopt;
  const std::uint64_t before =
      number / share * turns + turns_of(*name).inverse(sums[rank] + number % share);
  const std::uint64_t id = before / 2 * mail_names + names_.inverse(*name);
  if (id >= first_absent_id) return std::nullopt;
  return SplitId(id, before % 2 != 0).id();
}

std::size_t EmailKeys::longest() const noexcept {
  constexpr std::size_t most_digits = 20;
  return longest_of(given_names) + 1 + longest_of(family_starts) + longest_of(family_ends) +
         most_digits + 1 + longest_of(domain_starts) + longest_of(domain_ends) + domain_tail.size();
}

}  // namespace perdure::workload
