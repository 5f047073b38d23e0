// Explorer: which states may a power cut leave of this run, and does every oracle accept them?
//
// It replays a trace through the persistency model. At each crash point (just before a fence or
// flush that raises a floor, at each return) it makes the possible states one by one on a scratch
// image, recovers there, asks, and takes everything back.
//
// Order of exploration at a point, each tried when the one before would exceed its budget:
//   1. the product over all open lines;
//   2. lazily: a line's content is chosen when recovery first reads a byte of it that is not the
//      same in all, depth-first over these choices, which covers the same behaviours with what
//      recovery never reads left out;
//   3. a linear set: all oldest, all newest, each line alone, all but one, every prefix.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "crash/block_history.h"
#include "crash/image.h"
#include "crash/known.h"
#include "crash/layout.h"
#include "crash/model.h"
#include "crash/oracle.h"
#include "crash/recorded.h"
#include "crash/recorder.h"
#include "crash/subject.h"
#include "crash/trace_replay.h"
#include "crash/watch.h"

namespace perdure::crash {

struct Bounds {
  std::uint64_t product = 128;               ///< states of one point tried by product
  std::uint64_t lazy = 512;                  ///< recoveries of one point tried lazily
  std::uint64_t states = ~std::uint64_t{0};  ///< of one run: no crash point begins after these
  unsigned points = 0;                       ///< of one run, about so many, evenly spread; 0: all
  unsigned deep_every = 4;       ///< of the states: re-crash, continued workload, leak check
  unsigned recrash_states = 32;  ///< nested states of one deep state
  unsigned continued = 16;       ///< operations after a recovery
  bool reorder = false;          ///< the compiler may reorder plain stores to one line (M5)
  bool lookups = true;           ///< the keys in flight are also looked up
};

/// One operation of the continued workload.
struct Continued {
  Operation operation;
  Answer answer;  ///< not returned: it ended the run
};

struct Violation {
  Oracle oracle = Oracle::recovery;
  std::string what;
  std::uint32_t event = 0;                  ///< the cut is just before it
  std::vector<std::uint32_t> open{};        ///< operations in flight
  std::vector<LineState> lines{};           ///< that differ from the newest content
  std::vector<LineState> recovery_lines{};  ///< of a second cut, inside recovery
  /// No power cut is needed: the run itself is wrong, or the same oracle objects, without a second
  /// cut, where everything that was stored before `event` is on media.
  bool fails_without_loss = false;
  std::vector<Continued> continued{};  ///< in order, after the recovery or the run
  BlockFault block_fault = BlockFault::none;
  std::vector<FaultyBlock> blocks{};  ///< that leak, or were freed too early
  Trace recovery{};                   ///< that was cut; empty: it was not
  std::uint32_t recovery_event = 0;   ///< of its trace: the second cut is just before it
};

struct Coverage {
  std::uint64_t points = 0;
  std::uint64_t exhausted = 0;  ///< every state of the point, by product or lazily
  std::uint64_t sampled = 0;    ///< linear set only
  std::uint64_t states = 0;     ///< judged, repeats left out
  std::uint64_t repeats = 0;
  std::uint64_t alike = 0;          ///< of states and cuts: differ from another in what is not read
  std::uint64_t deep = 0;           ///< with continued workload and leak check
  std::uint64_t recovery_cuts = 0;  ///< states of a second cut
  std::uint64_t given_up = 0;       ///< runs: too many orders of the operations are possible
  void add(const Coverage& other);
};

class Explorer {
 public:
  Explorer(const Subject& subject, const Vocabulary& vocabulary, Image& image, Watch& watch,
           Domain domain, Bounds bounds);

  /// The first violation of the run, or none. `deadline_passed` is polled.
  [[nodiscard]] std::optional<Violation> explore(const Recorded& run, unsigned threads,
                                                 const std::function<bool()>& deadline_passed);
  /// Judges one state only: the cut before `event` with these lines' choices (others newest).
  [[nodiscard]] std::optional<Violation> judge_one(const Recorded& run, unsigned threads,
                                                   std::uint32_t event,
                                                   const std::vector<LineState>& lines);
  [[nodiscard]] const Coverage& coverage() const noexcept { return coverage_; }

 private:
  using Found = std::optional<Violation>;
  class Lazily;

