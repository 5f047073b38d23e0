// Model: what one thread's operations make of a structure, and whether their answers are right.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "crash/queue_history.h"
#include "crash/subject.h"

namespace perdure::crash {

class Model {
 public:
  virtual ~Model() = default;
  Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// An operation to do next; `number` makes its stamp.
  [[nodiscard]] virtual Operation draw(Rng& rng, std::uint64_t number) const = 0;
  /// Takes the operation over. Empty, or why its answer is wrong.
  [[nodiscard]] virtual std::string take(const Operation& operation, const Answer& answer) = 0;
  /// Empty, or what is not as the operations made it.
  [[nodiscard]] virtual std::string compare(const Contents& found) const = 0;
};

class MapModel final : public Model {
 public:
  /// `replaces`: operations that replace values are drawn, too.
  MapModel(const Vocabulary& vocabulary, Contents stamps, bool replaces)
      : vocabulary_(vocabulary), stamps_(std::move(stamps)), replaces_(replaces) {}

  [[nodiscard]] Operation draw(Rng& rng, std::uint64_t number) const override;
  /// An operation that was refused is not taken over.
  [[nodiscard]] std::string take(const Operation& operation, const Answer& answer) override;
  [[nodiscard]] std::string compare(const Contents& found) const override;

 private:
  const Vocabulary& vocabulary_;
  Contents stamps_;
  bool replaces_;
};

class QueueModel final : public Model {
 public:
  /// `states`: those that it may begin in; no operation is under way.
  explicit QueueModel(QueueStates states) : states_(std::move(states)) {}

  /// The queue holds few payloads at any time.
  [[nodiscard]] Operation draw(Rng& rng, std::uint64_t number) const override;
  [[nodiscard]] std::string take(const Operation& operation, const Answer& answer) override;
  [[nodiscard]] std::string compare(const Contents& found) const override;

 private:
  [[nodiscard]] std::string show() const;

  QueueStates states_;
};

[[nodiscard]] QueueRules rules_of(const Subject& subject, const Vocabulary& vocabulary,
                                  std::uint64_t capacity);

/// Of a structure in which `instance` was found to hold `found`; a queue is empty since.
[[nodiscard]] std::unique_ptr<Model> model_of(const Subject& subject, const Vocabulary& vocabulary,
                                              const Instance& instance, Contents found);

}  // namespace perdure::crash
