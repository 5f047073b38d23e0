// Power cuts made by hand: the pool as it was before an operation, with a chosen part of the words
// that the operation stored, must recover to the state before or after, whichever the commit word
// says.
//
// The parts are chosen more freely than hardware does (any subset of the stores that no fence
// separates, not only prefixes of lines), so a store that takes effect without its commit word
// shows.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/assert.h"
#include "core/rng.h"
#include "index/common/test_store.h"

namespace perdure::index_test {

inline constexpr std::uint64_t pool_header_bytes = 4096;

/// A stored word: pool offset and what it became.
struct Word {
  std::uint64_t offset;
  std::uint64_t value;
};
using Words = std::vector<Word>;

/// Cuts after an operation: takes the pool's content before it, and what words it has changed.
template <class Keys>
class PowerCuts {
 public:
  explicit PowerCuts(Store<Keys>& store) : store_(store), before_(content()) {}

  [[nodiscard]] Words changed() const {
    const std::vector<std::uint64_t> after = content();
    Words words;
    for (std::size_t i = pool_header_bytes / 8; i < after.size(); ++i)
      if (after[i] != before_[i]) words.push_back({8 * i, after[i]});
    return words;
  }

  /// The cut: recovers from the content before, with `words` on top.
  [[nodiscard]] Result<void> cut(std::span<const Word> words) {
    std::vector<std::uint64_t> media = before_;
    for (const Word& word : words) media[word.offset / 8] = word.value;
    const std::size_t parts = store_.pool().parts();
    const std::size_t part_bytes = store_.pool().part(0).size();
    return store_.crash([&](const std::string&) {
      for (unsigned n = 0; n < parts; ++n) {
        std::fstream file(store_.path(n), std::ios::in | std::ios::out | std::ios::binary);
        file.write(reinterpret_cast<const char*>(media.data()) + n * part_bytes,
                   static_cast<std::streamsize>(part_bytes));
      }
    });
  }

 private:
  [[nodiscard]] std::vector<std::uint64_t> content() const {
    // Parts of a power of two follow each other without a gap.
    PERDURE_ASSERT(store_.pool().extent_bytes() == store_.pool().bytes());
    std::vector<std::uint64_t> words(store_.pool().bytes() / 8);
    std::memcpy(words.data(), store_.pool().base(), 8 * words.size());
    return words;
  }

  Store<Keys>& store_;
  std::vector<std::uint64_t> before_;
};

/// Takes the words out of `words` that `which` accepts.
inline Words extract(Words& words, const std::function<bool(std::uint64_t)>& which) {
  Words taken;
  for (const Word& word : words)
    if (which(word.offset)) taken.push_back(word);
  std::erase_if(words, [&](const Word& word) { return which(word.offset); });
  return taken;
}
inline Words extract(Words& words, std::uint64_t offset) {
  return extract(words, [=](std::uint64_t at) { return at == offset; });
}
inline Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Cuts after `base` and a part of `loose`: nothing, each word alone, all but one, all, random
/// parts. Whatever the part, the content is `model`; and the index goes on working.
template <class Keys>
void expect_after_cuts(Store<Keys>& store, PowerCuts<Keys>& cuts, const Words& base,
                       const Words& loose, const Model<Keys>& model) {
  Rng rng(loose.size());
  std::vector<std::vector<bool>> parts;
  const std::size_t singles = std::min<std::size_t>(loose.size(), 24);
  for (std::size_t i = 0; i < singles; ++i) {
    const std::size_t chosen = singles == loose.size() ? i : rng.below(loose.size());
    for (const bool inverse : {false, true}) {
      std::vector<bool> part(loose.size(), inverse);
      part[chosen] = !inverse;
      parts.push_back(part);
    }
  }
  for (unsigned i = 0; i < 16; ++i) {
    std::vector<bool> part(loose.size());
    for (std::size_t k = 0; k < part.size(); ++k) part[k] = i == 0 || (i > 1 && rng.below(2) == 0);
    parts.push_back(part);
  }
  for (const std::vector<bool>& part : parts) {
    Words words = base;
    for (std::size_t i = 0; i < part.size(); ++i)
      if (part[i]) words.push_back(loose[i]);
    ASSERT_TRUE(succeeds(cuts.cut(words)));
    ASSERT_NO_FATAL_FAILURE(expect_equal(store.index(), model));
  }
  // Only the last of them goes on: every other starts from the content before.
  Model<Keys> grown = model;
  for (unsigned i = 0; i < 40; ++i) {
    if constexpr (Keys::kind == KeyKind::integer)
      grown[mix64(i)] = i;
    else if constexpr (Keys::kind == KeyKind::slots)
      grown[mix64(i)] = "value";
    else
      grown["new" + std::to_string(i)] = "value";
  }
  for (const auto& [key, value] : grown) ASSERT_EQ(store.index().upsert(key, value), Outcome::ok);
  expect_equal(store.index(), grown);
}

/// A bulk load of `keys`, each with itself as the value, becomes visible by the word at `link`.
template <class Keys, class Key>
void expect_bulk_load_is_one_word(Store<Keys>& store, const std::vector<Key>& keys,
                                  std::uint64_t link) {
  Model<Keys> model;
  std::vector<typename Keys::Record> records;
  for (const Key& key : keys) {
    records.push_back({key, key});
    model.emplace(key, key);
  }
  PowerCuts<Keys> cuts(store);
  ASSERT_TRUE(succeeds(store.index().bulk_load(records)));
  Words loose = cuts.changed();
  const Words commit = extract(loose, link);
  ASSERT_EQ(commit.size(), 1U);
  ASSERT_NO_FATAL_FAILURE(expect_after_cuts<Keys>(store, cuts, {}, loose, {}));
  expect_after_cuts<Keys>(store, cuts, loose + commit, {}, model);
}

/// Each damage alone makes recovery refuse the pool, or, where the index serves before its recovery
/// has ended, the index once it has; without any it finds `model`.
template <class Keys>
void expect_corrupt(Store<Keys>& store, PowerCuts<Keys>& cuts, const Words& damages,
                    const Model<Keys>& model) {
  for (const Word& damage : damages) {
    Result<void> result = cuts.cut({&damage, 1});
    if (result.ok() && store.pool().is_recovering()) result = store.index().check_invariants();
    ASSERT_FALSE(result.ok()) << damage.offset << " := " << damage.value;
    EXPECT_EQ(result.error().code, ErrorCode::corrupt);
  }
  ASSERT_TRUE(succeeds(cuts.cut({})));
  expect_equal(store.index(), model);
}

}  // namespace perdure::index_test
