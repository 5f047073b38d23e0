// The small steps of an operation: fingerprint match, key mix, random numbers, histogram.
#include <benchmark/benchmark.h>

#include <array>

#include "core/histogram.h"
#include "core/rng.h"
#include "pm/pm.h"

namespace perdure {
namespace {

void match_64_fingerprints(benchmark::State& state, pm::SimdLevel level) {
  if (level > pm::detect_simd_level()) return state.SkipWithError("this CPU has no such level");
  pm::configure_simd(level);
  alignas(64) std::array<std::uint8_t, 64> tags{};
  for (std::size_t i = 0; i < tags.size(); ++i) tags[i] = static_cast<std::uint8_t>(mix64(i));
  std::uint8_t wanted = 0;
  for (auto _ : state) benchmark::DoNotOptimize(pm::match_64(tags.data(), ++wanted));
  pm::configure_simd(pm::detect_simd_level());
}
BENCHMARK_CAPTURE(match_64_fingerprints, sse2, pm::SimdLevel::sse2);
BENCHMARK_CAPTURE(match_64_fingerprints, avx2, pm::SimdLevel::avx2);
BENCHMARK_CAPTURE(match_64_fingerprints, avx512, pm::SimdLevel::avx512);

void match_16_fingerprints(benchmark::State& state) {
  alignas(16) std::array<std::uint8_t, 16> tags{1, 2, 3};
  std::uint8_t wanted = 0;
  for (auto _ : state) benchmark::DoNotOptimize(pm::match_16(tags.data(), ++wanted));
}
BENCHMARK(match_16_fingerprints);

void mix_a_key(benchmark::State& state) {
  std::uint64_t key = 1;
  for (auto _ : state) benchmark::DoNotOptimize(key = mix64(key));
}
BENCHMARK(mix_a_key);

void draw_below(benchmark::State& state) {
  Rng rng(1);
  for (auto _ : state) benchmark::DoNotOptimize(rng.below(10'000'000));
}
BENCHMARK(draw_below);

void record_in_histogram(benchmark::State& state) {
  static Histogram histogram;
  Rng rng(1);
  for (auto _ : state) histogram.record(rng() & 0xffff);
  benchmark::DoNotOptimize(histogram.max());
}
BENCHMARK(record_in_histogram);

}  // namespace
}  // namespace perdure
