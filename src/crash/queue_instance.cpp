// A queue on a pool in memory of ours.
#include "crash/pooled_instance.h"

namespace perdure::crash {
namespace {

class QueueInstance final : public PooledInstance {
 public:
  QueueInstance(const Subject& subject, const Vocabulary& vocabulary, std::unique_ptr<Pool> pool)
      : PooledInstance(std::move(pool)), subject_(subject), producers_(vocabulary.threads()) {
    place_.pool = &this->pool();
    place_.options = subject.options;
    place_.huge_pages = false;
  }
  ~QueueInstance() override { queue_.reset(); }

  [[nodiscard]] Result<void> recover() {
    auto queue = recover_queue(*subject_.queue, place_);
    if (!queue) return queue.error();
    queue_ = std::move(queue).value();
    return {};
  }

  [[nodiscard]] Answer perform(const Operation& operation) override {
    Answer answer;
    answer.returned = true;
    if (operation.action == Action::create) {
      create(answer);
    } else if (operation.action == Action::push) {
      push(operation, answer);
    } else if (operation.action == Action::pop) {
      pop(answer);
    } else {
      answer.wrong = std::string("a queue has no ") + name_of(operation.action);
    }
    return answer;
  }

  [[nodiscard]] std::string contents(Contents& found) override {
    found.assign(producers_, 0);
    for (unsigned producer = 0; subject_.queue->detectable && producer < producers_; ++producer)
      found[producer] = queue_->last_push(producer);
    const std::uint64_t counted = queue_->size();
    constexpr std::uint64_t most = 1 << 16;
    std::uint64_t popped = 0;
    for (; popped < most; ++popped) {
      Answer answer;
      pop(answer);
      if (!answer.wrong.empty()) return answer.wrong;
      if (answer.outcome == Outcome::not_found) break;
      if (answer.outcome != Outcome::ok)
        return std::string("pop came to ") + perdure::name_of(answer.outcome);
      found.push_back(answer.stamp);
    }
    if (popped == most) return "pops do not empty the queue";
    if (popped != counted)
      return "the queue says it holds " + std::to_string(counted) + " payloads, and " +
             std::to_string(popped) + " are popped: " + show_found(found);
    return {};
  }

  [[nodiscard]] std::uint64_t lookup(std::uint16_t) override { return absent; }
  [[nodiscard]] std::uint64_t capacity() const override {
    return queue_ ? queue_->capacity() : ~std::uint64_t{0};
  }
  [[nodiscard]] std::string check() const override {
    const Result<void> checked = queue_->check_invariants();
    return checked ? std::string() : checked.error().what;
  }
  [[nodiscard]] std::uint64_t size() const override { return queue_->size(); }
  // `contents` has counted.
  [[nodiscard]] std::string count_wrongly(std::span<const std::uint64_t>) const override {
    return {};
  }
  void quiesce() override { queue_->quiesce(); }
  void close() override {
    queue_.reset();
    static_cast<void>(pool().close());  // errors are of files
  }

 private:
  void create(Answer& answer) {
    is_new_ = true;
    auto queue = create_queue(*subject_.queue, place_);
    if (queue)
      queue_ = std::move(queue).value();
    else
      answer.wrong = "cannot create the queue: " + queue.error().line();
  }

  void push(const Operation& operation, Answer& answer) {
    const std::uint64_t refusals = pool().heap().refusals();
    const std::string payload = payload_of(operation.stamp, queue_->payload_bytes());
    answer.outcome = subject_.queue->detectable
                         ? queue_->push(payload, PushTag{operation.thread, operation.stamp})
                         : queue_->push(payload);
    if (answer.outcome != Outcome::out_of_space || capacity() != ~std::uint64_t{0}) return;
    if (const std::string why = refused_without_reason(refusals, is_new_); !why.empty())
      answer.wrong =
          "push of payload " + std::to_string(operation.stamp) + " came to out_of_space" + why;
  }

  void pop(Answer& answer) {
    static constexpr const char* untouched = "untouched";
    std::string payload = untouched;
    answer.outcome = queue_->pop(payload);
    if (answer.outcome == Outcome::ok)
      answer.stamp = stamp_in_payload(payload, queue_->payload_bytes());
    else if (payload != untouched)
      answer.wrong = "a pop that found the queue empty has changed its caller's payload";
  }

  [[nodiscard]] std::string show_found(const Contents& found) const {
    std::string text;
    for (std::size_t i = producers_; i < found.size(); ++i)
      text += (text.empty() ? "" : ", ") + std::to_string(found[i]);
    return "[" + text + "]";
  }

  const Subject& subject_;
  unsigned producers_;
  QueuePlace place_;
  std::unique_ptr<DurableQueue> queue_;
  bool is_new_ = false;
};

}  // namespace

std::unique_ptr<Instance> make_queue_instance(const Subject& subject, const Vocabulary& vocabulary,
                                              std::unique_ptr<Pool> pool) {
  return std::make_unique<QueueInstance>(subject, vocabulary, std::move(pool));
}

Recovered recover_queue_instance(const Subject& subject, const Vocabulary& vocabulary,
                                 std::unique_ptr<Pool> pool) {
  const bool was_closed = pool->was_clean();
  auto instance = std::make_unique<QueueInstance>(subject, vocabulary, std::move(pool));
  const Result<void> recovered = instance->recover();
  return recovered_to(recovered, std::move(instance), was_closed);
}

}  // namespace perdure::crash
