// Leaf of FpTree: one unsorted array of records, guarded by a commit bitmap.
//
//   byte 0        64       72     80     88       128
//        | tag[64] | commit | next | lock | unused | record[n], n = leaf_entries, 4 .. 64 |
//
// 1152 bytes with 64 entries. A record is 16 bytes and begins at a multiple of 16: none straddles a
// cache line. `commit`, `next` and `lock` share one.
//
// L1  record i exists <=> bit i of `commit` is set, i < n.
// L2  bit i set => tag[i], record[i] and the blob it leads to were durable no later than the bit.
// L3  tag[i] of an existing record is the fingerprint of its key.
// L4  the key of a live slot is never rewritten. An update writes another slot, and one store of
//     `commit` takes the old record out and the new one in; or, with the option update_in_place, it
//     is one store of the value word, which is failure-atomic.
// L5  keys of a leaf are below all keys of the leaves that follow it in the list.
// L6  the list begins at the root's `head`, which stays for ever; any other leaf that runs empty is
//     unlinked. After a power cut recovery unlinks what is still empty.
// L7  `lock` is held whenever tag, commit, next or record change, and given back only after the
//     fence that made the change durable. It means nothing after a restart; recovery zeroes it.
// L8  `next` and `commit` lie in one line, so they reach the media in the order of their stores. A
//     split stores `next` first: the one state in between is that the new leaf is linked and the
//     old one still holds the records it gave away. Recovery sees it as a breach of L5 and ends it.
// L9  leaf locks are taken from right to left; nobody waits for a leaf while it holds an inner
//     lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "index/leaf/tagged_leaf.h"
#include "pm/pm.h"

namespace perdure::fptree {

using namespace tagged;

struct alignas(pm::cache_line_bytes) Leaf : Records<Leaf> {
  std::array<std::uint8_t, max_entries> tag;
  std::atomic<std::uint64_t> commit;
  std::atomic<std::uint64_t> next;  ///< pool offset
  pm::VersionLock lock;
  std::array<std::uint64_t, 5> unused;
};

static_assert(offsetof(Leaf, next) / pm::cache_line_bytes ==
                  offsetof(Leaf, commit) / pm::cache_line_bytes,
              "L8: one line, so store order is persist order");

[[nodiscard]] constexpr std::size_t leaf_bytes(unsigned entries) noexcept {
  return bytes_of<Leaf>(entries);
}
static_assert(leaf_bytes(64) == 1152);

}  // namespace perdure::fptree
