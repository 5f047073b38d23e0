#include "workload/clustered_keys.h"

#include "core/rng.h"

namespace perdure::workload {
namespace {

constexpr std::uint64_t clustered_purpose = 0x434c5553;
constexpr unsigned place_shift = 11;
constexpr std::uint64_t within_mask = (1ULL << place_shift) - 1;

}  // namespace

ClusteredKeys::ClusteredKeys(std::uint64_t seed) noexcept
    : key_(mix64(mix64(seed) ^ clustered_purpose)), places_(2 * ids(), mix64(key_)) {}

ClusteredKeys::Run ClusteredKeys::run_of(std::uint64_t number) const noexcept {
  Run run{number & ~(longest_run - 1), longest_run};
  // The middle of a piece is the middle of no other piece, so each draws for itself.
  while (run.length > 1 && (mix64((2 * run.first + run.length) ^ key_) & 1) != 0) {
    run.length /= 2;
    run.first = number & ~(run.length - 1);
  }
  return run;
}

std::uint64_t ClusteredKeys::start_of(const Run& run) const noexcept {
  return place_of(mix64(run.first + key_), within_mask + 2 - run.length);
}

std::uint64_t ClusteredKeys::word(std::uint64_t id) const noexcept {
  const SplitId split(id);
  const std::uint64_t number = split.number % ids();
  const Run run = run_of(number);
  const std::uint64_t place = places_(split.absent ? run.first + ids() : run.first);
  return place << place_shift | (start_of(run) + number - run.first);
}

std::optional<std::uint64_t> ClusteredKeys::id_of(std::uint64_t word) const noexcept {
  const std::uint64_t first = places_.inverse(word >> place_shift);
  const bool absent = first >= ids();
  const Run run = run_of(absent ? first - ids() : first);
  if (run.first != first % ids()) return std::nullopt;
  const std::uint64_t offset = (word & within_mask) - start_of(run);
  if (offset >= run.length) return std::nullopt;
  return SplitId(run.first + offset, absent).id();
}

}  // namespace perdure::workload
