#include "workload/verify.h"

#include <algorithm>
#include <cstdio>

#include "core/assert.h"

namespace perdure::workload {
namespace {

constexpr std::uint64_t unknown_id = ~std::uint64_t{0};

std::string printable(std::string_view key) {
  constexpr std::size_t longest = 40;
  std::string text = "\"";
  for (const char c : key.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\') {
      text += c;
    } else {
      char escaped[5];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
      text += escaped;
    }
  }
  text += '"';
  if (key.size() > longest) text += "... (" + std::to_string(key.size()) + " bytes)";
  return text;
}

std::string printable(std::uint64_t key) { return std::to_string(key); }

std::string printable(std::optional<std::uint64_t> word) {
  return word ? "value " + std::to_string(*word) : "a value of another length or torn";
}

std::string range(std::uint32_t low, std::uint32_t high) {
  return low == high ? "version " + std::to_string(low)
                     : "a version from " + std::to_string(low) + " to " + std::to_string(high);
}

std::string name_of_key(const Ticket& ticket) {
  return ticket.key_text.data() != nullptr ? printable(ticket.key_text) : printable(ticket.key);
}

constexpr const char* text_of(Answer answer) noexcept {
  switch (answer) {
    case Answer::done:
      return "done";
    case Answer::exists:
      return "exists";
    case Answer::not_found:
      return "not found";
    case Answer::refused:
      return "refused";
  }
  return "";
}

}  // namespace

Verifier::Verifier(const Workload& workload, unsigned threads)
    : workload_(workload),
      threads_(threads),
      keys_(workload),
      values_(workload),
      states_(workload.records) {
  if (!workload.mix.has(Operation::scan)) return;
  order_.resize(workload.records);
  if (workload.is_bytes()) {
    // Eight bytes, past what all keys share, decide nearly every comparison; whole keys are made
    // only for ties.
    const std::size_t shared =
        workload.keys.form == Keys::Form::prefixed ? workload.keys.prefix.size() : 0;
    struct Item {
      std::uint64_t front;
      std::uint64_t id;
    };
    std::vector<Item> items(workload.records);
    std::string key(keys_.longest(), '\0');
    std::string other(keys_.longest(), '\0');
    const auto text = [&](std::uint64_t id, std::string& room) {
      return std::string_view(room.data(), keys_.write(id, room.data()));
    };
    for (std::uint64_t id = 0; id < workload.records; ++id) {
      std::uint64_t front = 0;
      const std::string_view written = text(id, key).substr(shared);
      for (std::size_t i = 0; i < sizeof front; ++i)
        front = front << 8 | (i < written.size() ? static_cast<unsigned char>(written[i]) : 0U);
      items[id] = {front, id};
    }
    std::sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
      return a.front != b.front ? a.front < b.front : text(a.id, key) < text(b.id, other);
    });
    for (std::uint64_t i = 0; i < workload.records; ++i) order_[i] = items[i].id;
  } else {
    for (std::uint64_t id = 0; id < workload.records; ++id) order_[id] = keys_.word(id);
    std::sort(order_.begin(), order_.end());
    for (std::uint64_t& word : order_) word = keys_.id_of(word);
  }
}

void Verifier::forget_loaded() {
  states_.forget_loaded();
  fresh_words_.clear();
  fresh_texts_.clear();
}

void Verifier::adopt_word(std::uint64_t key, std::optional<std::uint64_t> word) {
  const std::uint64_t id = keys_.id_of(key);
  const bool good = word && is_tracked(id) && adopt_id(id, *word);
  checked_.fetch_add(1, std::memory_order_relaxed);
  if (!good)
    count_wrong("adopted key " + printable(key) + ": expected a record of this workload, got " +
                printable(word));
  else if (threads_ == 1 && id >= workload_.records)
    fresh_words_.insert(key);
}

void Verifier::adopt_word(std::string_view key, std::optional<std::uint64_t> word) {
  const auto id = keys_.id_of(key);
  const bool good = id && word && is_tracked(*id) && adopt_id(*id, *word);
  checked_.fetch_add(1, std::memory_order_relaxed);
  if (!good)
    count_wrong("adopted key " + printable(key) + ": expected a record of this workload, got " +
                printable(word));
  else if (threads_ == 1 && *id >= workload_.records)
    fresh_texts_.emplace(key);
}

bool Verifier::adopt_id(std::uint64_t id, std::uint64_t word) {
  const std::uint64_t version = values_.version(id, word);
  if (version >> 32 != 0) return false;
  return states_.with(id, [&](KeyState& state) {
    state = KeyState::present(static_cast<std::uint32_t>(version));
    return true;
  });
}

