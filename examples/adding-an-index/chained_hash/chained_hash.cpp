#include "chained_hash.h"

#include <algorithm>

#include "core/rng.h"
#include "index/common/with_room.h"

namespace perdure {
namespace {

Error corrupt(std::string what) {
  return {ErrorCode::corrupt, "chained_hash: " + what, "", "restore the pool from a copy"};
}

}  // namespace

MadeIndex<IntegerKeys> ChainedHash::create(const IndexPlace& place) {
  Heap& heap = place.pool->heap();
  const std::uint64_t buckets = place.options.get("buckets");
  Reservation blocks[] = {heap.reserve(buckets * sizeof(Word)), heap.reserve(sizeof(Root))};
  if (!blocks[0] || !blocks[1]) {
    for (Reservation& block : blocks)
      if (block) heap.cancel(block);
    return Error{ErrorCode::out_of_space, "no room for the table", place.pool->path(),
                 "make the pool larger"};
  }
  auto* const heads = place.pool->at<Word>(blocks[0].offset);
  for (std::uint64_t i = 0; i < buckets; ++i) new (heads + i) Word(null_offset);
  auto* const root = new (place.pool->at<Root>(blocks[1].offset)) Root{magic, buckets, {}};
  root->table.store(blocks[0].offset, std::memory_order_relaxed);
  pm::flush(heads, buckets * sizeof(Word));
  pm::flush(root, sizeof *root);
  pm::fence();
  heap.publish(std::span(blocks).first(1));  // a crash here leaves a block that recovery sweeps
  if (auto done = place.pool->add_root(place.root_name, blocks[1]); !done) {
    heap.free(blocks[0].offset, blocks[0].bytes);
    return done.error();
  }
  return std::unique_ptr<IntegerIndex>(new ChainedHash(*place.pool, *root));
}

MadeIndex<IntegerKeys> ChainedHash::recover(const IndexPlace& place) {
  Pool& pool = *place.pool;
  const auto roots = pool.roots();
  const auto found = std::ranges::find(roots, place.root_name, &PoolRoot::name);
  if (found == roots.end())
    return Error{ErrorCode::not_found, "the pool holds no '" + place.root_name + "'", pool.path(),
                 "create the index first"};
  // Every offset is checked before it is followed: media may be damaged.
  if (!pool.contains(found->offset, sizeof(Root))) return corrupt("the root lies outside the pool");
  auto& root = *pool.at<Root>(found->offset);
  if (root.magic != magic)
    return Error{ErrorCode::foreign, "the root is not a chained_hash", pool.path(),
                 "open it with the index that made it"};
  const std::uint64_t table = root.table.load(std::memory_order_relaxed);
  if (root.buckets == 0 || root.buckets > Heap::max_block_bytes / sizeof(Word) ||
      !pool.contains(table, root.buckets * sizeof(Word)))
    return corrupt("the table lies outside the pool");
  std::unique_ptr<ChainedHash> index(new ChainedHash(pool, root));
  if (auto done = index->mark_all(); !done) return done.error();
  if (auto done = pool.root_recovered(place.root_name); !done) return done.error();
  return std::unique_ptr<IntegerIndex>(std::move(index));
}

/// Tells the heap every block in use. `mark` refuses a block met twice, so a damaged chain that
/// runs in a circle ends here too.
Result<void> ChainedHash::mark_all() const {
  Heap& heap = pool_.heap();
  if (!heap.mark(root_.table.load(std::memory_order_relaxed), root_.buckets * sizeof(Word)))
    return corrupt("the table is no block of the heap");
  return walk([&](std::uint64_t bucket, std::uint64_t offset, const Node* node) -> Result<void> {
    if (!pool_.contains(offset, sizeof(Node)) || !heap.mark(offset, sizeof(Node)))
      return corrupt("H1: bucket " + std::to_string(bucket) + " links to no free-standing block");
    if (bucket_of(node->key) != bucket)
      return corrupt("H1: bucket " + std::to_string(bucket) + " holds a key of another");
    return {};
  });
}

template <class Visit>
Result<void> ChainedHash::walk(Visit&& visit) const {
  for (std::uint64_t bucket = 0; bucket < root_.buckets; ++bucket) {
    std::uint64_t offset = table()[bucket].load(std::memory_order_acquire);
    while (offset != null_offset) {
      const Node* const node = node_at(offset);
      if (auto done = visit(bucket, offset, node); !done) return done;
      offset = node->next.load(std::memory_order_acquire);
    }
  }
  return {};
}

std::uint64_t ChainedHash::bucket_of(std::uint64_t key) const noexcept {
  return mix64(key) % root_.buckets;
}

ChainedHash::Word* ChainedHash::find_link(std::uint64_t key) const noexcept {
  Word* link = &table()[bucket_of(key)];
  while (Node* node = node_at(link->load(std::memory_order_acquire))) {
    if (node->key == key) break;
    link = &node->next;
  }
  return link;
}

/// Power-cut states: absent, or present and whole. Caller holds the bucket's lock.
Outcome ChainedHash::add(Word& head, std::uint64_t key, std::uint64_t value) {
  Reservation block = pool_.heap().reserve(sizeof(Node));
  if (!block) return Outcome::out_of_space;
  auto* const node = new (pool_.at<Node>(block.offset)) Node{key, value, {}};
  node->next.store(head.load(std::memory_order_relaxed), std::memory_order_relaxed);
  pm::persist(node, sizeof *node);  // H2
  pool_.heap().publish({&block, 1}, &head, block.offset);
  return Outcome::ok;
}

template <class Change>
Outcome ChainedHash::locked(std::uint64_t key, Change&& change) {
  return with_room(epochs_, [&] {  // once more, if a full pool has room after a grace period
    const Epochs::Guard guard(epochs_);
    pm::VersionLock& lock = locks_[bucket_of(key) % lock_count];
    while (!lock.lock()) pm::pause();
    const Outcome outcome = change(*find_link(key));
    lock.unlock();  // H3: every change above was durable when it returned
    return outcome;
  });
}

Outcome ChainedHash::put(std::uint64_t key, std::uint64_t value, Put kind) {
  return locked(key, [&](Word& link) {
    Node* const node = node_at(link.load(std::memory_order_relaxed));
    const bool present = node != nullptr;
    if (is_refused(kind, present)) return refusal(present);
    if (!present) return add(table()[bucket_of(key)], key, value);
    pm::store_persist(node->value, value);
    return Outcome::ok;
  });
}

Outcome ChainedHash::remove(std::uint64_t key) {
  return locked(key, [&](Word& link) {
    const std::uint64_t offset = link.load(std::memory_order_relaxed);
    const Node* const node = node_at(offset);
    if (node == nullptr) return Outcome::not_found;
    pm::store_persist(link, node->next.load(std::memory_order_relaxed));
    epochs_.retire(pool_.heap(), offset, sizeof(Node));  // H4
    return Outcome::ok;
  });
}

Outcome ChainedHash::lookup(std::uint64_t key, std::uint64_t& value) {
  const Epochs::Guard guard(epochs_);
  const pm::VersionLock& lock = locks_[bucket_of(key) % lock_count];
  for (;;) {
    const std::uint64_t version = lock.read_begin();  // H3: waits for a change in progress
    const Node* const node = node_at(find_link(key)->load(std::memory_order_acquire));
    const std::uint64_t found = node == nullptr ? 0 : node->value.load(std::memory_order_acquire);
    if (!lock.validate(version)) continue;
    if (node == nullptr) return Outcome::not_found;
    value = found;
    return Outcome::ok;
  }
}

std::size_t ChainedHash::scan(std::uint64_t, std::size_t, IntegerScan&) {
  return 0;  // unordered, and registered as such
}

bool ChainedHash::reserve_records(std::span<const IntegerRecord> records, Word* heads,
                                  std::vector<Reservation>& blocks) {
  for (const IntegerRecord& record : records) {
    Reservation block = pool_.heap().reserve(sizeof(Node));
    if (!block) return false;
    Word& head = heads[bucket_of(record.key)];
    auto* const node = new (pool_.at<Node>(block.offset)) Node{record.key, record.value, {}};
    node->next.store(head.load(std::memory_order_relaxed), std::memory_order_relaxed);
    head.store(block.offset, std::memory_order_relaxed);
    pm::flush(node, sizeof *node);
    blocks.push_back(block);
  }
  return true;
}

/// Builds a whole new table aside and makes it the table with one word: a crash before that leaves
/// the index empty, and recovery sweeps the rest.
Result<void> ChainedHash::bulk_load(std::span<const IntegerRecord> records) {
  const auto descends = [](const auto& a, const auto& b) { return a.key >= b.key; };
  if (size() != 0 || std::ranges::adjacent_find(records, descends) != records.end())
    return Error{ErrorCode::usage, "bulk_load needs an empty index and ascending keys", "", ""};
  Heap& heap = pool_.heap();
  const std::size_t table_bytes = root_.buckets * sizeof(Word);
  Reservation new_table = heap.reserve(table_bytes);
  std::vector<Reservation> blocks;
  Word* const heads = pool_.at<Word>(new_table.offset);
  if (new_table)
    for (std::uint64_t i = 0; i < root_.buckets; ++i) new (heads + i) Word(null_offset);
  if (!new_table || !reserve_records(records, heads, blocks)) {
    for (Reservation& block : blocks) heap.cancel(block);
    if (new_table) heap.cancel(new_table);
    return Error{ErrorCode::out_of_space, "the records do not fit", pool_.path(),
                 "make the pool larger"};
  }
  pm::flush(heads, table_bytes);
  pm::fence();
  for (std::size_t i = 0; i < blocks.size(); i += 64)
    heap.publish(std::span(blocks).subspan(i, std::min<std::size_t>(64, blocks.size() - i)));
  const std::uint64_t old_table = root_.table.load(std::memory_order_relaxed);
  heap.publish({&new_table, 1}, &root_.table, new_table.offset);
  const Epochs::Guard guard(epochs_);
  epochs_.retire(heap, old_table, table_bytes);
  return {};
}

std::uint64_t ChainedHash::size() const {
  const Epochs::Guard guard(epochs_);
  std::uint64_t nodes = 0;
  (void)walk([&](auto, auto, auto) -> Result<void> {
    ++nodes;
    return {};
  });
  return nodes;
}

Result<void> ChainedHash::check_invariants() const {
  epochs_.drain();
  const std::uint64_t live = pool_.heap().usage().live_blocks;
  std::uint64_t reached = 2;  // the root and the table
  auto done = walk([&](std::uint64_t bucket, std::uint64_t offset, const Node*) -> Result<void> {
    if (!pool_.contains(offset, sizeof(Node))) return corrupt("H1: a link leaves the pool");
    if (bucket_of(node_at(offset)->key) != bucket) return corrupt("H1: a key in another's bucket");
    if (++reached > live) return corrupt("H1: a chain runs in a circle or into freed blocks");
    return {};
  });
  if (done.ok() && pool_.roots().size() == 1 && reached != live)
    return corrupt("H1: " + std::to_string(live) + " blocks are live, " + std::to_string(reached) +
                   " are reachable");
  return done;
}

std::uint64_t ChainedHash::dram_bytes() const {
  return sizeof *this + locks_.size() * sizeof(pm::VersionLock) + epochs_.retired_bytes();
}

std::vector<MediaStruct> ChainedHash::media(const IndexOptions& options) {
  const auto buckets = static_cast<std::uint32_t>(options.get("buckets"));
  return {{"node",
           sizeof(Node),
           {{"key", offsetof(Node, key), 8},
            {"value", offsetof(Node, value), 8},
            {"next", offsetof(Node, next), 8}}},
          {"table", buckets * sizeof(Word), {{"head", 0, sizeof(Word), buckets}}}};
}

PERDURE_REGISTER_INDEX(chained_hash, IndexInfo{.name = "chained_hash",
                                               .title = "Chained hash table (the worked example)",
                                               .index_class = IndexClass::persistent,
                                               .ordered = false,
                                               .options = {{.name = "buckets",
                                                            .description = "chains in the table",
                                                            .fallback = 65536,
                                                            .least = 4,
                                                            .most = 131072}},
                                               .create_integer = ChainedHash::create,
                                               .recover_integer = ChainedHash::recover,
                                               .media = ChainedHash::media});

}  // namespace perdure
