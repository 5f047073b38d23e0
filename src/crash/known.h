// Known: states that passed, told apart by what recovery and oracles read of them.
//
// Recovery and oracles are deterministic: two states in which they read the same bytes get the same
// verdict, so the second need not be recovered and judged. What was read of a state that passed is
// kept as a path through a tree: a node names the bytes of a word that are read next, its branches
// the values that were found there. Another state walks down by its own values; if it reaches an
// end, it is known.
//
// K1  every byte in which states to come may differ varies, as `begin` was told; all others are the
//     same in all of them.
// K2  a path has the varying bytes in the order in which they were first read. A byte that is
// stored
//     to before it is read does not count.
// K3  all states of a window are judged by the same lookups, besides what is asked of every state.
// K4  what is allowed changes from point to point, what a state holds does not. The latter is kept,
//     and the explorer checks whether it is allowed at this point.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "crash/image.h"
#include "crash/specification.h"
#include "crash/trace.h"
#include "crash/watch.h"

namespace perdure::crash {

class Known {
 public:
  /// What a state was recovered to.
  struct Outcome {
    bool absent = false;  ///< no structure at all
    bool closed = false;  ///< the pool says that it was
    Contents found;
  };
  using Varying = std::map<LineNumber, Bytes>;
  /// What the event stores to varies.
  static void vary(Varying& bytes, const Event& event);

  explicit Known(const Image& image) : image_(image) {}

  /// Forgets all; from here on states differ in these bytes only.
  void begin(const Varying& varying);
  /// What was found in a state of which recovery and oracles would read the same as of the image;
  /// null: no such state has passed. Valid until the next `learn` or `begin`.
  [[nodiscard]] const Outcome* find() const;
  /// The same of a state in which these bytes of a word are `value_of(word, bytes)`, asked in the
  /// order of reading; more may be asked than leads to an outcome.
  template <class ValueOf>
  [[nodiscard]] const Outcome* find_by(ValueOf&& value_of) const {
    const Node* node = &nodes_.front();
    while (!node->outcome) {
      if (node->branches.empty()) return nullptr;
      const std::uint64_t value = value_of(node->word, node->bytes) & bits_of(node->bytes);
      const auto branch = std::ranges::find(node->branches, value, &Branch::value);
      if (branch == node->branches.end()) return nullptr;
      node = &nodes_[branch->node];
    }
    return &outcomes_[*node->outcome];
  }

  /// Called before varying bytes of a line are first read, with those that are.
  using Meet = std::function<void(LineNumber, Bytes)>;
  /// Follows what is read of the image in the next run.
  void follow(Watch& watch, Meet meet = {});
  /// The run is over.
  void unfollow(Watch& watch);
  /// What was followed has passed.
  void learn(Outcome outcome);

 private:
  struct Branch {
    std::uint64_t value;
    std::uint32_t node;
  };
  struct Node {
    std::uint32_t word = 0;  ///< of the pool; what is read next, unless this is an end
    std::uint8_t bytes = 0;  ///< of the word, a bit each
    std::vector<Branch> branches;
    std::optional<std::uint32_t> outcome;  ///< of an end
  };
  struct Read {
    std::uint32_t word;
    std::uint8_t bytes;
    std::uint64_t value;
  };

  [[nodiscard]] std::uint64_t value_of(std::uint32_t word) const noexcept;

  const Image& image_;
  std::vector<Watch::Asked> varying_;
  std::vector<Node> nodes_{1};  ///< the root first
  std::vector<Outcome> outcomes_;
  std::vector<Read> path_;
};

}  // namespace perdure::crash
