#include "crash/subject.h"

#include <algorithm>

#include "crash/pooled_instance.h"
#include "pool/slab_heap.h"

namespace perdure::crash {

struct Vocabulary::Both {
  std::optional<Universe<IntegerKeys>> integers;
  std::optional<Universe<ByteKeys>> bytes;
  std::optional<Universe<SlotKeys>> slots;

  template <class Keys>
  [[nodiscard]] const Universe<Keys>& of() const {
    if constexpr (Keys::kind == KeyKind::integer)
      return *integers;
    else if constexpr (Keys::kind == KeyKind::bytes)
      return *bytes;
    else
      return *slots;
  }
};

Vocabulary::Vocabulary(const Program& program)
    : kind_(program.key_kind),
      keys_(program.keys),
      threads_(program.threads),
      both_(std::make_unique<Both>()) {
  if (kind_ == KeyKind::integer)
    both_->integers.emplace(program);
  else if (kind_ == KeyKind::bytes)
    both_->bytes.emplace(program);
  else
    both_->slots.emplace(program);
}
Vocabulary::~Vocabulary() = default;

std::string Vocabulary::show(std::uint16_t key) const {
  return kind_ == KeyKind::integer ? both_->integers->show(key)
         : kind_ == KeyKind::bytes ? both_->bytes->show(key)
                                   : both_->slots->show(key);
}

namespace {

/// Calls under way, of all threads of a program: did one run beside another?
class Beside {
 public:
  struct Start {
    bool beside;
    std::uint64_t number;
  };
  [[nodiscard]] Start begin() noexcept { return {running_++ != 0, ++begun_}; }
  [[nodiscard]] bool was_beside(Start start) const noexcept {
    return start.beside || begun_ != start.number;
  }
  /// A call of a thread that is stopped for ever never ends.
  void end() noexcept { --running_; }

 private:
  std::uint64_t running_ = 0;
  std::uint64_t begun_ = 0;
};

template <class Keys>
class IndexInstance final : public PooledInstance {
 public:
  IndexInstance(const Subject& subject, const Universe<Keys>& universe, std::uint16_t keys,
                std::unique_ptr<Pool> pool)
      : PooledInstance(std::move(pool)), subject_(subject), universe_(universe), keys_(keys) {
    place_.pool = &this->pool();
    place_.options = subject.options;
    place_.threads = 1;
    place_.huge_pages = false;
  }
  ~IndexInstance() override { index_.reset(); }

  [[nodiscard]] Result<void> recover() {
    auto index = recover_index<Keys>(*subject_.info, place_);
    if (!index) return index.error();
    index_ = std::move(index).value();
    return {};
  }

  [[nodiscard]] Answer perform(const Operation& operation) override {
    const std::uint64_t refusals = this->pool().heap().refusals();
    removed_ += may_remove(operation.action) ? 1 : 0;
    const Beside::Start start = beside_.begin();
    Answer answer = answer_to(operation);
    if (answer.outcome == Outcome::out_of_space && answer.wrong.empty())
      answer.wrong = refused_wrongly(operation, refusals, beside_.was_beside(start));
    beside_.end();  // here: to judge a refusal reads the index, and a thread may be stopped there
    return answer;
  }

  [[nodiscard]] std::vector<Answer> perform_batch(std::span<const Operation> operations) override {
    if (operations.size() == 1) return {perform(operations.front())};
    const std::uint64_t refusals = this->pool().heap().refusals();
    removed_ += may_remove(operations.front().action) ? operations.size() : 0;
    const Beside::Start start = beside_.begin();
    std::vector<Answer> answers = answers_to(operations);
    const bool was_beside = beside_.was_beside(start);
    for (std::size_t i = 0; i < answers.size(); ++i)
      if (answers[i].outcome == Outcome::out_of_space && answers[i].wrong.empty())
        answers[i].wrong = refused_wrongly(operations[i], refusals, was_beside);
    beside_.end();
    return answers;
  }

