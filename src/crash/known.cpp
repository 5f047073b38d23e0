#include "crash/known.h"

#include <algorithm>

#include "core/assert.h"

namespace perdure::crash {

void Known::vary(Varying& bytes, const Event& event) {
  if (!is_store(event)) return;
  bytes[static_cast<LineNumber>(event.at / line_bytes)] |=
      bytes_at(event.at % line_bytes, event.size);
}

void Known::begin(const Varying& varying) {
  varying_.clear();
  for (const auto& [line, bytes] : varying) varying_.push_back({line, bytes});
  nodes_.assign(1, {});
  outcomes_.clear();
}

std::uint64_t Known::value_of(std::uint32_t word) const noexcept {
  std::uint64_t value = 0;
  std::memcpy(&value, image_.base() + std::size_t{word} * word_bytes, word_bytes);
  return value;
}

const Known::Outcome* Known::find() const {
  return find_by([this](std::uint32_t word, Bytes) { return value_of(word); });
}

void Known::follow(Watch& watch, Meet meet) {
  path_.clear();
  watch.ask_for(varying_, [this, meet = std::move(meet)](LineNumber line, Bytes bytes) {
    if (meet) meet(line, bytes);
    for (std::uint32_t i = 0; i < words_a_line; ++i) {
      const Bytes of_word = bytes_of_word(bytes, i);
      if (of_word == 0) continue;
      const std::uint32_t word = line * words_a_line + i;
      path_.push_back(
          {word, static_cast<std::uint8_t>(of_word), value_of(word) & bits_of(of_word)});
    }
  });
}

void Known::unfollow(Watch& watch) { watch.ask_no_more(); }

void Known::learn(Outcome outcome) {
  std::uint32_t at = 0;
  for (const Read& read : path_) {
    Node& node = nodes_[at];
    // After the same reads the same word is read next; the tree depends on that.
    const bool is_new = node.branches.empty();
    const bool is_sound =
        !node.outcome && (is_new || (node.word == read.word && node.bytes == read.bytes));
    PERDURE_ASSERT(is_sound);
    if (!is_sound) return;
    node.word = read.word;
    node.bytes = read.bytes;
    const auto branch = std::ranges::find(node.branches, read.value, &Branch::value);
    if (branch != node.branches.end()) {
      at = branch->node;
      continue;
    }
    at = static_cast<std::uint32_t>(nodes_.size());
    node.branches.push_back({read.value, at});
    nodes_.emplace_back();
  }
  Node& end = nodes_[at];
  PERDURE_ASSERT(end.branches.empty());
  if (!end.outcome) {
    end.outcome = static_cast<std::uint32_t>(outcomes_.size());
    outcomes_.emplace_back();
  }
  outcomes_[*end.outcome] = std::move(outcome);
}

}  // namespace perdure::crash
