// Exact samplers of ranks 0 .. n-1, the most popular first; n may grow while they are in use.
#pragma once

#include <cstdint>

#include "core/rng.h"
#include "workload/workload.h"

namespace perdure::workload {

/// P(rank r) = (r+1)^-theta / sum, for any theta > 0, 1 included, by rejection-inversion: no
/// tables, no approximation of the sum, at most about 1.1 tries a draw. Source: Hoermann and
/// Derflinger, TOMACS 6(3) 1996.
class Zipfian {
 public:
  Zipfian() = default;
  Zipfian(std::uint64_t n, double theta) noexcept;

  [[nodiscard]] std::uint64_t size() const noexcept { return n_; }
  /// Continues with another n >= 1: the price of one logarithm and one exponential.
  void resize(std::uint64_t n) noexcept;
  [[nodiscard]] std::uint64_t operator()(Rng& rng) const noexcept;

 private:
  [[nodiscard]] double integral(double x) const noexcept;
  [[nodiscard]] double inverse_integral(double y) const noexcept;
  [[nodiscard]] double density(double x) const noexcept;

  std::uint64_t n_ = 0;
  double theta_ = 0;
  double from_ = 0;    ///< integral(1.5) - 1
  double to_ = 0;      ///< integral(n + 0.5)
  double accept_ = 0;  ///< within this distance above x, rank round(x) needs no test
};

/// The first h*n ranks get 1-h of the draws, and so again within them.
/// P(rank < k) = (k/n)^(log(1-h)/log(h)). Source: Gray et al., SIGMOD 1994.
class SelfSimilar {
 public:
  SelfSimilar() = default;
  explicit SelfSimilar(double h) noexcept;
  [[nodiscard]] std::uint64_t operator()(Rng& rng, std::uint64_t n) const noexcept;

 private:
  double exponent_ = 1;
};

/// The sampler of a Distribution (sequential has none and counts instead).
class RankSampler {
 public:
  RankSampler() = default;
  explicit RankSampler(const Distribution& distribution) noexcept;
  /// A rank in [0, n), n >= 1.
  [[nodiscard]] std::uint64_t operator()(Rng& rng, std::uint64_t n) noexcept {
    switch (kind_) {
      case Distribution::Kind::zipfian:
      case Distribution::Kind::latest:
        if (zipfian_.size() != n) zipfian_.resize(n);
        return zipfian_(rng);
      case Distribution::Kind::self_similar:
        return self_similar_(rng, n);
      default:
        return rng.below(n);
    }
  }

 private:
  Distribution::Kind kind_ = Distribution::Kind::uniform;
  Zipfian zipfian_;
  SelfSimilar self_similar_;
};

}  // namespace perdure::workload
