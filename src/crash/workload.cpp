#include "crash/workload.h"

#include <algorithm>
#include <array>
#include <set>

namespace perdure::crash {
namespace {

/// What one stretch of a program is made of, in shares of 100.
struct Style {
  std::array<std::uint8_t, 6> share;  ///< insert, upsert, update, remove, lookup, scan
  bool hot;                           ///< keys of one neighbourhood only
  bool ascending;
};
constexpr std::array<Style, 8> styles = {{{{60, 10, 5, 5, 15, 5}, false, false},
                                          {{10, 5, 5, 60, 15, 5}, false, false},
                                          {{30, 10, 10, 30, 15, 5}, true, false},
                                          {{10, 25, 40, 5, 15, 5}, false, false},
                                          {{70, 5, 5, 5, 10, 5}, false, true},
                                          {{25, 20, 15, 20, 12, 8}, false, false},
                                          {{0, 0, 0, 100, 0, 0}, false, true},
                                          {{100, 0, 0, 0, 0, 0}, false, true}}};
constexpr std::size_t changing_structure = 2;
// In turn, where blocks are to be reused, so that a stale link to one shows.
constexpr std::size_t emptying = 6;
constexpr std::size_t filling = 7;

/// Adjacent keys that have something in common with no others: they make a node of a tree whose
/// leaves hold four, and it goes again when few of them do.
constexpr std::size_t cluster = 5;

template <class Key, class Wanted>
int place_of(const std::vector<Key>& keys, const Wanted& wanted, std::size_t guess) {
  constexpr std::size_t next_ones = 4;
  for (std::size_t i = guess; i < std::min(keys.size(), guess + next_ones); ++i)
    if (keys[i] == wanted) return static_cast<int>(i);
  const auto at = std::ranges::lower_bound(keys, wanted);
  return at != keys.end() && *at == wanted ? static_cast<int>(at - keys.begin()) : -1;
}

}  // namespace

const char* name_of(Action action) noexcept {
  return action_names[static_cast<std::size_t>(action)];
}

namespace {

/// The run's places in the order in which they are inserted.
std::vector<std::uint16_t> crowd_order(std::uint16_t width, Rng& rng) {
  std::vector<std::uint16_t> order(width);
  for (std::uint16_t i = 0; i < width; ++i) order[i] = i;
  switch (rng.below(5)) {
    case 0:
      break;
    case 1:
      std::ranges::reverse(order);
      break;
    case 2:  // from both ends
      for (std::uint16_t i = 0; i < width; ++i)
        order[i] = static_cast<std::uint16_t>(i % 2 == 0 ? i / 2 : width - 1 - i / 2);
      break;
    default:
      std::shuffle(order.begin(), order.end(), rng);
  }
  return order;
}

/// Inserts a run of adjacent keys between others, dealt out to the threads at random: nodes split
/// there, and those above them, while others do.
Program generate_crowd(const ProgramPlan& plan) {
  Rng rng(plan.seed, 1);
  Program program{plan.key_kind, plan.threads, plan.keys, plan.seed, {}, {}};
  const auto width = static_cast<std::uint16_t>(std::min<unsigned>(plan.operations, plan.keys));
  const auto begin = static_cast<std::uint16_t>(rng.below(plan.keys - width + std::uint64_t{1}));
  // None, a third or half of them are there before.
  const std::uint64_t gap = rng.below(3);
  const auto is_there = [&](std::uint16_t key) {
    return key < begin || key >= begin + width || (gap > 0 && key % (4 - gap) == 0);
  };
  std::vector<std::uint16_t> others;
  for (std::uint16_t key = 0; key < plan.keys; ++key)
    if (is_there(key)) others.push_back(key);
  // Nodes that were filled in order are half full but for the last, others more.
  if (rng.below(2) == 0) std::shuffle(others.begin(), others.end(), rng);
  std::uint64_t stamp = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(others.size(), plan.preload); ++i)
    program.preload.push_back({Action::insert, 0, others[i], 0, ++stamp});
  for (const std::uint16_t place : crowd_order(width, rng)) {
    const auto key = static_cast<std::uint16_t>(begin + place);
    if (is_there(key)) continue;
    const auto thread = static_cast<std::uint8_t>(rng.below(plan.threads));
    program.operations.push_back({Action::insert, thread, key, 0, ++stamp});
    constexpr std::uint64_t seldom = 8;
    if (rng.below(seldom) != 0) continue;
    program.operations.push_back({rng.below(2) == 0 ? Action::remove : Action::lookup,
                                  static_cast<std::uint8_t>(rng.below(plan.threads)), key, 0,
                                  ++stamp});
  }
  return program;
}

/// Pushes and pops by all threads, in stretches that fill the queue, empty it, or do neither.
Program generate_for_queue(const ProgramPlan& plan) {
  static constexpr std::uint64_t pushes_of_hundred[] = {80, 30, 50, 45};
  Rng rng(plan.seed, 1);
  Program program{plan.key_kind, plan.threads, plan.keys, plan.seed, {}, {}};
  std::uint64_t stamp = 0;
  // Of few payloads any number, so that the queue is empty, full, or in between.
  const std::uint64_t most = rng.below(2) == 0 ? 1 : plan.preload / 2;
  for (std::uint64_t left = rng.below(most + 1); left > 0; --left)
    program.preload.push_back({Action::push, 0, 0, 0, ++stamp});
  const unsigned stretch = std::max(1U, plan.operations / 3);
  std::uint64_t pushes = 0;
  for (unsigned i = 0; i < plan.operations; ++i) {
    if (i % stretch == 0) pushes = pushes_of_hundred[rng.below(std::size(pushes_of_hundred))];
    const auto thread = static_cast<std::uint8_t>(rng.below(plan.threads));
    const Action action = rng.below(100) < pushes ? Action::push : Action::pop;
    program.operations.push_back({action, thread, 0, 0, ++stamp});
  }
  return program;
}

}  // namespace

