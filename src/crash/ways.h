// Ways: the settings in which an index is explored. Each shows defects that the others cannot, with
// any seed: after a recovery, in a pool that runs full, with nodes of the default size, with many
// threads that insert at one place. Explorations and mutations draw from the same ways.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "crash/search.h"

namespace perdure::crash {

/// How large an index's nodes are.
enum class Nodes : std::uint8_t {
  small,     ///< few keys make many (`small_options`)
  least,     ///< as small as the index's options allow
  fallback,  ///< as they are by default
};

/// First cuts that are drawn for one program, each at another place and in another state.
inline constexpr unsigned cuts_of_a_program = 4;

struct Way {
  unsigned threads = 1;
  bool long_programs = false;  ///< half of the programs are
  bool cut = false;            ///< the program goes on after a cut and a recovery
  bool large_pool = false;     ///< whose heap takes its chunks by stretches
  /// Many records and few operations, so that a recovery that runs beside the operations is still
  /// running when they end.
  bool dense = false;
  bool reuse = false;        ///< what is emptied before the cut is filled after it
  bool large_trees = false;  ///< so that a reorganisation keeps parts of them
  /// Trees larger than the pool, which has this many chunks besides those of the empty index.
  std::optional<unsigned> room{};
  Nodes nodes = Nodes::small;
  Shape shape = Shape::mixed;
  friend bool operator==(const Way&, const Way&) = default;
};

/// A way and its share of the time, in proportion to the others; 0: only for mutants.
struct Share {
  Way way;
  unsigned share;
};

/// All ways of this many threads on this heap, the cheapest first.
[[nodiscard]] std::vector<Share> ways_of(unsigned threads, HeapKind heap);
/// Those of an index or of a queue.
[[nodiscard]] std::vector<Share> ways_of(unsigned threads, const Subject& subject);
/// Those of `many` threads in a large pool.
[[nodiscard]] Share large_pool_way(unsigned many);

/// Makes plans of ways. What the caller of a plan has chosen stays as it is.
class Planner {
 public:
  explicit Planner(const Plan& plan) : plan_(plan) {}

  [[nodiscard]] Plan plan_in(const Way& way);
  /// For an exploration: the ways that differ, with what is left out of a program that is large.
  struct Planned {
    Plan plan;
    unsigned share;
  };
  [[nodiscard]] std::vector<Planned> all();

 private:
  [[nodiscard]] std::size_t least_bytes();
  [[nodiscard]] const Subject& with_nodes(Nodes nodes);

  const Plan& plan_;
  std::size_t least_bytes_ = 0;
  std::map<Nodes, Subject> subjects_;
};

}  // namespace perdure::crash
