#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <thread>

#include "index/lbtree/chain.h"

namespace perdure::lbtree {
namespace {

constexpr std::size_t prefetch_distance = 8;  // leaves

/// The lowest and the highest key of a run of leaves, as record words; valid unless `empty`.
struct Bounds {
  RecordWords lowest;
  RecordWords highest;
  bool empty = true;
};

/// The offsets of all leaves that hold records, and the first leaf. Brent's algorithm finds a cycle
/// without memory: a checkpoint moves on at every power of two, and meeting it again proves one.
Result<std::vector<std::uint64_t>> walk(const Pool& pool, std::uint64_t head) {
  std::vector<std::uint64_t> found;
  std::uint64_t checkpoint = null_offset;
  std::uint64_t steps = 0;
  for (std::uint64_t at = head; at != null_offset;) {
    if (!could_be_leaf(pool, at)) return damaged(pool, "a leaf leads outside the pool", at);
    if (at == checkpoint) return damaged(pool, "the chain of leaves is a cycle", at);
    if (std::has_single_bit(++steps)) checkpoint = at;
    const Leaf& leaf = *pool.at<Leaf>(at);
    pm::prefetch(&leaf.sibling);
    const Header header = leaf.read_header();
    if ((header.word_0 & Header::zero_mask) != 0)
      return damaged(pool, "a leaf's header is impossible", at);
    if (header.live() != 0 || at == head) found.push_back(at);
    at = leaf.next(header);
  }
  return found;
}

/// Checks and marks one leaf and its blobs.
template <class Keys>
Result<Bounds> mark_leaf(Pool& pool, const RecordStore<Keys>& records, std::uint64_t offset) {
  if (!pool.heap().mark(offset, sizeof(Leaf)))
    return damaged(pool, "a leaf is no block of the heap, or is linked twice", offset);
  const Leaf& leaf = *pool.at<Leaf>(offset);
  const Header header = leaf.read_header();
  if constexpr (RecordStore<Keys>::has_blobs)
    for (std::uint32_t left = header.live(); left != 0; left &= left - 1)
      records.prefetch(leaf.record[static_cast<unsigned>(std::countr_zero(left))].load());
  Bounds bounds;
  for (std::uint32_t left = header.live(); left != 0; left &= left - 1) {
    const auto slot = static_cast<unsigned>(std::countr_zero(left));
    const RecordWords words = leaf.record[slot].load();
    Result<void> marked = records.mark(words);
    if (!marked) return marked.error();
    if (fingerprint_of(records.key_of(words)) != header.fingerprint(slot))
      return damaged(pool, "a record does not match its fingerprint in the leaf", offset);
    if (bounds.empty || records.less(words, bounds.lowest)) bounds.lowest = words;
    if (bounds.empty || records.less(bounds.highest, words)) bounds.highest = words;
    bounds.empty = false;
  }
  return bounds;
}

/// A run of leaves, for one thread; neighbouring runs are compared afterwards.
template <class Keys>
Result<Bounds> mark_run(Pool& pool, const RecordStore<Keys>& records,
                        std::span<const std::uint64_t> leaves,
                        std::span<typename InnerTree<Keys>::Child> children) {
  Bounds run;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (i + prefetch_distance < leaves.size())
      pool.at<Leaf>(leaves[i + prefetch_distance])->prefetch();
    const Result<Bounds> one = mark_leaf(pool, records, leaves[i]);
    if (!one) return one.error();
    children[i].leaf = pool.at<Leaf>(leaves[i]);
    if (one->empty) continue;
    if (!run.empty && !records.less(run.highest, one->lowest))
      return damaged(pool, "keys of neighbouring leaves overlap", leaves[i]);
    if (run.empty) run.lowest = one->lowest;
    run.highest = one->highest;
    run.empty = false;
    children[i].lowest = records.key_of(one->lowest);
  }
  return run;
}

/// Makes each leaf lead to the next of `leaves`: where empty ones lay between, they are out with
/// one store. Done again after a crash, it does the same.
void unlink_between(Pool& pool, std::span<const std::uint64_t> leaves) {
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (i + prefetch_distance < leaves.size())
      pool.at<Leaf>(leaves[i + prefetch_distance])->prefetch();
    Leaf& leaf = *pool.at<Leaf>(leaves[i]);
    const std::uint64_t next = i + 1 < leaves.size() ? leaves[i + 1] : null_offset;
    std::atomic<std::uint64_t>& link = leaf.sibling[leaf.read_header().alternate()];
    if (link.load(std::memory_order_relaxed) != next) pm::store_persist(link, next);
  }
}

}  // namespace

bool could_be_leaf(const Pool& pool, std::uint64_t offset) noexcept {
  return pool.contains(offset, sizeof(Leaf)) && offset % alignof(Leaf) == 0;
}

Error damaged(const Pool& pool, const char* what, std::uint64_t offset) {
  return {ErrorCode::corrupt, std::string(what) + " at offset " + std::to_string(offset),
          pool.path(),
          "restore the pool from a copy, or create a new one with PoolOptions::overwrite"};
}

template <class Keys>
Result<Children<Keys>> recover_chain(Pool& pool, const RecordStore<Keys>& records,
                                     std::uint64_t head, unsigned threads) {
  const Result<std::vector<std::uint64_t>> walked = walk(pool, head);
  if (!walked) return walked.error();
  const std::span<const std::uint64_t> leaves = *walked;
  Children<Keys> children(leaves.size());

  const std::size_t runs = std::clamp<std::size_t>(leaves.size() / 1024, 1, std::max(threads, 1U));
  std::vector<std::optional<Result<Bounds>>> done(runs);
  const auto work = [&](std::size_t run) {
    const std::size_t begin = leaves.size() * run / runs;
    const std::size_t end = leaves.size() * (run + 1) / runs;
    done[run].emplace(mark_run<Keys>(pool, records, leaves.subspan(begin, end - begin),
                                     std::span(children).subspan(begin, end - begin)));
  };
  std::vector<std::jthread> helpers;
  for (std::size_t run = 1; run < runs; ++run) helpers.emplace_back(work, run);
  work(0);
  helpers.clear();

  Bounds all;
  for (const auto& run : done) {
    if (!run->ok()) return run->error();
    const Bounds& bounds = run->value();
    if (bounds.empty) continue;
    if (!all.empty && !records.less(all.highest, bounds.lowest))
      return damaged(pool, "keys of neighbouring leaves overlap", head);
    all = bounds;
  }
  unlink_between(pool, leaves);
  return children;
}

template Result<Children<IntegerKeys>> recover_chain<IntegerKeys>(Pool&,
                                                                  const RecordStore<IntegerKeys>&,
                                                                  std::uint64_t, unsigned);
template Result<Children<ByteKeys>> recover_chain<ByteKeys>(Pool&, const RecordStore<ByteKeys>&,
                                                            std::uint64_t, unsigned);

}  // namespace perdure::lbtree