Program around(const Program& program, std::size_t first, std::size_t count, unsigned threads,
               bool replaces) {
  Rng rng(program.universe, 13);
  Program made = program;
  made.threads = threads;
  made.preload.resize(first);
  made.operations.clear();
  std::uint64_t stamp = program.preload.size();
  for (std::size_t i = first; i < std::min(program.preload.size(), first + count); ++i) {
    Operation operation = program.preload[i];
    operation.thread = static_cast<std::uint8_t>(rng.below(threads));
    made.operations.push_back(operation);
    if (rng.below(2) == 0) continue;
    static constexpr Action others[] = {Action::upsert, Action::update, Action::remove,
                                        Action::lookup};
    operation.action = others[rng.below(std::size(others))];
    if (!replaces) operation.action = without_replacing(operation.action);
    operation.thread = static_cast<std::uint8_t>(rng.below(threads));
    // One that was inserted, most often lately.
    const std::size_t back = rng.below(rng.below(2) == 0 ? 4 : i + 1);
    operation.key = program.preload[i - std::min(i, back)].key;
    operation.stamp = ++stamp;
    made.operations.push_back(operation);
  }
  return made;
}

void make_batches(Program& program, unsigned most) {
  struct Batch {
    Action action;
    std::uint16_t number;
    std::uint64_t left = 0;
  };
  if (most <= 1) return;
  Rng rng(program.universe, 20);
  std::array<Batch, 256> of_thread{};
  std::uint16_t number = 0;
  for (Operation& operation : program.operations) {
    Batch& batch = of_thread[operation.thread];
    if (batch.left == 0) {
      if (!has_key(operation.action)) continue;
      batch = {operation.action, ++number, 1 + rng.below(most)};
    }
    operation.action = batch.action;
    operation.batch = batch.number;
    --batch.left;
  }
}

namespace {
Program generate_mixed(const ProgramPlan& plan);
}  // namespace

Program generate(const ProgramPlan& plan) {
  Program program = plan.queue     ? generate_for_queue(plan)
                    : plan.crowded ? generate_crowd(plan)
                                   : generate_mixed(plan);
  make_batches(program, plan.batch);
  return program;
}