  [[nodiscard]] std::vector<Answer> answers_to(std::span<const Operation> operations) {
    using Value = decltype(universe_.value(0));
    std::vector<typename Keys::Key> keys;
    std::vector<Value> owned;
    for (const Operation& each : operations) {
      keys.push_back(universe_.key(each.key));
      owned.push_back(universe_.value(each.stamp));
    }
    const std::vector<typename Keys::Value> values(owned.begin(), owned.end());
    std::vector<typename Keys::ValueOut> found(operations.size());
    std::vector<Outcome> outcomes(operations.size(), Outcome::invalid);
    switch (operations.front().action) {
      case Action::insert:
        index_->insert_batch(keys, values, outcomes);
        break;
      case Action::upsert:
        index_->upsert_batch(keys, values, outcomes);
        break;
      case Action::update:
        index_->update_batch(keys, values, outcomes);
        break;
      case Action::remove:
        index_->remove_batch(keys, outcomes);
        break;
      default:
        index_->lookup_batch(keys, found, outcomes);
    }
    std::vector<Answer> answers(operations.size());
    for (std::size_t i = 0; i < answers.size(); ++i) {
      answers[i].returned = true;
      answers[i].outcome = outcomes[i];
      if (operations[i].action == Action::lookup && outcomes[i] == Outcome::ok)
        answers[i].stamp = universe_.stamp_of(found[i]);
    }
    return answers;
  }

  [[nodiscard]] Answer answer_to(const Operation& operation) {
    Answer answer;
    answer.returned = true;
    const auto key =
        operation.action == Action::create ? typename Keys::Key{} : universe_.key(operation.key);
    const auto value = universe_.value(operation.stamp);
    switch (operation.action) {
      case Action::create:
        create(answer);
        break;
      case Action::insert:
        answer.outcome = index_->insert(key, value);
        break;
      case Action::upsert:
        answer.outcome = index_->upsert(key, value);
        break;
      case Action::update:
        answer.outcome = index_->update(key, value);
        break;
      case Action::remove:
        answer.outcome = index_->remove(key);
        break;
      case Action::lookup: {
        typename Keys::ValueOut found{};
        answer.outcome = index_->lookup(key, found);
        if (answer.outcome == Outcome::ok) answer.stamp = universe_.stamp_of(found);
        break;
      }
      case Action::load:
        load(operation, answer);
        break;
      case Action::push:
      case Action::pop:
        answer.wrong = std::string("an index has no ") + name_of(operation.action);
        break;
      case Action::scan: {
        typename Keys::Scan out;
        index_->scan(key, operation.count, out);
        answer.wrong = take(out, answer.found);
        break;
      }
    }
    return answer;
  }

  [[nodiscard]] std::string contents(std::vector<std::uint64_t>& stamps) override {
    stamps.assign(keys_, absent);
    if (!subject_.info->ordered) {
      for (std::uint16_t key = 0; key < keys_; ++key) stamps[key] = lookup(key);
    } else {
      scan_.clear();
      index_->scan(universe_.lowest(), std::size_t{keys_} + 8, scan_);
      found_.clear();
      if (std::string wrong = take(scan_, found_); !wrong.empty()) return wrong;
      for (const Answer::Found& found : found_) stamps[found.key] = found.stamp;
    }
    return {};
  }

  // Asked when every key was found to be what it may be, so no key is at fault: only the count is.
  [[nodiscard]] std::string count_wrongly(std::span<const std::uint64_t> stamps) const override {
    if (this->is_recovering()) return {};  // a count would end a recovery beside the operations
    const auto present = static_cast<std::uint64_t>(
        std::ranges::count_if(stamps, [](std::uint64_t stamp) { return stamp != absent; }));
    const std::uint64_t counted = index_->size();
    if (present == counted) return {};
    std::string text = "the index says it holds " + std::to_string(counted) + " records, and " +
                       std::to_string(present) + " are found";
    std::string names;
    constexpr unsigned most = 8;
    unsigned named = 0;
    for (std::uint16_t key = 0; key < stamps.size() && named <= most; ++key)
      if (stamps[key] != absent)
        names += named++ == most ? ", ..." : (named == 1 ? "" : ", ") + universe_.show(key);
    return text + (names.empty() ? "" : ": of keys " + names);
  }

