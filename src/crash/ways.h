// Ways: what an index is tried in. A defect that one way cannot show, whatever its seed, another
// one does: behind a recovery, in a pool that runs full, where nodes have the size that they have
// in use, where many threads insert at one place. The exploration and the mutations draw from the
// same ways.
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

/// Not 0: cuts of a program, each a place of its own, and a state of its own there.
inline constexpr unsigned cuts_of_a_program = 4;

struct Way {
  unsigned threads = 1;
  bool long_programs = false;  ///< half of the programs are
  bool cut = false;            ///< behind a cut and the recovery from it
  bool large_pool = false;     ///< whose heap takes its chunks by stretches
  /// Many records, of which a recovery that goes on beside the operations does not soon come to an
  /// end, and few operations.
  bool dense = false;
  bool reuse = false;        ///< what is emptied before the cut is filled behind it
  bool large_trees = false;  ///< parts of which are kept from one reorganisation to the next
  /// Trees larger than the pool, which has so many chunks beside the empty index.
  std::optional<unsigned> room{};
  Nodes nodes = Nodes::small;
  Shape shape = Shape::mixed;
  friend bool operator==(const Way&, const Way&) = default;
};

/// A way and how much of the time it gets, in proportion to the others; 0: mutants only.
struct Share {
  Way way;
  unsigned share;
};

/// All ways of this many threads on this heap, the cheapest first.
[[nodiscard]] std::vector<Share> ways_of(unsigned threads, HeapKind heap);
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