namespace {

Program generate_mixed(const ProgramPlan& plan) {
  Rng rng(plan.seed, 1);
  Program program;
  program.key_kind = plan.key_kind;
  program.threads = plan.threads;
  program.keys = plan.keys;
  program.universe = plan.seed;
  std::uint64_t stamp = 0;
  std::vector<std::uint16_t> order(plan.keys);
  for (std::uint16_t i = 0; i < plan.keys; ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), rng);
  const unsigned preload = std::min<unsigned>(plan.preload, plan.keys);
  if (plan.load) {
    program.preload.push_back({Action::load, 0, 0, static_cast<std::uint16_t>(preload), ++stamp});
    stamp += preload;
  }
  for (unsigned i = 0; i < preload && !plan.load; ++i)
    program.preload.push_back({Action::insert, 0, order[i], 0, ++stamp});
  // With several threads nobody waits for the grace periods that come before a reuse.
  const bool reuse = plan.threads == 1 && plan.reuse;
  // Of several threads, to meet is what matters: at one key, or in one neighbourhood, whose
  // structure all of them change.
  const bool meeting = plan.threads > 1 && plan.seed % 4 == 1;
  const bool near = plan.threads > 1 && plan.seed % 4 == 3;
  const Style* style = nullptr;
  std::uint16_t around = 0;
  std::uint16_t next = 0;
  std::uint16_t last = 0;
  for (unsigned i = 0; i < plan.operations; ++i) {
    if (i % std::max(1U, plan.operations / 3) == 0) {
      const unsigned stretch = i / std::max(1U, plan.operations / 3);
      const std::size_t drawn = rng.below(styles.size());
      style = &styles[near               ? changing_structure
                      : !reuse           ? drawn
                      : stretch % 2 == 0 ? emptying
                                         : filling];
      around = static_cast<std::uint16_t>(rng.below(plan.keys));
      if (reuse) next = around;
    }
    Operation operation;
    operation.thread = static_cast<std::uint8_t>(rng.below(plan.threads));
    std::uint64_t draw = rng.below(100);
    std::size_t kind = 0;
    for (; kind + 1 < style->share.size() && draw >= style->share[kind]; ++kind)
      draw -= style->share[kind];
    operation.action = static_cast<Action>(kind + 1);
    if (!plan.replaces) operation.action = without_replacing(operation.action);
    if (operation.action == Action::scan && !plan.ordered) operation.action = Action::lookup;
    // At one key: a reader beside a writer.
    if (meeting && rng.below(3) == 0)
      operation.action = plan.ordered && rng.below(4) == 0 ? Action::scan : Action::lookup;
    const std::uint64_t width = meeting ? 2 : std::max<std::uint64_t>(2, plan.keys / 6);
    operation.key =
        static_cast<std::uint16_t>(style->hot || meeting ? (around + rng.below(width)) % plan.keys
                                   : style->ascending    ? next++ % plan.keys
                                                         : rng.below(plan.keys));
    if (plan.threads > 1 && i > 0 && rng.below(3) == 0) operation.key = last;
    last = operation.key;
    operation.count = static_cast<std::uint16_t>(1 + rng.below(plan.keys));
    operation.stamp = ++stamp;
    program.operations.push_back(operation);
  }
  return program;
}

}  // namespace

Universe<IntegerKeys>::Universe(const Program& program) {
  Rng rng(program.universe, 2);
  std::set<std::uint64_t> keys;
  const unsigned shape = program.keys <= 2 ? 0 : static_cast<unsigned>(program.universe % 5);
  if (shape == 1)  // at the ends and around the sign bit
    for (const std::uint64_t key : {0ULL, 1ULL, ~0ULL, ~0ULL - 1, 1ULL << 63, (1ULL << 63) - 1})
      if (keys.size() < program.keys) keys.insert(key);
  const std::uint64_t first = rng();
  std::vector<std::uint64_t> family{first};  // each is another one but for a byte
  const auto relative = [&] {
    const std::uint64_t one = family[rng.below(family.size())];
    family.push_back(one ^ (1 + rng.below(255)) << 8 * rng.below(8));
    return family.back();
  };
  std::uint64_t next = first / 2;
  while (keys.size() < program.keys) {
    if (shape == 4 && keys.size() % cluster == 0) next = relative();
    keys.insert(shape == 0 || shape == 4 ? next++ : shape == 3 ? relative() : rng());
  }
  keys_.assign(keys.begin(), keys.end());
}

int Universe<IntegerKeys>::number_of(std::uint64_t key, std::size_t guess) const {
  return place_of(keys_, key, guess);
}

std::string Universe<IntegerKeys>::show(std::uint16_t number) const {
  return std::to_string(keys_[number]);
}

