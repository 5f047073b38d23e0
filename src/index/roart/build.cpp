// Roart's bulk load: a tree of full arrays is built aside and linked by one word.
#include <algorithm>
#include <utility>
#include <vector>

#include "index/common/bulk_check.h"
#include "index/common/parallel.h"
#include "index/common/publish_batch.h"
#include "index/roart/roart.h"

namespace perdure {

/// Arrays, nodes and records that nothing leads to yet.
template <class Keys>
class Roart<Keys>::Builder {
 public:
  using Records = std::span<const Record>;

  Builder(Roart& tree, unsigned threads)
      : tree_(tree),
        fill_(std::max(1U, 3 * tree.entries_ / 4)),
        threads_(threads),
        batch_(tree.heap_) {
    helpers_.reserve(threads);
    while (helpers_.size() + 1 < threads) helpers_.emplace_back(tree, 1);
  }

  /// The records hang below a node at level `above`, whose path they share. No entry: out of space.
  [[nodiscard]] Entry build(Records records, unsigned above) {
    if (records.size() <= fill_) return build_array(records);
    const Path first(records.front().key);
    const unsigned level = roart::fork_of(first, Path(records.back().key), above);
    const std::vector<Entry> entries = build_groups(groups_of(records, level), level);
    if (entries.empty()) return {};
    Kind kind = Kind::n4;
    while (entries.size() > Node::capacity(kind)) kind = kind == Kind::n4 ? Kind::n20 : Kind::n256;
    Entry built = build_node(kind, level, first, entries);
    for (unsigned at = level; built && at - above > Node::held_bytes;) {
      at -= Node::held_bytes;  // N1
      built = build_node(Kind::n4, at, first, {&built, 1});
    }
    return built;
  }

  [[nodiscard]] Error no_room() const {
    return {ErrorCode::out_of_space, "the pool has no room for the records", tree_.pool_.path(),
            "create a larger pool"};
  }

  /// Makes the new tree visible in place of the old one.
  void link(std::atomic<std::uint64_t>& word, Entry top) { batch_.publish(&word, top.word()); }
  void give_back() {
    for (Builder& helper : helpers_) helper.give_back();
    batch_.publish();
    for (const auto& [offset, bytes] : made_) tree_.heap_.free(offset, bytes);
  }

 private:
  /// Where the records with the same symbol as the first end.
  [[nodiscard]] static std::size_t end_of_symbol(Records records, unsigned level) {
    const auto symbol = [level](const Record& record) {
      return roart::symbol_at(Path(record.key), level);
    };
    return static_cast<std::size_t>(
        std::ranges::upper_bound(records, symbol(records.front()), {}, symbol) - records.begin());
  }

  // As many whole symbols as fit go into an array; one that does not fit gets a node.
  [[nodiscard]] std::vector<Records> groups_of(Records records, unsigned level) const {
    std::vector<Records> groups;
    while (!records.empty()) {
      std::size_t taken = end_of_symbol(records, level);
      const bool fits = taken <= fill_;
      while (fits && taken < records.size()) {
        const std::size_t more = end_of_symbol(records.subspan(taken), level);
        if (taken + more > fill_) break;
        taken += more;
      }
      groups.push_back(records.first(taken));
      records = records.subspan(taken);
    }
    return groups;
  }

  // An entry a group; none: out of space. The groups of the topmost node are shared among threads:
  // each builds those whose first record lies in its part.
  [[nodiscard]] std::vector<Entry> build_groups(const std::vector<Records>& groups,
                                                unsigned level) {
    std::vector<Entry> entries(groups.size());
    const Record* const first = groups.front().data();
    const auto place_of = [first](const Record* record) {
      return static_cast<std::size_t>(record - first);
    };
    const std::size_t count = place_of(groups.back().data() + groups.back().size());
    const auto build_part = [&](std::size_t begin, std::size_t end,
                                std::size_t part) -> Result<void> {
      Builder& builder = part == 0 ? *this : helpers_[part - 1];
      for (std::size_t i = 0; i < groups.size(); ++i) {
        if (const std::size_t at = place_of(groups[i].data()); at < begin || at >= end) continue;
        const Entry built = builder.build(groups[i], level);
        if (!built) return no_room();
        const unsigned symbol = roart::symbol_at(Path(groups[i].front().key), level);
        entries[i] = built.from(i == 0 ? 0 : symbol);
      }
      if (end - begin < count) builder.batch_.publish();  // this thread's flushes need its fence
      return {};
    };
    const Result<void> done = in_parallel(count, std::exchange(threads_, 1), build_part);
    return done ? entries : std::vector<Entry>();
  }

  [[nodiscard]] Entry build_array(Records records) {
    void* const memory = reserve(sizeof(LeafArray));
    if (memory == nullptr) return {};
    LeafArray* const array = LeafArray::make(memory, tree_.opening_);
    for (const Record& record : records) {
      Reservation block;
      if (!tree_.records_.draft(record.key, record.value, block)) return {};
      hold(block);
      array->add({Probe(record.key).fingerprint, block.offset}, tree_.entries_);
    }
    pm::flush(array, sizeof *array);
    return {0, Kind::leaf_array, tree_.offset_of(array)};
  }

  [[nodiscard]] Entry build_node(Kind kind, unsigned level, const Path& path,
                                 std::span<const Entry> entries) {
    void* const memory = reserve(Node::bytes_of(kind));
    if (memory == nullptr) return {};
    Node* const node = Node::make(memory, kind, level, path, tree_.opening_);
    for (const Entry entry : entries) node->add(entry);
    pm::flush(node, node->bytes());
    return {0, kind, tree_.offset_of(node)};
  }

  [[nodiscard]] void* reserve(std::size_t bytes) {
    const Reservation block = tree_.heap_.reserve(bytes);
    if (!block) return nullptr;
    hold(block);
    return tree_.pool_.template at<void>(block.offset);
  }
  void hold(const Reservation& block) {
    made_.emplace_back(block.offset, block.bytes);
    batch_.hold(block);
  }

  Roart& tree_;
  const std::size_t fill_;
  unsigned threads_;              ///< that share the next node's groups
  std::vector<Builder> helpers_;  ///< of the other threads
  PublishBatch batch_;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> made_;  ///< offset, bytes
};

// Power-cut states: empty, or all records.
template <class Keys>
Result<void> Roart<Keys>::bulk_load(std::span<const Record> records) {
  if (state_.early()) finish_walk();
  if (state_.is_damaged()) return state_.damage();
  if (std::optional<Error> refusal = bulk_load_refusal(size() == 0, records)) return *refusal;
  if (records.empty()) return {};
  Builder builder(*this, threads_);
  const Entry top = builder.build(records, root_->level);
  if (!top) {
    builder.give_back();
    return builder.no_room();
  }
  const Entry old = root_->next(0);
  builder.link(root_->word_of(old), top.from(old.symbol()));
  free_below(old);
  return {};
}

// No other thread runs, and there are no records.
template <class Keys>
void Roart<Keys>::free_below(Entry entry) {
  if (entry.is_array()) {
    heap_.free(entry.offset(), sizeof(LeafArray));
    return;
  }
  const Node& node = *node_at(entry);
  for (Entry each = node.next(0); each; each = node.next(each.symbol() + 1)) free_below(each);
  heap_.free(entry.offset(), node.bytes());
}

template Result<void> Roart<IntegerKeys>::bulk_load(std::span<const IntegerRecord>);
template Result<void> Roart<ByteKeys>::bulk_load(std::span<const BytesRecord>);

}  // namespace perdure