Ticket Verifier::begin(const IntegerStep& step) { return begin_word(step); }
Ticket Verifier::begin(const SlotStep& step) { return begin_word(step); }

template <class Step>
Ticket Verifier::begin_word(const Step& step) {
  Ticket ticket;
  ticket.operation = step.operation;
  ticket.scan_count = step.scan_count;
  ticket.key = step.key;
  ticket.id = keys_.id_of(step.key);
  begin_id(ticket);
  return ticket;
}

Ticket Verifier::begin(const BytesStep& step) {
  Ticket ticket;
  ticket.operation = step.operation;
  ticket.scan_count = step.scan_count;
  ticket.key_text = step.key.data() != nullptr ? step.key : std::string_view("");
  ticket.id = keys_.id_of(step.key).value_or(unknown_id);
  begin_id(ticket);
  return ticket;
}

void Verifier::begin_id(Ticket& ticket) {
  if (ticket.operation == Operation::scan) {
    if (threads_ > 1) snapshot_scanned(ticket);
    return;
  }
  if (!is_tracked(ticket.id)) return;  // ticket.before stays that of an absent key
  const bool writes =
      ticket.operation != Operation::lookup && ticket.operation != Operation::lookup_negative;
  ticket.version = states_.with(ticket.id, [&](KeyState& state) {
    ticket.before = state;
    return writes ? state.begin(ticket.operation) : 0;
  });
  ticket.value_word = values_.word(ticket.id, ticket.version);
}

bool Verifier::end(const Ticket& ticket, Answer answer) {
  checked_.fetch_add(1, std::memory_order_relaxed);
  const bool done = answer == Answer::done;
  if (!is_tracked(ticket.id)) {
    if (answer == Answer::not_found || answer == Answer::refused) return true;
    return wrong(ticket, std::string("expected not found, got ") + text_of(answer));
  }
  KeyState after;
  const bool alternates = states_.with(ticket.id, [&](KeyState& state) {
    const bool right = state.end(ticket.operation, ticket.version, done);
    after = state;
    return right;
  });
  if (answer == Answer::refused) return true;
  if (done && threads_ == 1 && ticket.id >= workload_.records &&
      workload_.mix.has(Operation::scan)) {
    if (ticket.key_text.data() == nullptr)
      fresh_words_.insert(ticket.key);
    else
      fresh_texts_.emplace(ticket.key_text);
  }
  const bool present = possibly_present_between(ticket.before, after, ticket.operation);
  const bool absent = possibly_absent_between(ticket.before, after, ticket.operation);
  const auto unlike = [&](const char* expected) {
    return wrong(ticket, std::string("expected ") + expected + ", got " + text_of(answer));
  };
  if (ticket.operation == Operation::upsert) {
    if (!done) return unlike("done");
  } else if (ticket.operation == Operation::insert) {
    if (done && !absent) return unlike("exists");
    if (answer == Answer::exists && !present) return unlike("done");
    if (answer == Answer::not_found) return unlike("done or exists");
  } else {
    if (done && !present) return unlike("not found");
    if (answer == Answer::not_found && !absent) return unlike("done");
    if (answer == Answer::exists) return unlike("done or not found");
  }
  if (!alternates)
    return wrong(ticket, "inserts and removes that overlapped cannot all have succeeded");
  return true;
}

bool Verifier::end_lookup(const Ticket& ticket, Answer answer, std::uint64_t value) {
  return end_read(ticket, answer, value, true);
}

bool Verifier::end_lookup(const Ticket& ticket, Answer answer, std::string_view value) {
  if (answer != Answer::done) return end_read(ticket, answer, 0, true);
  const auto word = values_.word_of(value);
  return end_read(ticket, answer, word.value_or(0), word.has_value());
}