  [[nodiscard]] std::uint64_t lookup(std::uint16_t key) override {
    typename Keys::ValueOut value{};
    const Outcome outcome = index_->lookup(universe_.key(key), value);
    return outcome == Outcome::ok ? universe_.stamp_of(value) : absent;
  }
  [[nodiscard]] std::string check() const override {
    const Result<void> checked = index_->check_invariants();
    return checked ? std::string() : checked.error().what;
  }
  [[nodiscard]] std::uint64_t size() const override { return index_->size(); }
  void quiesce() override { index_->quiesce(); }
  void close() override {
    index_.reset();
    static_cast<void>(this->pool().close());  // errors are of files
  }

 private:
  void create(Answer& answer) {
    is_new_ = true;
    auto index = create_index<Keys>(*subject_.info, place_);
    if (index)
      index_ = std::move(index).value();
    else
      answer.wrong = "cannot create the index: " + index.error().line();
  }

  void load(const Operation& operation, Answer& answer) {
    using Text = std::conditional_t<has_text_values<Keys>, std::string, std::uint64_t>;
    std::vector<Text> values;  // records of byte strings refer to them
    for (std::uint16_t key = 0; key < operation.count; ++key)
      values.push_back(universe_.value(operation.stamp + key));
    std::vector<typename Keys::Record> records;
    for (std::uint16_t key = 0; key < operation.count; ++key)
      records.push_back({universe_.key(key), values[key]});
    const Result<void> loaded = index_->bulk_load(records);
    if (loaded) return;
    answer.outcome = Outcome::invalid;
    if (loaded.error().code == ErrorCode::out_of_space) answer.outcome = Outcome::out_of_space;
    if (answer.outcome == Outcome::invalid && loaded.error().code != ErrorCode::unsupported)
      answer.wrong = "bulk load: " + loaded.error().line();
  }

  /// A scan's records in our words.
  [[nodiscard]] std::string take(const typename Keys::Scan& out,
                                 std::vector<Answer::Found>& found) const {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t guess = found.empty() ? 0 : found.back().key + std::size_t{1};
      const int number = universe_.number_of(out[i].key, guess);
      if (number < 0)
        return "a scan found key " + show_key(out[i].key) + ", which nobody inserted" +
               (found.empty() ? "" : ", after key " + universe_.show(found.back().key));
      const auto key = static_cast<std::uint16_t>(number);
      if (!found.empty() && found.back().key >= key)
        return "a scan found key " + universe_.show(key) + " after key " +
               universe_.show(found.back().key);
      found.push_back({key, universe_.stamp_of(out[i].value)});
    }
    return {};
  }

  /// Whether it takes a record away, or another's place.
  [[nodiscard]] static bool may_remove(Action action) {
    return action == Action::remove || action == Action::update || action == Action::upsert;
  }

  /// Empty, or why `out_of_space` was no right answer; the heap had refused `refusals_before` calls
  /// when the operation began, and another ran at some time beside it, or none.
  [[nodiscard]] std::string refused_wrongly(const Operation& operation,
                                            std::uint64_t refusals_before, bool was_beside) const {
    constexpr std::uint64_t most_threads = 8;  // whose changes a count may not have yet
    const std::string who =
        std::string(name_of(operation.action)) +
        (operation.action == Action::load ? "" : " of key " + universe_.show(operation.key));
    if (operation.action == Action::lookup || operation.action == Action::remove ||
        operation.action == Action::scan)
      return who + " came to out_of_space, and it adds nothing";
    const std::uint64_t most = index_->most_records();
    const std::uint64_t more = operation.action == Action::load ? operation.count : most_threads;
    // A fixed table cannot use the place of what was removed for as long as another operation may
    // still read it, and one that is stopped for ever may always.
    const std::uint64_t held_back = was_beside ? removed_ : 0;
    const bool is_fixed = most != ~std::uint64_t{0};
    const std::uint64_t held = is_fixed ? index_->size() : 0;
    if (is_fixed && held + more + held_back >= most) return {};
    const std::string why = this->refused_without_reason(refusals_before, is_new_);
    if (why.empty()) return why;
    const std::string fill =
        is_fixed ? " with " + std::to_string(held) + " records of at most " + std::to_string(most)
                 : std::string();
    return who + " came to out_of_space" + fill + why;
  }