namespace {

/// Keys that have something in common.
class ByteFamily {
 public:
  explicit ByteFamily(Rng& rng) : rng_(rng) {
    for (std::uint64_t length = rng.below(40); length > 0; --length) stem_ += letter();
    members_.push_back(stem_);
  }
  /// A member, cut anywhere and continued, so that prefixes of any length are shared and fork at
  /// few bytes. Sometimes with a long tail, which the next ones share.
  [[nodiscard]] const std::string& relative() {
    std::string key = members_[rng_.below(members_.size())];
    key.resize(rng_.below(key.size() + 1));
    key += letter();
    const std::uint64_t tail = rng_.below(4) == 0 ? rng_.below(24) : 0;
    key.append(tail, letter());
    members_.push_back(std::move(key));
    return members_.back();
  }
  /// The next of the siblings that share a stem and differ in one byte: many of them fill a node.
  [[nodiscard]] std::string sibling() {
    if (++next_ % 256 == 0) move_away();  // all bytes are used
    std::string key = stem_ + static_cast<char>(next_);
    if (rng_.below(4) == 0) key += letter();
    return key;
  }
  /// The next siblings have another stem.
  void move_away() { stem_ = relative(); }

 private:
  [[nodiscard]] char letter() {
    static constexpr char letters[] = {'\0', 'a', 'b', 'z', '\xff'};
    return letters[rng_.below(std::size(letters))];
  }

  Rng& rng_;
  std::uint64_t next_ = rng_.below(255);
  std::string stem_;
  std::vector<std::string> members_;
};

}  // namespace

Universe<ByteKeys>::Universe(const Program& program) {
  Rng rng(program.universe, 3);
  std::set<std::string> keys;
  const unsigned shape = program.keys <= 4 ? 0 : static_cast<unsigned>(program.universe % 5);
  if (program.keys > 4) keys = {"", std::string(1, '\0'), "common-prefix", "common-prefix-longer"};
  ByteFamily family(rng);
  while (keys.size() < program.keys) {
    std::string key;
    if (shape == 1 || shape == 4) {
      key = family.relative();
    } else if (shape == 2 || shape == 3) {
      if (shape == 3 && keys.size() % cluster == 0) family.move_away();
      key = family.sibling();
    } else {
      if (rng.below(2) == 0) key = "common-prefix-";
      for (std::uint64_t length = 1 + rng.below(20); length > 0; --length)
        key += static_cast<char>(rng.below(256));
    }
    keys.insert(std::move(key));
  }
  keys_.assign(keys.begin(), keys.end());
}

int Universe<ByteKeys>::number_of(std::string_view key, std::size_t guess) const {
  return place_of(keys_, key, guess);
}

std::string text_of(std::uint64_t stamp) {
  std::string value = std::to_string(stamp) + ':';
  Rng rng(stamp, 4);
  for (std::uint64_t length = rng.below(90); length > 0; --length)
    value += static_cast<char>('a' + rng.below(26));
  return value;
}

std::uint64_t stamp_in(std::string_view value) {
  std::uint64_t stamp = 0;
  for (const char c : value) {
    if (c == ':') break;
    if (c < '0' || c > '9') return bad_stamp;
    stamp = stamp * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return text_of(stamp) == value ? stamp : bad_stamp;
}

namespace {
constexpr std::uint64_t empty_stamp = 3;  // of the one payload without a byte
}  // namespace

std::string payload_of(std::uint64_t stamp, std::size_t most_bytes) {
  constexpr std::uint64_t seldom = 8;
  if (stamp == empty_stamp) return {};
  std::string payload = std::to_string(stamp) + ':';
  Rng rng(stamp, 4);
  const std::uint64_t drawn = rng.below(seldom);
  std::uint64_t length = rng.below(drawn == 0 ? 300 : drawn < seldom / 2 ? 100 : 30);
  for (; length > 0 && payload.size() < most_bytes; --length)
    payload += static_cast<char>('a' + rng.below(26));
  return payload;
}

std::uint64_t stamp_in_payload(std::string_view payload, std::size_t most_bytes) {
  if (payload.empty()) return empty_stamp;
  std::uint64_t stamp = 0;
  for (const char c : payload) {
    if (c == ':') break;
    if (c < '0' || c > '9') return bad_stamp;
    stamp = stamp * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return payload_of(stamp, most_bytes) == payload ? stamp : bad_stamp;
}

std::string Universe<ByteKeys>::show(std::uint16_t number) const {
  return show_bytes(keys_[number]);
}

std::string show_bytes(std::string_view bytes) {
  std::string text = "\"";
  for (const char c : bytes)
    if (c >= ' ' && c <= '~' && c != '"' && c != '\\') {
      text += c;
    } else {
      static constexpr const char* hex = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(c);
      text += std::string("\\x") + hex[byte >> 4] + hex[byte & 15];
    }
  return text + "\"";
}

}  // namespace perdure::crash
