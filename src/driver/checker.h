// Checker: verifies one thread's answers, and notes them as text where a run wants them.
#pragma once

#include <cstddef>
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
    if constexpr (has_text_values<Keys>)
      written_.resize(config.workload.value_bytes * config.workload.batch);
  }

  /// False in a run without --verify; then nothing else may be called but `answers`.
  [[nodiscard]] bool verifies() const noexcept { return verifier_ != nullptr; }

  /// Called before an operation, number `place` of its batch. Returns the value that it is to
  /// write, which is valid until the next operation of that place begins.
  template <class Step>
  [[nodiscard]] typename Keys::Value begin(const Step& step, workload::Ticket& ticket,
                                           std::size_t place = 0) {
    const Unmeasured free;
    ticket = verifier_->begin(step);
    if constexpr (!has_text_values<Keys>) {
      return ticket.value_word;
    } else {
      char* const written = written_.data() + place * codec_.bytes();
      codec_.write(ticket.value_word, written);
      return {written, codec_.bytes()};
    }
  }

  /// Called after the operation, with what `caller` got.
  template <class Step>
  void end(const Step& step, const workload::Ticket& ticket, Outcome outcome,
           const Caller<Keys>& caller) {
    end(step, ticket, outcome, caller.value(), caller.scan());
  }
  template <class Step>
  void end(const Step& step, const workload::Ticket& ticket, Outcome outcome,
           const typename Keys::ValueOut& value, const typename Keys::Scan& scan) {
    const Unmeasured free;
    if (keeps_answers_)
      append_answer(answers_, step.operation, step.key, name_of(outcome), value, scan);
    using workload::Answer;
    using workload::Operation;
    const Answer answer = outcome == Outcome::ok          ? Answer::done
                          : outcome == Outcome::exists    ? Answer::exists
                          : outcome == Outcome::not_found ? Answer::not_found
                                                          : Answer::refused;
    switch (ticket.operation) {
      case Operation::lookup:
      case Operation::lookup_negative:
        verifier_->end_lookup(ticket, answer, value);
        break;
      case Operation::scan:
        if (answer == Answer::done && scan.size() == 0) break;  // a wrapper's: see Caller
        verifier_->end_scan(ticket, scan);
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
