// Differential runs: the same operations on an index and on a std::map, every answer compared.
// A failing run is shrunk to a short one that still fails, and printed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "support/bed.h"
#include "support/samples.h"

namespace perdure::testing {

enum class Step : std::uint8_t {
  insert,
  upsert,
  update,
  remove,
  lookup,
  lookup_batch,
  insert_batch,
  upsert_batch,
  update_batch,
  remove_batch,
  scan,
  too_long,  ///< byte keys: every operation with a key or value over the limit
  check,     ///< everything is compared, invariants are walked
  reopen_clean,
  reopen_crash,
};
[[nodiscard]] const char* name_of(Step step) noexcept;

/// One operation; its key is a place in the history's universe.
template <class Keys>
struct Operation {
  Step step;
  std::size_t key = 0;
  typename Samples<Keys>::Value value{};
  std::size_t count = 0;  ///< of a scan or batch
};

template <class Keys>
struct History {
  std::vector<typename Samples<Keys>::Key> universe;
  std::vector<std::size_t> bulk;  ///< keys that a bulk load brings in first; empty: none
  std::vector<Operation<Keys>> operations;
  BedOptions bed;
};

struct HistoryPlan {
  std::uint64_t seed = 1;
  Shape shape = Shape::dense;
  std::size_t keys = 300;
  std::size_t operations = 3000;
  bool small_nodes = true;
  bool bulk_load = false;
  bool reopen = false;  ///< only for targets that recover
};

template <class Keys>
[[nodiscard]] History<Keys> generate(const Target& target, const HistoryPlan& plan);

/// Runs a history on a new index. Error: the first wrong answer.
template <class Keys>
[[nodiscard]] Result<void> replay(const Target& target, const History<Keys>& history);

/// generate + replay; a failure is shrunk (for at most `seconds`) and printed operation by
/// operation.
template <class Keys>
[[nodiscard]] Result<void> run_differential(const Target& target, const HistoryPlan& plan,
                                            double seconds = 10);

/// Compares everything an index answers with `model`: size, every lookup over `universe`, a whole
/// scan, invariants.
template <class Keys>
[[nodiscard]] Result<void> compare_all(
    OrderedIndex<Keys>& index, bool ordered,
    const std::map<typename Samples<Keys>::Key, typename Samples<Keys>::Value>& model,
    const std::vector<typename Samples<Keys>::Key>& universe);

}  // namespace perdure::testing
