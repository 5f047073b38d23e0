#include "workload/snowflake_keys.h"

#include <array>
#include <bit>

namespace perdure::workload {
namespace {

constexpr std::uint64_t snowflake_purpose = 0x534e4f57;
constexpr std::uint64_t group_ms = 4;
constexpr std::uint64_t group_ids = group_ms * SnowflakeKeys::ids_per_ms;
constexpr std::uint64_t year_ms = 365ULL * 24 * 3600 * 1000;
constexpr std::uint64_t sequence_mask = (1ULL << SnowflakeKeys::machine_shift) - 1;
constexpr std::uint64_t machine_mask = (1ULL << SnowflakeKeys::machine_bits) - 1;

/// How many of a group's arrivals come in each of its milliseconds: each takes two random bits.
std::array<std::uint64_t, group_ms> arrivals_of(std::uint64_t draws) noexcept {
  constexpr std::uint64_t low_bits = 0x5555555555555555ULL;
  const std::uint64_t low = draws & low_bits;
  const std::uint64_t high = draws >> 1 & low_bits;
  const auto count = [](std::uint64_t bits) {
    return static_cast<std::uint64_t>(std::popcount(bits));
  };
  return {group_ids - count(low | high), count(low & ~high), count(high & ~low), count(low & high)};
}
static_assert(group_ids == 32 && group_ms == 4, "a word has 32 draws of one of 4 milliseconds");

}  // namespace

SnowflakeKeys::SnowflakeKeys(std::uint64_t seed) noexcept
    : key_(mix64(mix64(seed) ^ snowflake_purpose)),
      first_ms_(year_ms + place_of(mix64(key_), 2 * year_ms)),
      machines_(machine_bits, mix64(key_ + golden_ratio)) {}

SnowflakeKeys::Millisecond SnowflakeKeys::of_time(std::uint64_t ms) const noexcept {
  const std::uint64_t group = ms / group_ms;
  const auto arrivals = arrivals_of(mix64(group * golden_ratio ^ key_));
  std::uint64_t begin = group * group_ids;
  for (std::uint64_t i = 0; i < ms % group_ms; ++i) begin += arrivals[i];
  return {ms, begin, begin + arrivals[ms % group_ms]};
}

SnowflakeKeys::Millisecond SnowflakeKeys::of_arrival(std::uint64_t number) const noexcept {
  const std::uint64_t group = number / group_ids;
  const auto arrivals = arrivals_of(mix64(group * golden_ratio ^ key_));
  std::uint64_t begin = group * group_ids;
  std::uint64_t i = 0;
  for (; number >= begin + arrivals[i]; ++i) begin += arrivals[i];
  return {group * group_ms + i, begin, begin + arrivals[i]};
}

std::uint64_t SnowflakeKeys::word(std::uint64_t id) const noexcept {
  const SplitId split(id);
  const std::uint64_t number = split.number % ids();
  const Millisecond now = of_arrival(number);
  const std::uint64_t server = server_of(number);
  std::uint64_t sequence = 0;
  for (std::uint64_t earlier = now.begin; earlier < number; ++earlier)
    sequence += server_of(earlier) == server ? 1 : 0;
  const std::uint64_t machine = machines_(split.absent ? server + fleet : server);
  return (first_ms_ + now.ms) << time_shift | machine << machine_shift | sequence;
}

std::optional<std::uint64_t> SnowflakeKeys::id_of(std::uint64_t word) const noexcept {
  const std::uint64_t time = word >> time_shift;
  if (time < first_ms_ || (time - first_ms_) >= ids() / ids_per_ms) return std::nullopt;
  const std::uint64_t place = machines_.inverse(word >> machine_shift & machine_mask);
  if (place >= 2 * fleet) return std::nullopt;
  const Millisecond now = of_time(time - first_ms_);
  std::uint64_t sequence = word & sequence_mask;
  for (std::uint64_t number = now.begin; number < now.end; ++number) {
    if (server_of(number) != place % fleet) continue;
    if (sequence-- == 0) return SplitId(number, place >= fleet).id();
  }
  return std::nullopt;
}

}  // namespace perdure::workload