  void begin(const Recorded& run, unsigned threads);
  /// Applies one event to model and history; a violation of the live run itself ends it.
  [[nodiscard]] Found step(std::uint32_t event);
  [[nodiscard]] std::size_t points_apart(const Recorded& run) const;
  [[nodiscard]] bool is_point(std::uint32_t event) const;
  [[nodiscard]] Found point(std::uint32_t event);
  [[nodiscard]] Found lazily(const OpenLines& open, bool& finished);
  [[nodiscard]] Found linearly(const OpenLines& open);
  [[nodiscard]] Found buffered(bool& finished);
  [[nodiscard]] Found all_products(const OpenLines& open);
  [[nodiscard]] Found recent_products(const OpenLines& open);
  /// Digest of the image with these choices. It does not depend on what the trace has flushed.
  [[nodiscard]] std::uint64_t content_digest(const OpenLines& open, const Choices& chosen) const;
  /// One of `deep_every` contents.
  [[nodiscard]] bool is_deep(std::uint64_t content_digest) const {
    return mix64(content_digest + 1) % bounds_.deep_every == 0;
  }
  /// Makes the state of these choices, judges it unless it was seen, and takes it back.
  [[nodiscard]] Found state(const OpenLines& open, const Choices& chosen);
  /// From this point on states that passed are remembered, up to some later one.
  void open_window(std::uint32_t event);
  [[nodiscard]] bool is_late() const { return deadline_passed_ && deadline_passed_(); }
  [[nodiscard]] Found judge(bool deep);
  [[nodiscard]] Found judge_once(bool deep);
  /// Not deep. Nothing is judged if `known` holds an equal state whose outcome is allowed here.
  [[nodiscard]] Found judge_unless(Known& known);
  [[nodiscard]] bool is_allowed(const Known::Outcome& outcome) const;
  [[nodiscard]] bool is_in_use() const;
  [[nodiscard]] bool may_be_known() const;
  /// Of the state judged last, which passed.
  [[nodiscard]] Known::Outcome outcome() const;
  /// How `recovered` ended was told; it cannot be destroyed.
  [[nodiscard]] Found ended(Ending ending, Recovered& recovered);
  void ask(Recovered& recovered, Oracle& oracle, std::string& what, bool deep);
  [[nodiscard]] bool may_tear(Tearing what, std::optional<std::uint16_t> key = {}) const;
  [[nodiscard]] std::string compare(Instance& instance);
  [[nodiscard]] std::string compare_with_expected(Instance& instance);
  [[nodiscard]] std::unique_ptr<Model> expected_of(const Instance& instance) const;
  [[nodiscard]] std::string go_on(Instance& instance, std::uint64_t seed);
  [[nodiscard]] std::string reopen();
  /// The same state once more, with who reserved which block noted, if it was about blocks.
  [[nodiscard]] Found judge_naming_blocks();
  [[nodiscard]] Found cut_recovery();
  [[nodiscard]] Found cut_here(const Persistency& model, Known& known, unsigned& left);
  [[nodiscard]] Found violated(Oracle oracle, std::string what) const;
  /// The same of the run itself, without any cut.
  [[nodiscard]] Found violated_live(Oracle oracle, std::string what) const;
  /// Fills in whether the violation, found at `now_`, needs that anything is lost.
  [[nodiscard]] Found with_loss_told(Found found);
  [[nodiscard]] Found judge_newest();
  void describe(Violation& violation, const OpenLines& open, const Choices& chosen) const;
  [[nodiscard]] const Persistency& model() const noexcept { return replay_->model(); }
  /// What oracles draw by at this event.
  [[nodiscard]] std::uint32_t number() const {
    return run_->numbers.empty() ? now_ : run_->numbers[now_];
  }

  const Subject& subject_;
  const Vocabulary& vocabulary_;
  Image& image_;
  Watch& watch_;
  Domain domain_;
  Bounds bounds_;
  Coverage coverage_;

  const Recorded* run_ = nullptr;
  std::function<bool()> deadline_passed_;
  std::optional<TraceReplay> replay_;
  std::unique_ptr<Specification> history_;
  bool created_ = false;  ///< the structure's creation has returned
  bool creating_ = false;
  std::uint32_t now_ = 0;
  std::unordered_set<std::uint64_t> seen_;
  Known known_;                           ///< of this window
  std::uint32_t window_end_ = 0;          ///< event: the window's last point is before it
  std::vector<std::uint16_t> questions_;  ///< keys that oracles look up: those in flight, at least
  Contents found_;
  bool absent_ = false;               ///< the state judged last holds no structure
  bool closed_ = false;               ///< it says that the pool was closed
  std::unique_ptr<Model> expected_;   ///< after the continued workload
  std::vector<Continued> continued_;  ///< of the state judged last
  bool names_blocks_ = false;
  std::uint64_t live_blocks_ = 0;  ///< after the continued workload
  std::vector<Heap::Extent> live_extents_;
  BlockHistory block_history_;
  BlockFault block_fault_ = BlockFault::none;  ///< of the state judged last
  std::vector<FaultyBlock> blocks_;
  std::optional<LineState> buffer_;  ///< eADR: the prefix of the store buffer that is applied
  Trace recovery_trace_;
};

}  // namespace perdure::crash
