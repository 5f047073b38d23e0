// A map that keeps its records on a stack. The crash explorer runs maps, and a stack is none; this
// map lets it explore pushes and pops in both persistent modes.
//
//   step  | key 8 | value 8 | kind 8 |      a value of the stack
//
// J1  a key holds what its uppermost step says.
// J2  a change pushes one step; a key whose only step is the uppermost one is removed by a pop.
// J3  a bulk load lies between a step that begins it and one that ends it: recovery pops what has
//     no end.
#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "index/registry.h"
#include "pm/shared_lock.h"
#include "structure/stack/stack.h"

namespace perdure::testing {
namespace {

using structure::Stack;
using structure::StackPlace;

struct Step {
  enum Kind : std::uint64_t { present, absent, load_begins, load_ends };
  std::uint64_t key;
  std::uint64_t value;
  std::uint64_t kind;
  friend bool operator==(const Step&, const Step&) = default;

  [[nodiscard]] std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(this), sizeof *this};
  }
  [[nodiscard]] static Step of(std::string_view text) noexcept {
    Step step{};
    std::memcpy(&step, text.data(), std::min(sizeof step, text.size()));
    return step;
  }
};

class StackMap final : public IntegerIndex {
 public:
  explicit StackMap(std::unique_ptr<Stack> stack) : stack_(std::move(stack)) {}

  Outcome insert(std::uint64_t key, std::uint64_t value) override {
    const pm::SharedLock::WriteGuard guard(lock_);
    if (records_.contains(key)) return Outcome::exists;
    return push({key, value, Step::present});
  }
  Outcome upsert(std::uint64_t key, std::uint64_t value) override {
    const pm::SharedLock::WriteGuard guard(lock_);
    return push({key, value, Step::present});
  }
  Outcome update(std::uint64_t key, std::uint64_t value) override {
    const pm::SharedLock::WriteGuard guard(lock_);
    if (!records_.contains(key)) return Outcome::not_found;
    return push({key, value, Step::present});
  }
  Outcome remove(std::uint64_t key) override {
    const pm::SharedLock::WriteGuard guard(lock_);
    if (!records_.contains(key)) return Outcome::not_found;
    const auto steps = std::ranges::count(steps_, key, &Step::key);
    return steps == 1 && steps_.back().key == key ? pop() : push({key, 0, Step::absent});  // J2
  }
  Outcome lookup(std::uint64_t key, std::uint64_t& value) override {
    const pm::SharedLock::ReadGuard guard(lock_);
    const auto found = records_.find(key);
    if (found == records_.end()) return Outcome::not_found;
    value = found->second;
    return Outcome::ok;
  }
  std::size_t scan(std::uint64_t from, std::size_t count, IntegerScan& out) override {
    const pm::SharedLock::ReadGuard guard(lock_);
    for (auto at = records_.lower_bound(from); at != records_.end() && out.size() < count; ++at)
      out.append(at->first, at->second);
    return out.size();
  }
  Result<void> bulk_load(std::span<const IntegerRecord> records) override {
    const pm::SharedLock::WriteGuard guard(lock_);
    bool whole = push({0, 0, Step::load_begins}) == Outcome::ok;
    for (const auto& [key, value] : records)
      whole = whole && push({key, value, Step::present}) == Outcome::ok;
    whole = whole && push({0, 0, Step::load_ends}) == Outcome::ok;
    if (whole) return {};
    return Error{ErrorCode::out_of_space, "no room for the bulk load", "", "make the pool larger"};
  }
  [[nodiscard]] std::uint64_t size() const override { return records_.size(); }
  [[nodiscard]] Result<void> check_invariants() const override {
    if (auto sound = stack_->check_invariants(); !sound) return sound;
    if (read(*stack_) == steps_) return {};
    return Error{ErrorCode::corrupt, "J1: the stack holds other steps than it was given", "", ""};
  }
  [[nodiscard]] std::uint64_t dram_bytes() const override { return 0; }

  /// What is on the stack after a crash.
  void recover() {
    steps_ = read(*stack_);
    const auto unfinished = [&] {  // J3
      return std::ranges::count(steps_, Step::load_begins, &Step::kind) >
             std::ranges::count(steps_, Step::load_ends, &Step::kind);
    };
    while (unfinished()) pop();
    for (const Step& step : steps_) apply(step);
  }

 private:
  [[nodiscard]] static std::vector<Step> read(Stack& stack) {
    SlotScan found;
    stack.list(found);
    std::vector<Step> steps;
    for (std::size_t i = found.size(); i-- > 0;) steps.push_back(Step::of(found[i].value));
    return steps;
  }
  void apply(const Step& step) {
    if (step.kind == Step::present) records_[step.key] = step.value;
    if (step.kind == Step::absent) records_.erase(step.key);
  }
  Outcome push(const Step& step) {
    const Outcome outcome = stack_->push(step.text());
    if (outcome != Outcome::ok) return outcome;
    steps_.push_back(step);
    apply(step);
    return Outcome::ok;
  }
  Outcome pop() {
    std::string text;
    const Outcome outcome = stack_->pop(text);
    if (outcome != Outcome::ok) return outcome;
    records_.erase(Step::of(text).key);
    steps_.pop_back();
    return Outcome::ok;
  }

  std::unique_ptr<Stack> stack_;
  mutable pm::SharedLock lock_;
  std::vector<Step> steps_;  ///< as on the stack
  std::map<std::uint64_t, std::uint64_t> records_;
};

constexpr char persist[] = "pmem-persist";
constexpr char trans[] = "pmem-trans";

template <const char* mode>
[[nodiscard]] StackPlace stack_place(const IndexPlace& place) {
  return {.pool = place.pool, .root_name = place.root_name, .mode = mode};
}
template <const char* mode>
[[nodiscard]] Result<std::unique_ptr<IntegerIndex>> create(const IndexPlace& place) {
  auto stack = create_stack(stack_place<mode>(place));
  if (!stack) return stack.error();
  return std::unique_ptr<IntegerIndex>(std::make_unique<StackMap>(std::move(stack).value()));
}
template <const char* mode>
[[nodiscard]] Result<std::unique_ptr<IntegerIndex>> recover(const IndexPlace& place) {
  auto stack = recover_stack(stack_place<mode>(place));
  if (!stack) return stack.error();
  auto map = std::make_unique<StackMap>(std::move(stack).value());
  map->recover();
  return std::unique_ptr<IntegerIndex>(std::move(map));
}

template <const char* mode>
[[nodiscard]] IndexInfo info(const char* name) {
  return {.name = name,
          .title = "Map on a stack",
          .options = {},
          .create_integer = create<mode>,
          .recover_integer = recover<mode>,
          .heaps = {HeapKind::pmdk}};
}
PERDURE_REGISTER_INDEX(stack_map_persist, info<persist>("stack_map_persist"));
PERDURE_REGISTER_INDEX(stack_map_trans, info<trans>("stack_map_trans"));

}  // namespace
}  // namespace perdure::testing
