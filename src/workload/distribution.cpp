#include "workload/distribution.h"

#include <algorithm>
#include <cmath>

#include "core/assert.h"

namespace perdure::workload {
namespace {

// log(1+x)/x and (exp(x)-1)/x, by their series near 0: they carry theta = 1 without a special case.
double log1p_ratio(double x) noexcept {
  return std::abs(x) > 1e-8 ? std::log1p(x) / x : 1 - x * (0.5 - x * (1.0 / 3));
}
double expm1_ratio(double x) noexcept {
  return std::abs(x) > 1e-8 ? std::expm1(x) / x : 1 + x * 0.5 * (1 + x * (1.0 / 3));
}

}  // namespace

// Hoermann and Derflinger's names: integral is H, inverse_integral H^-1, density h, accept_ s.

Zipfian::Zipfian(std::uint64_t n, double theta) noexcept : theta_(theta) {
  from_ = integral(1.5) - 1;
  accept_ = 2 - inverse_integral(integral(2.5) - density(2));
  resize(n);
}

void Zipfian::resize(std::uint64_t n) noexcept {
  PERDURE_ASSERT(n >= 1);
  n_ = n;
  to_ = integral(static_cast<double>(n) + 0.5);
}

std::uint64_t Zipfian::operator()(Rng& rng) const noexcept {
  while (true) {
    const double u = to_ + rng.unit() * (from_ - to_);
    const double x = inverse_integral(u);
    const double nearest = std::clamp(std::floor(x + 0.5), 1.0, static_cast<double>(n_));
    // Accepted within accept_ of x without the test, which costs two more transcendentals.
    if (nearest - x <= accept_ || u >= integral(nearest + 0.5) - density(nearest))
      return std::min(static_cast<std::uint64_t>(nearest), n_) - 1;
  }
}

double Zipfian::integral(double x) const noexcept {
  const double log_x = std::log(x);
  return expm1_ratio((1 - theta_) * log_x) * log_x;
}

double Zipfian::inverse_integral(double y) const noexcept {
  // Rounding may push the argument of log1p just below its domain.
  const double t = std::max(y * (1 - theta_), -1.0);
  return std::exp(log1p_ratio(t) * y);
}

double Zipfian::density(double x) const noexcept { return std::exp(-theta_ * std::log(x)); }

SelfSimilar::SelfSimilar(double h) noexcept : exponent_(std::log(h) / std::log(1 - h)) {}

std::uint64_t SelfSimilar::operator()(Rng& rng, std::uint64_t n) const noexcept {
  const double rank = static_cast<double>(n) * std::pow(rng.unit(), exponent_);
  return std::min(static_cast<std::uint64_t>(rank), n - 1);
}

RankSampler::RankSampler(const Distribution& distribution) noexcept : kind_(distribution.kind) {
  if (kind_ == Distribution::Kind::zipfian || kind_ == Distribution::Kind::latest)
    zipfian_ = Zipfian(1, distribution.theta);
  if (kind_ == Distribution::Kind::self_similar) self_similar_ = SelfSimilar(distribution.h);
}

}  // namespace perdure::workload
