// Damage: pool files whose content is changed on purpose, and processes that open them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/result.h"
#include "core/rng.h"

namespace perdure::testing {

/// What came of opening and using a damaged pool.
enum class Verdict {
  refused,    ///< recovery said what is wrong
  working,    ///< it recovered, and answered as before
  differing,  ///< it recovered, and answered otherwise: the damage was not noticed
};

struct CorruptionReport {
  unsigned refused = 0;
  unsigned working = 0;
  unsigned differing = 0;

  void add(Verdict verdict);
};

/// The used part of a pool file, to be damaged and put right again.
class PoolImage {
 public:
  explicit PoolImage(const std::string& path);
  ~PoolImage();
  PoolImage(const PoolImage&) = delete;
  PoolImage& operator=(const PoolImage&) = delete;

  /// Of the file's bytes [begin, end), which are to be damaged, and of those before, which are not.
  /// False: they cannot be read, or hold fewer lines than are worth damaging.
  [[nodiscard]] bool read(std::uint64_t begin, std::uint64_t end, std::size_t least_lines = 100);
  /// Overwrites in one of several ways; says what it did.
  [[nodiscard]] std::string damage(Rng& rng);
  /// Changes some bytes of the file, on top of earlier damage.
  void overwrite(std::uint64_t at, const std::string& bytes);
  /// As `read` has found them.
  [[nodiscard]] std::string bytes(std::uint64_t at, std::size_t count) const;
  /// What lies before `begin`, too: every trial begins with the pool as it was read.
  void restore();

 private:
  static constexpr std::uint64_t line_bytes = 64;

  /// Where a line begins that holds anything: the rest of the file is a hole.
  std::uint64_t used_line(Rng& rng) const { return used_lines_[rng.below(used_lines_.size())]; }

  int file_;
  std::uint64_t begin_ = 0;
  std::string head_;  ///< what lies before `begin_`
  std::string good_;
  std::vector<std::uint64_t> used_lines_;
};

struct DamagePlan {
  std::string name;  ///< of what is damaged, for errors
  std::string path;  ///< of a pool's file
  std::uint64_t pool_bytes = 0;
  std::uint64_t seed = 1;
  unsigned trials = 60;
};

/// Damages the body of a good pool in various ways; each time a child process with a time limit
/// calls `use`, which opens the pool. An Error of `use` is what must never happen. The first trial
/// is undamaged. Error: that one was not `working`, a child crashed, hung or had an Error; says
/// which bytes did it.
[[nodiscard]] Result<CorruptionReport> try_damage(
    const DamagePlan& plan, const std::function<Result<Verdict>(unsigned trial)>& use);

}  // namespace perdure::testing
