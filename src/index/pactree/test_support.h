// What the tests of PacTree share: a peer that reaches data nodes, search layer and log.
#pragma once

#include <string>
#include <vector>

#include "core/assert.h"
#include "index/common/test_store.h"
#include "index/pactree/pactree.h"

namespace perdure {

template <class Keys>
class PacTreePeer {
 public:
  using DataNode = pactree::DataNode;
  using Key = typename Keys::Key;
  static constexpr const char* index_name = "pactree";
  explicit PacTreePeer(OrderedIndex<Keys>& index) : tree_(static_cast<PacTree<Keys>&>(index)) {}

  [[nodiscard]] DataNode& first() const { return *tree_.first_; }
  [[nodiscard]] DataNode& node_of(Key key) const {
    const Epochs::Guard guard(tree_.epochs_);
    return *tree_.template enter<PacTree<Keys>::Purpose::read>(key, hash_of(key)).node;
  }
  [[nodiscard]] DataNode* next_of(const DataNode& node) const { return tree_.next_of(node); }
  [[nodiscard]] LeafRecord& record_of(Key key) const {
    DataNode& node = node_of(key);
    RecordWords words;
    const unsigned slot =
        pactree::find_slot(node, tree_.records_, key, hash_of(key), words, [] { return true; });
    PERDURE_ASSERT(slot != pactree::no_slot);
    return node.record(slot);
  }
  [[nodiscard]] std::size_t nodes() const {
    std::size_t count = 0;
    for (const DataNode* at = tree_.first_; at != nullptr; at = tree_.next_of(*at)) ++count;
    return count;
  }
  [[nodiscard]] pactree::SearchLayer& trie() const { return tree_.trie_; }
  [[nodiscard]] pactree::SmoLog& log() const { return tree_.log_; }
  /// Keeps the log from being replayed: the search layer lags.
  [[nodiscard]] bool hold_replay() const { return tree_.replaying_.lock(); }
  void release_replay() const { tree_.replaying_.unlock(); }

 private:
  PacTree<Keys>& tree_;
};

namespace pactree_test {

using namespace index_test;

template <class Keys>
using Store = index_test::PeerStore<PacTreePeer, Keys>;

template <class Keys>
auto make(std::uint64_t number) {
  if constexpr (Keys::kind == KeyKind::integer)
    return number;
  else
    return "some shared prefix, longer than a node holds " + std::to_string(10'000 + number);
}

}  // namespace pactree_test
}  // namespace perdure
