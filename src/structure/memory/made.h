// Made: the blocks that a change has made and nothing leads to yet. Few, as a rule, and then
// nothing is allocated for them.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace perdure::structure {

template <class Block>
class Made {
 public:
  void add(const Block& block) {
    if (count_ < few_.size())
      few_[count_] = block;
    else
      add_to_many(block);
    ++count_;
  }
  void clear() noexcept {
    count_ = 0;
    if (many_) many_->clear();
  }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] std::span<Block> blocks() noexcept {
    return {count_ <= few_.size() ? few_.data() : many_->data(), count_};
  }

 private:
  [[gnu::noinline]] void add_to_many(const Block& block) {
    if (!many_) many_ = std::make_unique<std::vector<Block>>();
    if (count_ == few_.size()) many_->assign(few_.begin(), few_.end());
    many_->push_back(block);
  }

  std::array<Block, 4> few_;
  std::size_t count_ = 0;
  std::unique_ptr<std::vector<Block>> many_;  ///< all of them, if they are more
};

}  // namespace perdure::structure
