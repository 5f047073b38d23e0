// Entries: what a document has in the index besides its key, as its owner's rule says.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace perdure::engine {

class DocumentStore;

struct EntryText {
  std::string text;
  bool unique = false;  ///< no other document may have an equal one
  friend bool operator==(const EntryText&, const EntryText&) = default;
  friend auto operator<=>(const EntryText&, const EntryText&) = default;
};

/// Entries of one document; reuse one, so that nothing is allocated once it has grown.
class Entries {
 public:
  void clear() noexcept { count_ = 0; }
  /// The next entry, to be filled; the string is empty.
  [[nodiscard]] std::string& add(bool unique = false) {
    if (count_ == entry_.size()) entry_.emplace_back();
    entry_[count_].text.clear();
    entry_[count_].unique = unique;
    return entry_[count_++].text;
  }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] std::span<const EntryText> all() const noexcept {
    return std::span(entry_).first(count_);
  }
  /// Before `without`: sorts, and leaves each but once.
  void sort() {
    const auto end = entry_.begin() + static_cast<std::ptrdiff_t>(count_);
    std::sort(entry_.begin(), end);
    count_ = static_cast<std::size_t>(std::unique(entry_.begin(), end) - entry_.begin());
  }
  /// Those that `other` has not; both are sorted.
  [[nodiscard]] std::vector<const EntryText*> without(const Entries& other) const {
    std::vector<const EntryText*> rest;
    for (const EntryText& entry : all())
      if (!std::ranges::binary_search(other.all(), entry)) rest.push_back(&entry);
    return rest;
  }

 private:
  std::vector<EntryText> entry_;
  std::size_t count_ = 0;
};

/// Which entries a document has in the index, besides its key. Called by any thread, also under the
/// lock of a key; a rule may look up other documents, but not write.
class EntryRule {
 public:
  EntryRule() = default;
  virtual ~EntryRule() = default;
  EntryRule(const EntryRule&) = delete;
  EntryRule& operator=(const EntryRule&) = delete;
  /// Called once, before the rule is asked for anything.
  virtual void attach(DocumentStore& /*store*/) {}
  /// False: documents under this key never have entries, so an old one need not be read.
  [[nodiscard]] virtual bool has_entries(std::string_view /*key*/) const { return true; }
  /// Appends to `out`, which is cleared. No entry longer than max_key_bytes - 8, none twice.
  virtual void entries(std::string_view key, std::string_view document, Entries& out) const = 0;
};

}  // namespace perdure::engine
