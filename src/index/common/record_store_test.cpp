#include "index/common/record_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "core/rng.h"
#include "index/common/index_root.h"
#include "index/common/test_dram_pool.h"

namespace perdure {
namespace {

using namespace std::string_literals;

TEST(KeyPrefix, SortsAsTheKeysDo) {
  const std::vector<std::string> keys{""s,
                                      "\0"s,
                                      "\0\0"s,
                                      "\0\1"s,
                                      "a"s,
                                      "a\0"s,
                                      "a\0\0"s,
                                      "abcdefg"s,
                                      "abcdefgh"s,
                                      "abcdefghi"s,
                                      "abcdefgi"s,
                                      "\x7f"s,
                                      "\x80"s,
                                      "\xff\xff"s,
                                      std::string(8, '\xff'),
                                      std::string(9, '\xff')};
  for (const std::string& a : keys)
    for (const std::string& b : keys)
      if (a < b) {
        EXPECT_LE(key_prefix(a), key_prefix(b)) << a << " " << b;
      }
  EXPECT_EQ(key_prefix("abcdefgh"), 0x6162636465666768ULL);
  EXPECT_LT(key_prefix("\x7f"), key_prefix("\x80"));
}

// Every value of the byte is as likely, whatever the keys have in common.
template <class Key>
void expect_even_fingerprints(const std::vector<Key>& keys) {
  std::array<unsigned, 256> seen{};
  for (const Key& key : keys) ++seen[fingerprint_of(key)];
  const double mean = static_cast<double>(keys.size()) / 256;
  for (const unsigned count : seen) {
    EXPECT_GT(count, mean * 0.7);
    EXPECT_LT(count, mean * 1.3);
  }
}

TEST(Fingerprint, SpreadsSequentialStridedAndHighBitKeysEvenly) {
  constexpr std::uint64_t count = 100'000;
  for (const unsigned shift : {0U, 8U, 20U, 40U, 47U}) {
    std::vector<std::uint64_t> keys;
    for (std::uint64_t i = 0; i < count; ++i) keys.push_back(i << shift);
    expect_even_fingerprints(keys);
  }
  std::vector<std::string> texts;
  for (std::uint64_t i = 0; i < count; ++i)
    texts.push_back("user/" + std::string(i % 3, '\0') + std::to_string(i));
  expect_even_fingerprints(std::vector<std::string_view>(texts.begin(), texts.end()));
}

TEST(Hash, TellsTextsApartThatDifferInPaddingOrOneBit) {
  EXPECT_NE(hash_of("a"s), hash_of("a\0"s));
  EXPECT_NE(hash_of(""s), hash_of("\0"s));
  for (unsigned length = 1; length < 40; ++length) {
    const std::string text(length, 'q');
    for (unsigned at = 0; at < length; ++at) {
      std::string other = text;
      other[at] = static_cast<char>(other[at] ^ 1);
      EXPECT_NE(hash_of(std::string_view(text)), hash_of(std::string_view(other)));
    }
  }
}

TEST(RecordStore, KeepsBytesOfAnyContentAndOrdersThemTruly) {
  const auto pool = dram_pool();
  Epochs epochs;
  const RecordStore<ByteKeys> store(*pool, epochs);
  const std::vector<std::string> keys{""s,           "\0"s,        "abcdefgh"s,
                                      "abcdefgh\0"s, "abcdefghz"s, std::string(2048, '\xff')};
  std::vector<RecordWords> words;
  for (const std::string& key : keys) {
    RecordStore<ByteKeys>::Draft draft;
    ASSERT_TRUE(store.draft(key, key + "\0value"s, draft));
    pm::fence();
    store.publish(draft);
    words.push_back(draft.words);
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(store.key_of(words[i]), keys[i]);
    EXPECT_EQ(store.value_of(words[i]), keys[i] + "\0value"s);
    EXPECT_TRUE(store.check(words[i]).ok());
    for (std::size_t k = 0; k < keys.size(); ++k) {
      EXPECT_EQ(store.less(words[i], words[k]), i < k);
      EXPECT_EQ(store.matches(words[i], keys[k]), i == k);
    }
  }
  // An offset that may be stale is not followed.
  EXPECT_FALSE(store.matches({key_prefix("x"), pool->bytes() * 2}, "x", [] { return false; }));
}

TEST(RecordStore, GivesCancelledAndRetiredBlobsBack) {
  const auto pool = dram_pool();
  const std::uint64_t before = pool->heap().usage().live_blocks;
  Epochs epochs;
  const RecordStore<ByteKeys> store(*pool, epochs);
  RecordStore<ByteKeys>::Draft draft;
  ASSERT_TRUE(store.draft("key", "value", draft));
  store.cancel(draft);
  EXPECT_EQ(pool->heap().usage().live_blocks, before);
  ASSERT_TRUE(store.draft("key", "value", draft));
  store.publish(draft);
  {
    const Epochs::Guard guard(epochs);
    store.retire(draft.words);
    EXPECT_EQ(pool->heap().usage().live_blocks, before + 1);
  }
  epochs.drain();
  EXPECT_EQ(pool->heap().usage().live_blocks, before);
}

// Fills the pool with blobs of one size class and blocks of others, the widest next to a page.
TEST(RecordStore, TakesAWiderBlockWhereNoOtherIsLeftAndOnlyIfItMay) {
  const auto pool = dram_pool();
  Heap& heap = pool->heap();
  Epochs epochs;
  const RecordStore<ByteKeys> store(*pool, epochs);
  const std::string value(40, 'v');
  const std::size_t needed = 8 + 3 + value.size();
  std::vector<Reservation> others;
  for (const std::size_t bytes : {200U, 4096U}) others.push_back(heap.reserve(bytes));
  for (const std::size_t bytes :
       {std::size_t{64} << 10, std::size_t{4096}, std::size_t{200}, needed})
    while (const Reservation block = heap.reserve(bytes)) others.push_back(block);

  RecordStore<ByteKeys>::Draft draft;
  EXPECT_FALSE(store.draft("key", value, draft, Block::any));
  for (unsigned i = 0; i < 2; ++i) {
    const std::size_t bytes = others[i].bytes;
    heap.cancel(others[i]);
    EXPECT_FALSE(store.draft("key", value, draft));
    ASSERT_TRUE(store.draft("key", value, draft, Block::any)) << bytes;
    RecordStore<ByteKeys>::Draft second;
    EXPECT_FALSE(store.draft("key", value, second, Block::any));
    store.publish(draft);
    EXPECT_EQ(store.key_of(draft.words), "key");
    EXPECT_EQ(store.value_of(draft.words), value);
    EXPECT_TRUE(store.check(draft.words).ok());
    EXPECT_EQ(heap.block_at(draft.words.value).bytes,
              size_classes::bytes_of(size_classes::class_of(bytes)));
    store.free(draft.words);  // the heap checks the class
    others[i] = heap.reserve(bytes);
    ASSERT_TRUE(others[i]) << bytes;
  }
  for (Reservation& block : others) heap.cancel(block);
}

TEST(RecordStore, CallsImpossibleBlobsCorrupt) {
  const auto pool = dram_pool();
  Epochs epochs;
  const RecordStore<ByteKeys> store(*pool, epochs);
  RecordStore<ByteKeys>::Draft draft;
  ASSERT_TRUE(store.draft("some key", "value", draft));
  store.publish(draft);
  const RecordWords good = draft.words;
  for (const RecordWords bad :
       {RecordWords{good.key + 1, good.value}, RecordWords{good.key, pool->bytes()},
        RecordWords{good.key, ~std::uint64_t{7}}, RecordWords{good.key, good.value + 1},
        RecordWords{good.key, 0}})
    EXPECT_EQ(store.check(bad).error().code, ErrorCode::corrupt);
  auto* const lengths = pool->at<std::uint32_t>(good.value);
  for (const unsigned i : {0U, 1U}) {
    const std::uint32_t kept = lengths[i];
    lengths[i] = 0xffffffff;
    EXPECT_EQ(store.check(good).error().code, ErrorCode::corrupt);
    lengths[i] = kept;
  }
  lengths[0] |= size_classes::count << 16;  // wider than any block
  EXPECT_EQ(store.check(good).error().code, ErrorCode::corrupt);
  lengths[0] &= 0xffff;
  EXPECT_TRUE(store.check(good).ok());
}

TEST(IndexRoot, IsReadBackAndEveryFlippedBitIsNoticed) {
  const auto pool = dram_pool();
  const IndexRootKind kind{.index = "some", .layout_version = 3, .key_kind = KeyKind::bytes};
  ASSERT_TRUE(create_index_root(*pool, "here", kind, {1, 2, 3}, 4096).ok());
  EXPECT_EQ(create_index_root(*pool, "here", kind, {1, 2, 3}, 4096).error().code,
            ErrorCode::exists);
  const auto root = read_index_root(*pool, "here", kind);
  ASSERT_TRUE(root.ok());
  EXPECT_EQ(root->head, 4096U);
  EXPECT_EQ(root->option[2], 3U);

  const auto code = [&](IndexRootKind asked, std::string_view name = "here") {
    return read_index_root(*pool, name, asked).error().code;
  };
  EXPECT_EQ(code(kind, "there"), ErrorCode::not_found);
  EXPECT_EQ(code({.index = "other", .layout_version = 3, .key_kind = KeyKind::bytes}),
            ErrorCode::foreign);
  EXPECT_EQ(code({.index = "some", .layout_version = 3, .key_kind = KeyKind::integer}),
            ErrorCode::foreign);
  EXPECT_EQ(code({.index = "some", .layout_version = 2, .key_kind = KeyKind::bytes}),
            ErrorCode::newer);
  EXPECT_EQ(code({.index = "some", .layout_version = 4, .key_kind = KeyKind::bytes}),
            ErrorCode::foreign);
  EXPECT_TRUE(check_index_option(*pool, "leaf_entries", 8, 8).ok());
  EXPECT_EQ(check_index_option(*pool, "leaf_entries", 8, 9).error().code, ErrorCode::foreign);

  auto* const bytes = pool->at<std::uint8_t>(pool->roots().front().offset);
  for (std::size_t i = 0; i < sizeof(IndexRoot); ++i)
    for (unsigned shift = 0; shift < 8; ++shift) {
      bytes[i] ^= static_cast<std::uint8_t>(1U << shift);
      ASSERT_EQ(code(kind), ErrorCode::corrupt);
      bytes[i] ^= static_cast<std::uint8_t>(1U << shift);
    }
  EXPECT_TRUE(read_index_root(*pool, "here", kind).ok());
}

}  // namespace
}  // namespace perdure
