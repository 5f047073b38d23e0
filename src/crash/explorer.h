// Explorer: what may a power cut leave behind of this run, and does every oracle accept it?
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
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "crash/history.h"
#include "crash/image.h"
#include "crash/known.h"
#include "crash/layout.h"
#include "crash/persistency.h"
#include "crash/recorder.h"
#include "crash/subject.h"
#include "crash/watch.h"

namespace perdure::crash {

struct Bounds {
  std::uint64_t product = 128;               ///< states of one point tried by product
  std::uint64_t lazy = 512;                  ///< recoveries of one point tried lazily
  std::uint64_t states = ~std::uint64_t{0};  ///< of one run: no crash point begins behind these
  unsigned points = 0;                       ///< of one run, about so many, evenly spread; 0: all
  unsigned deep_every = 4;       ///< of the states: re-crash, continued workload, leak check
  unsigned recrash_states = 32;  ///< nested states of one deep state
  unsigned continued = 16;       ///< operations after a recovery
  bool reorder = false;          ///< the compiler may reorder plain stores to one line (M5)
  bool lookups = true;           ///< ask for the keys in flight by lookup, too
};

/// A crash-free run, as it was recorded.
struct Recorded {
  std::vector<std::byte> before;  ///< the pool when the trace began
  Trace trace;
  std::vector<Operation> operations;  ///< as numbered in the trace
  std::vector<Answer> answers;
  Blocks blocks{};                    ///< that the stores went to
  std::uint32_t explored_from = 0;    ///< event: points before it are passed over (preload)
  std::uint32_t recovers_from = ~0U;  ///< event: the power was cut before it, and recovery begins
  std::uint32_t in_use_from = ~0U;    ///< event: at cuts from here on the pool is not closed
  std::vector<bool> telling{};        ///< by event: other points are passed over; empty: none is
  bool hung = false;
};

/// One line of a crash state; or, with line `store_buffer` (eADR), how many stores left the buffer.
struct LineState {
  static constexpr LineNumber store_buffer = ~LineNumber{0};

  LineNumber line;
  std::uint32_t choice;  ///< of how many
  std::uint32_t choices;
  LineContent content;
  LineContent newest{};               ///< what the line held in the run
  std::vector<std::uint32_t> lost{};  ///< events whose stores are missing
  std::vector<std::uint32_t> kept{};  ///< events since the floor whose stores are there
};

struct Violation {
  std::string oracle;  ///< durable linearizability, invariants, ...
  std::string what;
  std::uint32_t event = 0;                  ///< the cut is just before it
  std::vector<std::uint32_t> open{};        ///< operations in flight
  std::vector<LineState> lines{};           ///< that differ from the newest content
  std::vector<LineState> recovery_lines{};  ///< of a second cut, inside recovery
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
  void add(const Coverage& other);
};

class Explorer {
 public:
  Explorer(const Subject& subject, const Vocabulary& vocabulary, Image& image, Watch& watch,
           Domain domain, Bounds bounds);

  /// The first violation of the run, or none. `deadline_passed` is asked now and then.
  [[nodiscard]] std::optional<Violation> explore(const Recorded& run, unsigned threads,
                                                 const std::function<bool()>& deadline_passed);
  /// Judges one state only: the cut before `event` with these lines' choices (others newest).
  [[nodiscard]] std::optional<Violation> judge_one(const Recorded& run, unsigned threads,
                                                   std::uint32_t event,
                                                   const std::vector<LineState>& lines);
  [[nodiscard]] const Coverage& coverage() const noexcept { return coverage_; }

 private:
  struct Open {
    LineNumber line;
    std::span<const Choice> choices;
    Bytes bytes;  ///< that are not the same in all choices
  };
  using Found = std::optional<Violation>;
  class Lazily;

  bool begin(const Recorded& run, unsigned threads);
  /// Applies one event to model and history; a violation of the live run itself ends it.
  [[nodiscard]] Found step(std::uint32_t event);
  [[nodiscard]] std::size_t points_apart(const Recorded& run) const;
  [[nodiscard]] bool is_point(std::uint32_t event) const;
  [[nodiscard]] Found point(std::uint32_t event);
  [[nodiscard]] Found lazily(const std::vector<Open>& open, bool& finished);
  [[nodiscard]] Found linearly(const std::vector<Open>& open);
  [[nodiscard]] Found buffered(bool& finished);
  [[nodiscard]] Found all_products(const std::vector<Open>& open);
  [[nodiscard]] Found recent_products(const std::vector<Open>& open);
  /// Makes the state of these choices, judges it unless it was seen, and takes it back.
  [[nodiscard]] Found state(const std::vector<Open>& open,
                            const std::vector<std::uint32_t>& chosen);
  [[nodiscard]] static std::vector<Open> open_lines(const Persistency& model);
  /// From this point on states that passed are remembered, up to some later one.
  void open_window(std::uint32_t event);
  [[nodiscard]] bool is_late() const { return deadline_passed_ && deadline_passed_(); }
  [[nodiscard]] Found judge(bool deep);
  /// Not deep, and only where `known` knows of no state that came to what is allowed here.
  [[nodiscard]] Found judge_unless(Known& known);
  [[nodiscard]] bool is_allowed(const Known::Outcome& outcome) const;
  [[nodiscard]] bool is_in_use() const;
  [[nodiscard]] bool may_be_known() const;
  /// Of the state judged last, which passed.
  [[nodiscard]] Known::Outcome outcome() const;
  void ask(Recovered& recovered, std::string& oracle, std::string& what, bool deep);
  [[nodiscard]] bool may_tear(Tearing what, std::optional<std::uint16_t> key = {}) const;
  [[nodiscard]] std::string compare(Instance& instance);
  [[nodiscard]] std::string go_on(Instance& instance, std::uint64_t seed);
  [[nodiscard]] std::string reopen(std::uint64_t live_blocks);
  [[nodiscard]] Found cut_recovery();
  [[nodiscard]] Found cut_here(Persistency& model, Known& known, unsigned& left);
  [[nodiscard]] Found violated(std::string oracle, std::string what) const;
  void describe(Violation& violation, const std::vector<Open>& open,
                const std::vector<std::uint32_t>& chosen) const;

  const Subject& subject_;
  const Vocabulary& vocabulary_;
  Image& image_;
  Watch& watch_;
  Domain domain_;
  Bounds bounds_;
  Coverage coverage_;

  const Recorded* run_ = nullptr;
  std::function<bool()> deadline_passed_;
  std::optional<Persistency> model_;
  std::optional<History> history_;
  bool created_ = false;  ///< the index's creation has returned
  bool creating_ = false;
  unsigned running_ = 0;
  std::uint32_t now_ = 0;
  std::uint32_t explored_event_ = 0;
  std::unordered_set<std::uint64_t> seen_;
  Known known_;                           ///< of this window
  std::uint32_t window_end_ = 0;          ///< event: the window's last point is before it
  std::vector<std::uint16_t> questions_;  ///< keys that oracles look up: those in flight, at least
  std::vector<std::uint64_t> stamps_;
  bool absent_ = false;  ///< the state judged last holds no index
  bool closed_ = false;  ///< it says that the pool was closed
  std::vector<std::uint64_t> expected_;
  std::optional<LineState> buffer_;  ///< eADR: the prefix of the store buffer that is applied
  Trace recovery_trace_;
};

}  // namespace perdure::crash