bool Verifier::end_read(const Ticket& ticket, Answer answer, std::uint64_t word, bool decodes) {
  checked_.fetch_add(1, std::memory_order_relaxed);
  const bool done = answer == Answer::done;
  if (!done && answer != Answer::not_found)
    return wrong(ticket, std::string("expected done or not found, got ") + text_of(answer));
  if (!is_tracked(ticket.id))
    return !done || wrong(ticket, "expected not found, got a value: no such key was ever inserted");
  const KeyState after = states_.with(ticket.id, [&](KeyState& state) {
    const bool quiet = ticket.before.pending == 0 && state.pending == 0 &&
                       ticket.before.adds == state.adds && ticket.before.removes == state.removes;
    const KeyState now = state;
    if (quiet && state.possibly_present() && state.possibly_absent()) state.learn(done);
    return now;
  });
  if (!done)
    return possibly_absent_between(ticket.before, after, ticket.operation) ||
           wrong(ticket,
                 "expected " + range(ticket.before.floor, after.ceiling()) + ", got not found");
  if (!possibly_present_between(ticket.before, after, ticket.operation))
    return wrong(ticket, "expected not found, got a value");
  if (!decodes)
    return wrong(ticket, "expected a value of " + std::to_string(values_.bytes()) +
                             " bytes, got one of another length or torn");
  const std::string fault = value_fault(ticket.id, word, ticket.before, after);
  return fault.empty() || wrong(ticket, fault);
}

std::string Verifier::value_fault(std::uint64_t id, std::uint64_t word, const KeyState& before,
                                  const KeyState& after) const {
  const std::uint64_t version = values_.version(id, word);
  const std::uint32_t low = before.floor;
  const std::uint32_t high = after.ceiling();
  if (version >= low && version <= high) return {};
  const std::string expected = "expected " + range(low, high) + ", got ";
  if (version >> 32 != 0)
    return expected + "value " + std::to_string(word) + ", which was never written to this key";
  return expected + "version " + std::to_string(version);
}

bool Verifier::wrong(const Ticket& ticket, const std::string& what) {
  count_wrong(std::string(name_of(ticket.operation)) + " key " + name_of_key(ticket) + ": " + what);
  return false;
}

void Verifier::report(const std::string& what) {
  checked_.fetch_add(1, std::memory_order_relaxed);
  count_wrong(what);
}

void Verifier::count_wrong(const std::string& what) {
  wrong_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard guard(example_lock_);
  if (examples_.size() < most_examples) examples_.push_back(what);
}

Verifier::Summary Verifier::summary() const {
  const std::lock_guard guard(example_lock_);
  return {checked_.load(), wrong_.load(), examples_};
}

FinalCheck::FinalCheck(Verifier& verifier)
    : verifier_(verifier), seen_(verifier.states_.end(), false) {}

void FinalCheck::accept_word(std::uint64_t key, std::optional<std::uint64_t> word) {
  const bool ascends = records_ == 0 || key > last_word_;
  const std::string fault = ascends ? "" : "expected one above " + printable(last_word_);
  last_word_ = key;
  accept_record(verifier_.keys_.id_of(key), word, printable(key), fault);
}

void FinalCheck::accept_word(std::string_view key, std::optional<std::uint64_t> word) {
  const bool ascends = records_ == 0 || key > last_text_;
  const std::string fault = ascends ? "" : "expected one above " + printable(last_text_);
  last_text_ = key;
  accept_record(verifier_.keys_.id_of(key), word, printable(key), fault);
}

void FinalCheck::accept_record(std::optional<std::uint64_t> id, std::optional<std::uint64_t> word,
                               const std::string& name, const std::string& order_fault) {
  ++records_;
  verifier_.checked_.fetch_add(1, std::memory_order_relaxed);
  const std::string record_fault = fault_of(id, word);
  const std::string& fault = order_fault.empty() ? record_fault : order_fault;
  if (fault.empty()) return;
  verifier_.count_wrong("full scan key " + name + ": " + fault);
  all_right_ = false;
}

std::string FinalCheck::fault_of(std::optional<std::uint64_t> id,
                                 std::optional<std::uint64_t> word) {
  if (!id || *id >= seen_.size()) return "expected no such key: it was never inserted";
  seen_[*id] = true;
  const KeyState state = verifier_.states_.snapshot(*id);
  PERDURE_ASSERT(state.pending == 0);  // the threads rest
  if (!state.possibly_present()) return "expected it removed";
  if (!word) return "expected a whole value, got one of another length or torn";
  return verifier_.value_fault(*id, *word, state, state);
}

bool FinalCheck::finish() {
  for (std::uint64_t id = 0; id < seen_.size(); ++id) {
    if (seen_[id] || verifier_.states_.snapshot(id).possibly_absent()) continue;
    std::string name;
    if (verifier_.workload_.is_bytes()) {
      std::string key(verifier_.keys_.longest(), '\0');
      key.resize(verifier_.keys_.write(id, key.data()));
      name = printable(std::string_view(key));
    } else {
      name = printable(verifier_.keys_.word(id));
    }
    verifier_.report("full scan key " + name + ": expected it, got nothing");
    all_right_ = false;
  }
  return all_right_;
}

}  // namespace perdure::workload
