// Lookups, bulk load, the checks and the registration of Hot.
#include "index/hot/hot.h"

#include "index/reference/in_memory.h"
#include "index/registry.h"

namespace perdure {

// The branch belongs into the node of the first branch below it on the route, or of the record.
template <class Keys>
auto Hot<Keys>::branch_of(const Route& route, const KeyBits& key, unsigned position) noexcept
    -> Branch {
  Branch branch{0, position, hot::bit_at(key, position), false, {0, 0}};
  const auto& steps = route.steps;
  if (steps.empty()) return branch;
  branch.level = steps.size() - 1;
  while (branch.level > 0 && steps[branch.level].node->first_bit() > position) --branch.level;
  const Step& step = steps[branch.level];
  branch.range = step.node->sharing(step.index, position);
  if (branch.range.size() > 1) return branch;
  // No branch of that node is below: all of the next node shares the way.
  branch.at_record = branch.level + 1 == steps.size();
  if (!branch.at_record) branch.range = {0, steps[++branch.level].node->entries()};
  return branch;
}

template <class Keys>
Outcome Hot<Keys>::lookup(Key key, ValueOut& value) {
  const Epochs::Guard guard(epochs_);
  const Entry leaf = find(KeyBits(key));
  if (leaf == hot::no_entry || hot::is_dead(leaf)) return Outcome::not_found;
  const LeafRecord& record = *record_of(leaf);
  if (record.key() != key) return Outcome::not_found;
  value = value_of(record);
  return Outcome::ok;
}

template <class Keys>
Result<void> Hot<Keys>::bulk_load(std::span<const Record> records) {
  return load_by_inserts<Keys>(*this, records,
                               [this] { free_below(root_.exchange(hot::no_entry)); });
}

// No other thread runs.
template <class Keys>
void Hot<Keys>::free_below(Entry entry) noexcept {
  if (entry == hot::no_entry) return;
  if (hot::is_record(entry)) {
    arena_.free(record_of(entry), record_of(entry)->bytes());
    return;
  }
  Node* const node = hot::node_of(entry);
  for (unsigned i = 0; i < node->entries(); ++i) free_below(node->entry(i).load());
  arena_.free(node, node->bytes());
}

template <class Keys>
std::uint64_t Hot<Keys>::nodes_below(Entry entry) noexcept {
  if (entry == hot::no_entry || hot::is_record(entry)) return 0;
  const Node& node = *hot::node_of(entry);
  std::uint64_t nodes = 1;
  for (unsigned i = 0; i < node.entries(); ++i) nodes += nodes_below(node.entry(i).load());
  return nodes;
}

// Walks from left to right, and compares each record with the one before: they must differ first at
// the branch between the two (H1).
template <class Keys>
class Hot<Keys>::Checker {
 public:
  [[nodiscard]] Result<void> check(Entry entry, unsigned branch_before) {
    if (!hot::is_record(entry)) return check_node(*hot::node_of(entry), branch_before);
    if (last_ != hot::no_entry &&
        (KeyBits::first_difference(bits_of(last_), bits_of(entry)) != branch_before ||
         !hot::bit_at(bits_of(entry), branch_before)))
      return broken("H1");
    last_ = entry;
    return {};
  }

 private:
  static Error broken(const char* invariant) {
    return {ErrorCode::corrupt, std::string("breaks ") + invariant, "hot", "report this as a bug"};
  }

  [[nodiscard]] Result<void> check_node(const Node& node, unsigned branch_before) {
    if (node.entries() < 2 || node.entries() > hot::max_entries) return broken("N3");
    const std::uint64_t word = node.lock.peek();
    if (pm::VersionLock::is_locked(word) || pm::VersionLock::is_obsolete(word)) return broken("H3");
    const hot::Trie trie(node);
    if (!is_well_formed(trie)) return broken("N1");
    if (!is_least(node, trie)) return broken("N2");
    for (unsigned i = 0; i < node.entries(); ++i) {
      const Entry entry = node.entry(i).load();
      if (entry == hot::no_entry || hot::height_of(entry) >= node.height()) return broken("N3");
      if constexpr (Keys::kind == KeyKind::integer)
        if (node.height() == 1 && node.known_difference(number_of(entry), entry) != 0)
          return broken("N5");
      const unsigned branch = i == 0 ? branch_before : trie.branch_between(i - 1);
      if (auto checked = check(entry, branch); !checked) return checked;
    }
    return {};
  }

  [[nodiscard]] static bool is_well_formed(const hot::Trie& trie) {
    if (trie.key(0) != 0) return false;
    for (unsigned i = 1; i < trie.entries(); ++i) {
      if (trie.key(i) <= trie.key(i - 1)) return false;
      const std::uint32_t branch = std::bit_floor(trie.key(i) ^ trie.key(i - 1));
      const std::uint32_t above = ~(branch | (branch - 1));
      if (trie.key(i) != ((trie.key(i - 1) & above) | branch)) return false;
    }
    return true;
  }

  [[nodiscard]] static bool is_least(const Node& node, const hot::Trie& trie) {
    std::uint32_t used = 0;
    for (unsigned i = 0; i < trie.entries(); ++i) used |= trie.key(i);
    for (unsigned bit = 1; bit < trie.bits(); ++bit)
      if (trie.position(bit - 1) >= trie.position(bit)) return false;
    const unsigned bits = trie.bits();
    return used == (std::uint64_t{1} << bits) - 1 && trie.position(0) == node.first_bit() &&
           node.key_width() == (bits <= 8    ? 1U
                                : bits <= 16 ? 2U
                                             : 4U);
  }

  Entry last_ = hot::no_entry;
};

template <class Keys>
Result<void> Hot<Keys>::check_invariants() const {
  if (pm::VersionLock::is_locked(root_lock_.peek()))
    return Error{ErrorCode::corrupt, "breaks H2", "hot", "report this as a bug"};
  const Entry root = root_.load();
  if (root == hot::no_entry) return {};
  return Checker().check(root, hot::no_bit);
}

template class Hot<IntegerKeys>;
template class Hot<ByteKeys>;

PERDURE_REGISTER_INDEX(hot, IndexInfo{
                                .name = "hot",
                                .title = "Height optimized trie, ROWEX (volatile)",
                                .index_class = IndexClass::in_memory,
                                .create_integer = create_in_memory<Hot, IntegerKeys>,
                                .create_bytes = create_in_memory<Hot, ByteKeys>,
                            });

}  // namespace perdure