  [[nodiscard]] static std::string show_key(typename Keys::Key key) {
    if constexpr (Keys::kind == KeyKind::bytes)
      return show_bytes(key);
    else
      return std::to_string(key);
  }

  const Subject& subject_;
  const Universe<Keys>& universe_;
  std::uint16_t keys_;
  IndexPlace place_;
  std::unique_ptr<OrderedIndex<Keys>> index_;
  bool is_new_ = false;
  Beside beside_;
  std::uint64_t removed_ = 0;  ///< at most, since the index was opened
  typename Keys::Scan scan_;
  std::vector<Answer::Found> found_;
};

template <class Keys>
Recovered recover_as(const Subject& subject, const Universe<Keys>& universe, std::uint16_t keys,
                     std::unique_ptr<Pool> pool) {
  const bool was_closed = pool->was_clean();
  auto instance = std::make_unique<IndexInstance<Keys>>(subject, universe, keys, std::move(pool));
  const Result<void> recovered = instance->recover();
  return recovered_to(recovered, std::move(instance), was_closed);
}

Result<std::unique_ptr<Pool>> open_copy(const Memory& memory) {
  PoolOptions options;
  options.path = memory.path();
  options.huge_pages = false;
  options.prefault = false;
  return Pool::open(options);
}

}  // namespace

Result<std::unique_ptr<Instance>> start_new(const Subject& subject, const Vocabulary& vocabulary,
                                            const Memory& memory) {
  auto pool = subject.heap == HeapKind::pmdk
                  ? open_copy(memory)
                  : Pool::create_in(memory.span(), subject.options.pool_parts());
  if (!pool) return pool.error();
  if (subject.queue != nullptr)
    return make_queue_instance(subject, vocabulary, std::move(pool).value());
  const auto& both = vocabulary.both();
  const std::uint16_t keys = vocabulary.keys();
  if (vocabulary.kind() == KeyKind::integer)
    return std::unique_ptr<Instance>(std::make_unique<IndexInstance<IntegerKeys>>(
        subject, both.of<IntegerKeys>(), keys, std::move(pool).value()));
  if (vocabulary.kind() == KeyKind::slots)
    return std::unique_ptr<Instance>(std::make_unique<IndexInstance<SlotKeys>>(
        subject, both.of<SlotKeys>(), keys, std::move(pool).value()));
  return std::unique_ptr<Instance>(std::make_unique<IndexInstance<ByteKeys>>(
      subject, both.of<ByteKeys>(), keys, std::move(pool).value()));
}

std::size_t least_pool_bytes(const Subject& subject, KeyKind key_kind) {
  Program program;
  program.key_kind = key_kind;
  const Vocabulary vocabulary(program);
  for (std::size_t bytes = Pool::min_image_bytes;
       subject.heap == HeapKind::slab && bytes < subject.pool_bytes;
       bytes += SlabHeap::chunk_bytes) {
    const Memory memory(bytes);
    const auto instance = start_new(subject, vocabulary, memory);
    if (instance && (*instance)->perform({.action = Action::create}).wrong.empty()) return bytes;
  }
  return subject.pool_bytes;
}

Recovered recover(const Subject& subject, const Vocabulary& vocabulary, const Memory& memory) {
  auto pool = subject.heap == HeapKind::pmdk ? open_copy(memory) : Pool::open_in(memory.span());
  if (!pool)
    return {.instance = nullptr, .problem = "the pool does not open: " + pool.error().what};
  if (subject.queue != nullptr)
    return recover_queue_instance(subject, vocabulary, std::move(pool).value());
  const auto& both = vocabulary.both();
  const std::uint16_t keys = vocabulary.keys();
  if (vocabulary.kind() == KeyKind::integer)
    return recover_as(subject, both.of<IntegerKeys>(), keys, std::move(pool).value());
  if (vocabulary.kind() == KeyKind::slots)
    return recover_as(subject, both.of<SlotKeys>(), keys, std::move(pool).value());
  return recover_as(subject, both.of<ByteKeys>(), keys, std::move(pool).value());
}

}  // namespace perdure::crash
