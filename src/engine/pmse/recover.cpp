// Pmse: recovery and checking.
#include <algorithm>

#include "engine/pmse/pmse.h"

namespace perdure::engine::pmse {
namespace {

constexpr unsigned most_levels = 64;

}  // namespace

Error Pmse::corrupt(const char* what, std::uint64_t offset) const {
  return {ErrorCode::corrupt, std::string(what) + " (offset " + std::to_string(offset) + ")",
          pool_.path(), "restore the pool from a copy, or create a new one"};
}

// libpmemobj has finished or undone every transaction when the pool was opened.
MadeIndex<ByteKeys> Pmse::recover_as(Mode mode, const IndexPlace& place) {
  Pool& pool = *place.pool;
  const auto root = read_index_root(pool, place.root_name, root_kind);
  if (!root) return root.error();
  if (auto same =
          check_index_option(pool, "mode", root->option[0], static_cast<std::uint64_t>(mode));
      !same)
    return same.error();
  if (!pool.contains(root->head, sizeof(Head)) || !pool.heap().mark(root->head, sizeof(Head)))
    return Error{ErrorCode::corrupt, "the head of pmse is damaged", pool.path(),
                 "restore the pool from a copy"};
  std::unique_ptr<Pmse> index(new Pmse(pool, mode, *pool.at<Head>(root->head)));
  if (auto marked = index->mark_records(); !marked) return marked.error();
  if (auto marked = index->mark_tree(index->head_.root, 0); !marked) return marked.error();
  if (auto told = pool.root_recovered(place.root_name); !told) return told.error();
  return {std::move(index)};
}

Result<void> Pmse::mark_records() {
  const std::uint64_t table_bytes = head_.bucket_count * sizeof(std::uint64_t);
  if (head_.bucket_count == 0 || head_.bucket_count > Heap::max_block_bytes ||
      !pool_.contains(head_.buckets, table_bytes) || !heap_.mark(head_.buckets, table_bytes))
    return corrupt("the table of the record store is damaged", head_.buckets);
  std::uint64_t records = 0;
  for (std::uint64_t bucket = 0; bucket < head_.bucket_count; ++bucket)
    for (std::uint64_t at = bucket_of(bucket); at != null_offset; at = record_at(at)->next) {
      if (!pool_.contains(at, sizeof(RecordNode)) ||
          record_at(at)->number % head_.bucket_count != bucket ||
          record_at(at)->bytes > max_value_bytes ||
          !heap_.mark(at, sizeof(RecordNode) + record_at(at)->bytes))
        return corrupt("a list of the record store leads to no record", at);
      ++records;
    }
  if (records != head_.records) return corrupt("the record store lost count", records);
  return {};
}

Result<void> Pmse::mark_tree(std::uint64_t offset, unsigned depth) {
  if (depth == most_levels || !pool_.contains(offset, sizeof(Node)) ||
      node_at(offset)->entries >= order || !heap_.mark(offset, sizeof(Node)))
    return corrupt("the tree leads to no node", offset);
  const Node& node = *node_at(offset);
  for (unsigned i = 0; i < node.entries; ++i) {
    const std::uint64_t key = node.key[i];
    if (!pool_.contains(key, length_bytes) || *pool_.at<std::uint64_t>(key) > max_key_bytes ||
        !heap_.mark(key, length_bytes + *pool_.at<std::uint64_t>(key)))
      return corrupt("a node leads to no key", key);
  }
  if (node.is_leaf != 0) return {};
  for (unsigned i = 0; i <= node.entries; ++i)
    if (auto marked = mark_tree(node.child[i], depth + 1); !marked) return marked;
  return {};
}

Result<void> Pmse::check_invariants() const {
  std::uint64_t keys = 0;
  std::string_view before;
  bool first = true;
  for (std::uint64_t at = head_.first_leaf; at != null_offset; at = node_at(at)->child[order - 1]) {
    const Node& leaf = *node_at(at);
    for (unsigned i = 0; i < leaf.entries; ++i) {
      const std::string_view key = text_at(leaf.key[i]);
      if (!first && before >= key) return corrupt("M2: keys do not ascend", at);
      std::uint64_t number = 0;
      if (!find(key, number) || number != leaf.child[i])
        return corrupt("M2: a key cannot be found", at);
      if (find_record(number) == nullptr) return corrupt("M1: a key leads to no record", at);
      before = key;
      first = false;
      ++keys;
    }
  }
  if (keys != head_.records) return corrupt("M1: records and keys differ in number", head_.records);
  return {};
}

}  // namespace perdure::engine::pmse
