// Random numbers: a keyed mix, and one independent stream per (seed, stream number).
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace perdure {

/// SplitMix64's finaliser: a bijection of 64-bit words. Source: Steele et al., OOPSLA 2014.
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// A mixed word as one of `bound` places, evenly: a multiplication where a remainder would divide.
[[nodiscard]] constexpr std::uint64_t place_of(std::uint64_t mixed, std::uint64_t bound) noexcept {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(static_cast<Wide>(mixed) * bound >> 64);
}

/// xoshiro256** seeded per (seed, stream): streams are unrelated, not multiples of each other.
/// Source: Blackman and Vigna, TOMS 2021. Satisfies std::uniform_random_bit_generator.
class Rng {
 public:
  using result_type = std::uint64_t;

  explicit constexpr Rng(std::uint64_t seed, std::uint64_t stream = 0) noexcept {
    std::uint64_t state = mix64(seed + 0x9e3779b97f4a7c15ULL) ^ mix64(~stream);
    for (std::uint64_t& word : state_) {
      state += 0x9e3779b97f4a7c15ULL;
      word = mix64(state);
    }
  }

  [[nodiscard]] static constexpr result_type min() noexcept { return 0; }
  [[nodiscard]] static constexpr result_type max() noexcept { return ~result_type{0}; }

  constexpr result_type operator()() noexcept {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// Uniform in [0, bound), bound > 0, without bias (Lemire, TOMACS 2019).
  [[nodiscard]] constexpr std::uint64_t below(std::uint64_t bound) noexcept {
    __extension__ using Wide = unsigned __int128;
    Wide product = static_cast<Wide>((*this)()) * bound;
    if (static_cast<std::uint64_t>(product) < bound) {
      const std::uint64_t threshold = (0 - bound) % bound;
      while (static_cast<std::uint64_t>(product) < threshold)
        product = static_cast<Wide>((*this)()) * bound;
    }
    return static_cast<std::uint64_t>(product >> 64);
  }

  /// Uniform in [0, 1) with 53 bits.
  [[nodiscard]] constexpr double unit() noexcept {
    return static_cast<double>((*this)() >> 11) * 0x1.0p-53;
  }

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace perdure
