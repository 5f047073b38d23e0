// Contest: several indexes over the same records, measured in turn within one process, so that
// other load on the machine affects all of them equally.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/result.h"
#include "index/registry.h"

namespace perdure::bench {

enum class Phase : std::uint8_t {
  lookup,
  update,
  insert,
  scan,
  remove,
  lookup_batch,
  update_batch,
  insert_batch,
  remove_batch
};
/// In the order in which a round runs them; what an insertion adds, a removal takes out again.
inline constexpr std::array phases{Phase::lookup,       Phase::update,       Phase::insert,
                                   Phase::scan,         Phase::remove,       Phase::lookup_batch,
                                   Phase::update_batch, Phase::insert_batch, Phase::remove_batch};
/// One operation a call, with the results of all contestants.
inline constexpr std::size_t single_phases = 5;
inline constexpr std::size_t batch_operations = 32;  ///< in one call of a batch
[[nodiscard]] const char* name_of(Phase phase) noexcept;
inline constexpr std::size_t scan_records = 100;

struct ContestPlan {
  std::uint64_t records = 10'000'000;
  std::uint64_t operations = 400'000;  ///< per phase and thread; a twentieth of it in scans
  unsigned rounds = 5;
  std::string folder = "/dev/shm";
  std::uint64_t seed = 7;
};

/// One index in the contest, with its pool if it has one.
struct Contestant {
  std::string name;   ///< "fptree", "abslbtree, huge pages"
  std::string index;  ///< as registered
  bool huge_pages = true;
  bool batches = false;  ///< runs the phases of batches, too
  std::unique_ptr<Pool> pool{};
  std::unique_ptr<IntegerIndex> tree{};  ///< destroyed before its pool
  double load_seconds = 0;
  double recovery_seconds = 0;  ///< from opening the pool to the answer of the first lookup
  double settled_seconds = 0;   ///< to the end of what recovery does beside the operations
  double pm_bytes_per_record = 0;
  double dram_bytes_per_record = 0;
  std::uint64_t pool_huge_page_bytes = 0;
  /// Million operations/s of each round.
  std::map<std::pair<Phase, unsigned>, std::vector<double>> rates{};

  [[nodiscard]] double median(Phase phase, unsigned threads) const;
};

/// Removes the pools of a run that is interrupted or terminated: they are as large as memory.
void remove_files_when_interrupted();

/// Makes and loads the index, in random order, with all cores.
[[nodiscard]] Result<void> prepare(Contestant& contestant, const ContestPlan& plan);

/// All phases of one round for all contestants, in an order that changes with the round.
/// Errors: an operation failed that must succeed.
[[nodiscard]] Result<void> run_round(std::vector<Contestant>& contestants, const ContestPlan& plan,
                                     unsigned round, unsigned threads);

/// Closes the pool, opens and recovers it with all cores, and removes the file.
[[nodiscard]] Result<void> measure_recovery(Contestant& contestant, const ContestPlan& plan);

/// ns per operation of an index that does nothing: the loop's own time, without and with a
/// clock reading and a histogram entry for each.
struct LoopCost {
  double bare_ns = 0;
  double with_histogram_ns = 0;
};
[[nodiscard]] Result<LoopCost> measure_loop();

}  // namespace perdure::bench
