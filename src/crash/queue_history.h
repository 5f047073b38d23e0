// QueueHistory: which contents of a queue a power cut at this moment may leave.
//
// Durable linearizability of a FIFO queue. It is no product of parts, as a map is of its keys: all
// abstract states are kept that the queue can be in, each with what the operations under way have
// done in it, closed under their effects. At a return the operation must have had the effect that
// it answers. After a cut the queue may hold what any of these states holds.
//
// Q1  a push appends its payload, or is refused where the queue holds its capacity, or where
// another
//     operation runs at some time beside it: that one may hold the room and never take effect.
// Q2  a pop takes the oldest payload, or finds the queue empty.
// Q3  a state has the number of each producer's last push that took effect, popped or not.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "crash/specification.h"
#include "crash/workload.h"

namespace perdure::crash {

struct QueueRules {
  unsigned producers = 1;
  std::uint64_t capacity =
      ~std::uint64_t{0};    ///< payloads; ~0: whoever answers says why it refused
  bool detectable = false;  ///< Q3 is kept
};

/// The states that a queue can be in.
class QueueStates {
 public:
  /// Beyond these the orders are followed no longer.
  static constexpr std::size_t most_states = std::size_t{1} << 14;

  /// It holds nothing.
  explicit QueueStates(QueueRules rules);

  /// `answer`: what the operation will answer, if that is known.
  void call(const Operation& operation, const Answer& answer);
  /// False: in no state the operation has had the effect that it answers.
  [[nodiscard]] bool ret(const Operation& operation, const Answer& answer);
  void cut();

  /// All contents, ascending, each once; with `before`, those in which this operation, which is
  /// under way, has done nothing.
  [[nodiscard]] std::vector<Contents> contents(const Operation* before = nullptr) const;
  [[nodiscard]] const QueueRules& rules() const noexcept { return rules_; }
  [[nodiscard]] bool gave_up() const noexcept { return gave_up_; }
  /// Payloads in the state that holds most.
  [[nodiscard]] std::size_t most_payloads() const;

 private:
  static constexpr std::size_t most_threads = 8;
  /// What the operation of a thread has done: nothing yet, or one of these, or `popped` + stamp.
  enum Effect : std::uint32_t { none, pushed, refused, was_empty, popped };
  struct State {
    std::vector<std::uint32_t> payloads;  ///< stamps, the oldest first
    std::vector<std::uint32_t> last;      ///< push, by producer
    std::array<std::uint32_t, most_threads> effect{};
    friend auto operator<=>(const State&, const State&) = default;
  };
  struct Open {
    Operation operation;
    Answer answer;
    bool excused = false;  ///< another one runs beside it, or has
  };

  void close_under_effects();
  void take_effects(const State& state, std::vector<State>& next) const;
  void sort_states();

  QueueRules rules_;
  std::vector<State> states_{1};
  std::vector<Open> open_;
  bool gave_up_ = false;
};

class QueueHistory final : public Specification {
 public:
  /// `operations` and their answers by number, as the trace's calls and returns name them.
  QueueHistory(const std::vector<Operation>& operations, const std::vector<Answer>& answers,
               QueueRules rules);

  void call(std::uint32_t operation) override;
  [[nodiscard]] std::string ret(std::uint32_t operation) override;
  void cut() override;
  [[nodiscard]] bool allows(const Contents& found) const override;
  [[nodiscard]] std::string objection(const Contents& found, const MayBeTorn&) const override;
  /// The same of the payloads alone: what a queue that was never recovered says of its producers
  /// means nothing.
  [[nodiscard]] std::string objection_to_payloads(const Contents& found) const;
  [[nodiscard]] std::uint64_t digest() const noexcept override { return digest_; }
  [[nodiscard]] const std::vector<std::uint32_t>& open() const noexcept override { return open_; }
  [[nodiscard]] bool gave_up() const noexcept override { return states_.gave_up(); }

  [[nodiscard]] const QueueStates& states() const noexcept { return states_; }
  [[nodiscard]] std::span<const Contents> allowed() const noexcept { return allowed_; }

 private:
  void settle();

  const std::vector<Operation>& operations_;
  const std::vector<Answer>& answers_;
  QueueStates states_;
  std::vector<std::uint32_t> open_;
  std::vector<Contents> allowed_;
  std::uint64_t digest_ = 0;
};

/// "[3, 5], last pushes 5 of producer 0"; the numbers only where there are any.
[[nodiscard]] std::string show_queue(const Contents& contents, unsigned producers);

}  // namespace perdure::crash
