#include "workload/stream.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/assert.h"

namespace perdure::workload {
namespace {

// The seed's uses are kept apart by these words, so that no permutation shares keys with another.
constexpr std::uint64_t rank_purpose = 0x52414e4b;
constexpr std::uint64_t removal_purpose = 0x52454d4f5645;
constexpr std::uint64_t load_purpose = 0x4c4f4144;

constexpr bool writes_value(Operation operation) noexcept {
  return operation == Operation::insert || operation == Operation::upsert ||
         operation == Operation::update;
}

/// How many of the positions 0 .. count-1 are `thread` modulo `threads`.
constexpr std::uint64_t part_of(std::uint64_t count, unsigned thread, unsigned threads) noexcept {
  return count / threads + (count % threads > thread ? 1 : 0);
}

}  // namespace

template <class Step>
TextBlock<Step>::TextBlock(const Workload& workload, std::size_t steps, std::size_t arena_bytes)
    : steps_(std::max<std::size_t>(steps, 1)),
      step_bytes_(KeySpace(workload).longest() + workload.value_bytes),
      arena_bytes_(std::max(arena_bytes, step_bytes_)),
      arena_(new char[arena_bytes_]) {}

template <class Step>
void TextBlock<Step>::set_key(BytesStep& step, const KeySpace& keys, std::uint64_t id) noexcept {
  char* const start = arena_.get() + used_;
  if (const auto line = keys.view(id)) {
    step.key = *line;
  } else {
    step.key = {start, keys.write(id, start)};
    used_ += step.key.size();
  }
}

template <class Step>
void TextBlock<Step>::set_key(SlotStep& step, const KeySpace& keys, std::uint64_t id) noexcept {
  step.key = keys.word(id);
}

template <class Step>
void TextBlock<Step>::append(const KeySpace& keys, const ValueCodec& values, Operation operation,
                             std::uint64_t id, std::uint64_t value_word,
                             std::uint32_t scan_count) noexcept {
  Step& step = steps_[size_++];
  step.operation = operation;
  step.scan_count = scan_count;
  step.value = {};
  set_key(step, keys, id);
  if (writes_value(operation)) {
    char* const value = arena_.get() + used_;
    values.write(value_word, value);
    step.value = {value, values.bytes()};
    used_ += values.bytes();
  }
}

template class TextBlock<BytesStep>;
template class TextBlock<SlotStep>;

OperationStream::OperationStream(const Workload& workload, Place place)
    : workload_(workload),
      place_(place),
      keys_(workload),
      values_(workload),
      endless_deck_(repeating_deck(workload.dealt_mix(), workload.batch)) {
  PERDURE_ASSERT(place.threads > 0 && place.thread < place.threads);
  const Distribution& distribution = workload.distribution;
  const bool by_rank = distribution.kind == Distribution::Kind::zipfian ||
                       distribution.kind == Distribution::Kind::self_similar;
  if (by_rank && distribution.scattered)
    ranks_ = Permutation(workload.records, mix64(workload.seed) ^ rank_purpose);
  if (distribution.kind != Distribution::Kind::sequential)
    removals_ = Permutation(workload.records, mix64(workload.seed) ^ removal_purpose);
  if (place_.first_fresh_id == 0) place_.first_fresh_id = workload.records;
  PERDURE_ASSERT(place_.first_fresh_id >= workload.records);
  const std::uint64_t fresh =
      keys_.ids() > place_.first_fresh_id ? keys_.ids() - place_.first_fresh_id : 0;
  fresh_limit_ = part_of(fresh, place.thread, place.threads);
  restart();
}

void OperationStream::restart() noexcept {
  state_ = State{};
  state_.sampler = RankSampler(workload_.distribution);
  begin(0, workload_.operations);
}

void OperationStream::begin(unsigned repetition, std::uint64_t operations) noexcept {
  // mix64(0) is 0: repetition 0 draws from (seed, thread) itself.
  state_.rng = Rng(workload_.seed ^ mix64(repetition), place_.thread);
  state_.walked = 0;
  state_.run_left = 0;
  endless_ = operations == 0;
  state_.deck = Deck(endless_ ? endless_deck_
                              : thread_part(apportion(workload_.dealt_mix(), operations),
                                            place_.thread, place_.threads));
  block_start_ = state_;
}

std::uint64_t OperationStream::remaining() const noexcept {
  return endless_ ? ~std::uint64_t{0} : state_.deck.left();
}

bool OperationStream::ended() noexcept {
  if (state_.deck.left() != 0) return false;
  if (endless_) state_.deck = Deck(endless_deck_);
  return !endless_;
}

std::uint64_t OperationStream::own_id(std::uint64_t k) const noexcept {
  return place_.first_fresh_id + k * place_.threads + place_.thread;
}

std::uint64_t OperationStream::present_id() noexcept {
  const std::uint64_t records = workload_.records;
  const std::uint64_t population = records + state_.inserted;
  if (population == 0) return absent_id();  // nothing is there yet: the operation fails, rightly
  switch (workload_.distribution.kind) {
    case Distribution::Kind::latest: {
      const std::uint64_t age = state_.sampler(state_.rng, population);
      return age < state_.inserted ? own_id(state_.inserted - 1 - age) : population - 1 - age;
    }
    case Distribution::Kind::sequential: {
      if (records == 0) return own_id(state_.walked++ % state_.inserted);
      const std::uint64_t length = part_of(records, place_.thread, place_.threads);
      const std::uint64_t longer = std::min<std::uint64_t>(records % place_.threads, place_.thread);
      const std::uint64_t first = records / place_.threads * place_.thread + longer;
      // More threads than records: a thread without a part of its own walks them all.
      return length == 0 ? state_.walked++ % records : first + state_.walked++ % length;
    }
    default: {
      const std::uint64_t rank = state_.sampler(state_.rng, population);
      if (rank >= records) return own_id(rank - records);
      return ranks_.size() == 0 ? rank : ranks_(rank);
    }
  }
}

std::uint64_t OperationStream::fresh_id() noexcept {
  if (state_.inserted < fresh_limit_) return own_id(state_.inserted++);
  state_.fresh_exhausted = true;
  return state_.inserted != 0 ? own_id(state_.inserted - 1) : 0;
}

std::uint64_t OperationStream::removable_id() noexcept {
  const std::uint64_t loaded = part_of(workload_.records, place_.thread, place_.threads);
  if (state_.removed < loaded) {
    const std::uint64_t position = state_.removed++ * place_.threads + place_.thread;
    return removals_.size() == 0 ? position : removals_(position);
  }
  if (state_.removed - loaded < state_.inserted) return own_id(state_.removed++ - loaded);
  // All gone: the first of them again, which fails (S5).
  if (loaded != 0) return removals_.size() == 0 ? place_.thread : removals_(place_.thread);
  return state_.inserted != 0 ? own_id(0) : absent_id();
}

std::uint64_t OperationStream::absent_id() noexcept { return keys_.absent_id(state_.rng()); }

Operation OperationStream::next_kind() noexcept {
  if (state_.run_left != 0 && state_.deck.take(state_.run_kind)) {
    --state_.run_left;
  } else {
    state_.run_kind = state_.deck.deal(state_.rng);
    state_.run_left = workload_.batch - 1;
  }
  return state_.run_kind;
}

OperationStream::Draw OperationStream::next() noexcept {
  Draw draw{.operation = next_kind(), .id = 0, .value_word = 0, .scan_count = 0};
  const bool ranged = workload_.key_range != 0;
  switch (draw.operation) {
    case Operation::lookup_negative:
      draw.id = absent_id();
      break;
    case Operation::insert:
      draw.id = ranged ? ranged_id() : fresh_id();
      break;
    case Operation::upsert:
      // Into an empty index an upsert adds; an absent id must stay absent.
      draw.id = workload_.records + state_.inserted == 0 ? fresh_id() : present_id();
      break;
    case Operation::remove:
      draw.id = ranged ? ranged_id() : removable_id();
      break;
    case Operation::scan: {
      draw.id = ranged ? ranged_id() : present_id();
      const ScanCount& count = workload_.scan;
      draw.scan_count =
          count.min + static_cast<std::uint32_t>(state_.rng.below(count.max - count.min + 1ULL));
      break;
    }
    default:
      draw.id = ranged ? ranged_id() : present_id();
      break;
  }
  // Below 2^31, so that a verifier can go on counting versions from any of them.
  constexpr std::uint64_t version_mask = (1ULL << 31) - 1;
  if (writes_value(draw.operation))
    draw.value_word = values_.word(draw.id, ++state_.writes & version_mask);
  return draw;
}

std::size_t OperationStream::fill(std::span<IntegerStep> block) noexcept {
  PERDURE_ASSERT(!workload_.is_bytes());
  block_start_ = state_;
  std::size_t size = 0;
  for (; size < block.size() && !ended(); ++size) {
    const Draw draw = next();
    block[size] = {keys_.word(draw.id), draw.value_word, draw.scan_count, draw.operation};
  }
  return size;
}

template <class Step>
std::size_t OperationStream::fill(TextBlock<Step>& block) noexcept {
  PERDURE_ASSERT(workload_.is_bytes() == (std::is_same_v<Step, BytesStep>));
  block_start_ = state_;
  block.clear();
  while (block.has_room() && !ended()) {
    const Draw draw = next();
    block.append(keys_, values_, draw.operation, draw.id, draw.value_word, draw.scan_count);
  }
  return block.size_;
}

template std::size_t OperationStream::fill(BytesBlock&) noexcept;
template std::size_t OperationStream::fill(SlotBlock&) noexcept;

void OperationStream::settle(std::size_t executed) noexcept {
  state_ = block_start_;
  for (std::size_t i = 0; i < executed && !ended(); ++i) static_cast<void>(next());
  block_start_ = state_;
}

LoadStream::LoadStream(const Workload& workload, unsigned thread, unsigned threads)
    : workload_(workload),
      keys_(workload),
      values_(workload),
      position_(thread),
      threads_(threads) {
  PERDURE_ASSERT(threads > 0 && thread < threads);
  if (workload.resolved_load_order() == LoadOrder::random)
    order_ = Permutation(workload.records, mix64(workload.seed) ^ load_purpose);
}

std::uint64_t LoadStream::remaining() const noexcept {
  return position_ < workload_.records ? (workload_.records - position_ - 1) / threads_ + 1 : 0;
}

std::uint64_t LoadStream::next_id() noexcept {
  const std::uint64_t position = position_;
  position_ += threads_;
  return order_.size() == 0 ? position : order_(position);
}

std::size_t LoadStream::fill(std::span<IntegerStep> block) noexcept {
  PERDURE_ASSERT(!workload_.is_bytes());
  std::size_t size = 0;
  for (; size < block.size() && remaining() != 0; ++size) {
    const std::uint64_t id = next_id();
    block[size] = {keys_.word(id), values_.word(id, 0), 0, Operation::insert};
  }
  return size;
}

template <class Step>
std::size_t LoadStream::fill(TextBlock<Step>& block) noexcept {
  PERDURE_ASSERT(workload_.is_bytes() == (std::is_same_v<Step, BytesStep>));
  block.clear();
  while (block.has_room() && remaining() != 0) {
    const std::uint64_t id = next_id();
    block.append(keys_, values_, Operation::insert, id, values_.word(id, 0), 0);
  }
  return block.size_;
}

template std::size_t LoadStream::fill(BytesBlock&) noexcept;
template std::size_t LoadStream::fill(SlotBlock&) noexcept;

}  // namespace perdure::workload
