// HeapOracle: what the heap of a run has lost when the run has ended, without any cut. Recovery
// frees all that it does not reach, so no crash state shows this.
//
//   blocks   the live ones are those that a recovery of the same pool reaches
//   slots    after many more operations on the same keys the index holds about as many bytes as a
//            new one does with all of them; or, where room was refused, as many a record
#pragma once

#include "crash/case.h"
#include "crash/model.h"

namespace perdure::crash {

class HeapOracle {
 public:
  /// `instance` is what the run of `what` has left in the workspace's live memory. It is used up.
  HeapOracle(const Case& what, Workspace& workspace, const Vocabulary& vocabulary,
             std::unique_ptr<Instance> instance, const Recorded& run);

  /// Blocks, always, and slots, of some programs: it takes as long as some explorations. `noted`:
  /// who reserved the blocks, if that is known. Nothing it does is in the trace.
  [[nodiscard]] std::optional<Violation> ask(const BlockHistory* noted);
  /// The violation is about blocks, and who reserved them would be told if it was noted.
  [[nodiscard]] bool wants_history() const noexcept { return wants_history_; }

 private:
  [[nodiscard]] std::string ask_blocks(const BlockHistory* noted);
  [[nodiscard]] std::string ask_slots();
  [[nodiscard]] std::string go_on(bool& refused);
  [[nodiscard]] std::string go_on_with(const Operation& operation, Model& model, bool& refused);
  [[nodiscard]] bool is_asked_for_slots() const;
  /// What the keys take in a pool that holds nothing else, each added once.
  struct Room {
    std::uint64_t empty_bytes = 0;  ///< before the first
    std::uint64_t bytes = 0;
    std::uint64_t records = 0;
    bool all = false;  ///< none was refused
  };
  [[nodiscard]] Room room_of_a_new_one();
  /// Empty, or how `work` ended: then the instance is let go, because it cannot be destroyed.
  [[nodiscard]] std::string guarded(const std::function<void()>& work);

  const Case& what_;
  Workspace& workspace_;
  const Vocabulary& vocabulary_;
  std::unique_ptr<Instance> instance_;
  const Recorded& run_;
  bool wants_history_ = false;
  BlockFault block_fault_ = BlockFault::none;
  std::vector<FaultyBlock> blocks_;
  std::vector<Continued> continued_;
};

}  // namespace perdure::crash
