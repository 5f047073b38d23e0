// Exploration of one crash point by choices at first reads: a line's content is chosen when
// recovery first reads a byte of it that is not the same in all, depth-first over these choices.
#include <algorithm>

#include "core/assert.h"
#include "crash/explorer.h"

namespace perdure::crash {

class Explorer::Lazily {
 public:
  Lazily(Explorer& explorer, const OpenLines& open)
      : explorer_(explorer), open_(open), depth_(open.size()) {}

  [[nodiscard]] Found run(bool& finished) {
    // Finding a known state costs a fraction of a recovery.
    constexpr std::uint64_t known_a_recovery = 8;
    constexpr std::uint64_t lazy_a_deep_one = 4;
    const std::uint64_t most = explorer_.bounds_.lazy;
    std::uint64_t recoveries = 0;
    for (std::uint64_t all = 0; recoveries < most && all < known_a_recovery * most; ++all) {
      if (explorer_.is_late()) break;
      ++explorer_.coverage_.states;
      Found found;
      if (explorer_.may_be_known() && is_known()) {
        ++explorer_.coverage_.alike;
      } else {
        ++recoveries;
        found = recover();
      }
      Choices chosen(open_.size(), 0);
      for (const Branch& branch : path_) chosen[branch.place] = branch.choice;
      if (found) {
        explorer_.describe(*found, open_, chosen);
        return found;
      }
      // Fewer than elsewhere, because each is made twice.
      const std::uint64_t content = explorer_.content_digest(open_, chosen);
      if (explorer_.is_deep(content) && mix64(content) % lazy_a_deep_one == 0)
        if (Found deep = explorer_.state(open_, chosen)) return deep;
      while (!path_.empty() && !next_choice(path_.back())) path_.pop_back();
      if (path_.empty()) {
        finished = true;
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

 private:
  struct Branch {
    std::size_t place;  ///< of the line, among the open ones
    std::uint32_t choice;
    Bytes read;                                            ///< with this choice, in all runs
    std::vector<std::pair<std::uint32_t, Bytes>> tried{};  ///< choices before it
  };

  void begin_again() {
    met_ = 0;
    std::ranges::fill(depth_, 0);
  }

  /// False: each choice left equals, in the bytes that were read, one that was tried.
  [[nodiscard]] bool next_choice(Branch& branch) {
    const std::span<const Choice> choices = open_[branch.place].choices;
    branch.tried.emplace_back(branch.choice, branch.read);
    branch.read = 0;
    while (++branch.choice < choices.size()) {
      const LineContent& content = choices[branch.choice].content;
      if (std::ranges::none_of(branch.tried, [&](const auto& tried) {
            return (differing(choices[tried.first].content, content) & tried.second) == 0;
          }))
        return true;
      ++explorer_.coverage_.states;
      ++explorer_.coverage_.alike;
    }
    return false;
  }

  /// The line's place among the open ones, and which bytes of it are open.
  [[nodiscard]] std::pair<std::size_t, Bytes> open_bytes_of(LineNumber line) const {
    const auto at = std::ranges::lower_bound(open_, line, {}, &OpenLine::line);
    const bool is_open = at != open_.end() && at->line == line;
    return {static_cast<std::size_t>(at - open_.begin()), is_open ? at->bytes : Bytes{0}};
  }
  /// These open bytes are read: their line's choice is taken, if it was not. True if so.
  bool choose(std::size_t at, Bytes bytes) {
    const bool first = depth_[at] == 0;
    if (first) {
      if (met_ == path_.size()) path_.push_back({at, 0, 0});
      PERDURE_ASSERT(path_[met_].place == at);
      depth_[at] = ++met_;
    }
    path_[depth_[at] - 1].read |= bytes;
    return first;
  }
  [[nodiscard]] const LineContent& chosen_content(std::size_t at) const {
    return open_[at].choices[path_[depth_[at] - 1].choice].content;
  }

  /// Makes the choices that a recovery would meet. False, with nothing changed, if they do not lead
  /// to a known state.
  [[nodiscard]] bool is_known() {
    begin_again();
    read_before_.clear();
    for (const Branch& branch : path_) read_before_.push_back(branch.read);
    const auto* const outcome = explorer_.known_.find_by([&](std::uint32_t word, Bytes bytes) {
      const auto line = static_cast<LineNumber>(word / words_a_line);
      const std::uint32_t place = word % words_a_line;
      const auto [at, open_bytes] = open_bytes_of(line);
      const Bytes undecided = bytes << place * word_bytes & open_bytes;
      if (undecided == 0) return explorer_.image_.read(line)[place];
      choose(at, undecided);
      return chosen_content(at)[place];
    });
    if (outcome != nullptr && explorer_.is_allowed(*outcome)) return true;
    path_.erase(path_.begin() + static_cast<std::ptrdiff_t>(read_before_.size()), path_.end());
    for (std::size_t i = 0; i < path_.size(); ++i) path_[i].read = read_before_[i];
    return false;
  }

  [[nodiscard]] Found recover() {
    begin_again();
    explorer_.known_.follow(explorer_.watch_, [&](LineNumber line, Bytes bytes) {
      const auto [at, open_bytes] = open_bytes_of(line);
      if ((bytes & open_bytes) == 0 || !choose(at, bytes & open_bytes)) return;
      const LineContent& decided = chosen_content(at);
      // Bytes that recovery has stored to keep that.
      const Bytes undecided = open_bytes & ~explorer_.watch_.overwritten(line);
      LineContent content = explorer_.image_.read(line);
      for (unsigned i = 0; i < content.size(); ++i) {
        const std::uint64_t bits = bits_of(bytes_of_word(undecided, i));
        content[i] = (content[i] & ~bits) | (decided[i] & bits);
      }
      explorer_.image_.write(line, content);
    });
    Found found = explorer_.judge(false);
    explorer_.known_.unfollow(explorer_.watch_);
    if (!found && explorer_.may_be_known()) explorer_.known_.learn(explorer_.outcome());
    return found;
  }

  Explorer& explorer_;
  const OpenLines& open_;
  std::vector<Branch> path_;
  std::vector<Bytes> read_before_;  ///< of the branches, while a state is looked for
  std::vector<std::size_t> depth_;  ///< 1 + the line's place in the path
  std::size_t met_ = 0;
};

Explorer::Found Explorer::lazily(const OpenLines& open, bool& finished) {
  return Lazily(*this, open).run(finished);
}

}  // namespace perdure::crash
