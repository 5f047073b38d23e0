// Checker: verifies one thread's answers, and notes them as text where a run wants them.
#pragma once

#include <string>

#include "driver/answers.h"
#include "driver/caller.h"
#include "driver/config.h"
#include "driver/instance.h"
#include "driver/target.h"
#include "workload/keys.h"
#include "workload/verify.h"

namespace perdure::driver {

template <class Keys>
class Checker {
 public:
  Checker(const BenchConfig& config, const Instance<Keys>& instance)
      : verifier_(instance.verifier.get()),
        codec_(instance.workload),
        keeps_answers_(!config.answers_path.empty()) {
    if constexpr (has_text_values<Keys>) written_.resize(config.workload.value_bytes);
  }

  /// False in a run without --verify; then nothing else may be called but `answers`.
  [[nodiscard]] bool verifies() const noexcept { return verifier_ != nullptr; }

  /// Called before an operation. Returns the value that it is to write.
  template <class Step>
  [[nodiscard]] typename Keys::Value begin(const Step& step, workload::Ticket& ticket) {
    const Unmeasured free;
    ticket = verifier_->begin(step);
    if constexpr (!has_text_values<Keys>) {
      return ticket.value_word;
    } else {
      codec_.write(ticket.value_word, written_.data());
      return written_;
    }
  }

  /// Called after the operation, with what `caller` got.
  template <class Step>
  void end(const Step& step, const workload::Ticket& ticket, Outcome outcome,
           const Caller<Keys>& caller) {
    const Unmeasured free;
    if (keeps_answers_)
      append_answer(answers_, step.operation, step.key, name_of(outcome), caller.value(),
                    caller.scan());
    using workload::Answer;
    using workload::Operation;
    const Answer answer = outcome == Outcome::ok          ? Answer::done
                          : outcome == Outcome::exists    ? Answer::exists
                          : outcome == Outcome::not_found ? Answer::not_found
                                                          : Answer::refused;
    switch (ticket.operation) {
      case Operation::lookup:
      case Operation::lookup_negative:
        verifier_->end_lookup(ticket, answer, caller.value());
        break;
      case Operation::scan:
        if (answer == Answer::done && caller.scan().size() == 0) break;  // a wrapper's: see Caller
        verifier_->end_scan(ticket, caller.scan());
        break;
      default:
        verifier_->end(ticket, answer);
    }
  }

  /// Of all repetitions, in the order of this thread's operations; empty without --answers.
  [[nodiscard]] const std::string& answers() const noexcept { return answers_; }

 private:
  workload::Verifier* const verifier_;
  workload::ValueCodec codec_;
  std::string written_;
  bool keeps_answers_;
  std::string answers_;
};

}  // namespace perdure::driver
