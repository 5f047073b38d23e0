// Unit tests of the trie's nodes: every kind, filled, emptied and copied.
#include "index/artolc/node.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "core/rng.h"

namespace perdure::art {
namespace {

struct Delete {
  void operator()(Node* node) const { ::operator delete(node, std::align_val_t{16}); }
};
using Owned = std::unique_ptr<Node, Delete>;

Owned make(NodeKind kind) {
  return Owned(Node::make(::operator new(Node::bytes_of(kind), std::align_val_t{16}), kind));
}

void expect_holds(const Node& node, const std::map<std::uint8_t, Child>& model) {
  EXPECT_EQ(node.shape().count(), model.size());
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto at = model.find(static_cast<std::uint8_t>(byte));
    EXPECT_EQ(node.find(static_cast<std::uint8_t>(byte)), at == model.end() ? no_child : at->second)
        << byte;
    const auto next = model.lower_bound(static_cast<std::uint8_t>(byte));
    EXPECT_EQ(node.next_byte(byte), next == model.end() ? Node::no_byte : next->first) << byte;
  }
  EXPECT_EQ(node.next_byte(256), Node::no_byte);
}

class NodeOfKind : public testing::TestWithParam<NodeKind> {};

TEST_P(NodeOfKind, FindsWhatItHoldsThroughInsertsReplacementsAndErasures) {
  const Owned node = make(GetParam());
  std::map<std::uint8_t, Child> model;
  Rng rng(1, 0);
  for (unsigned step = 0; step < 2000; ++step) {
    const auto byte = static_cast<std::uint8_t>(rng.below(256));
    const Child child = 1 + 2 * std::uint64_t{step};
    if (model.contains(byte) && step % 3 == 0) {
      node->replace(byte, child);
      model[byte] = child;
    } else if (model.contains(byte)) {
      node->erase(byte);
      model.erase(byte);
    } else if (!node->shape().is_full()) {
      node->insert(byte, child);
      model[byte] = child;
    } else {
      node->erase(model.begin()->first);
      model.erase(model.begin());
    }
    if (step % 50 == 0) expect_holds(*node, model);
  }
  EXPECT_EQ(node->entries(), model.size());
  node->here.store(1);
  EXPECT_EQ(node->entries(), model.size() + 1);
}

TEST_P(NodeOfKind, FillsToItsCapacityAndEmpties) {
  const Owned node = make(GetParam());
  const unsigned capacity = node->shape().capacity();
  for (unsigned i = 0; i < capacity; ++i)
    node->insert(static_cast<std::uint8_t>(255 - i), 2 * std::uint64_t{i} + 1);
  EXPECT_TRUE(node->shape().is_full());
  EXPECT_EQ(node->next_byte(0), 256 - capacity);
  for (unsigned i = 0; i < capacity; ++i) node->erase(static_cast<std::uint8_t>(255 - i));
  expect_holds(*node, {});
}

TEST_P(NodeOfKind, CopiesAllButOneChild) {
  const Owned from = make(GetParam());
  from->set_prefix(0x0102030405060708, 20);
  from->here.store(77);
  std::map<std::uint8_t, Child> model;
  for (unsigned i = 0; i < 4; ++i) {
    model[static_cast<std::uint8_t>(60 * i)] = 2 * std::uint64_t{i} + 1;
    from->insert(static_cast<std::uint8_t>(60 * i), 2 * std::uint64_t{i} + 1);
  }
  const Owned into = make(NodeKind::n48);
  from->copy_to(*into, 60);
  model.erase(60);
  expect_holds(*into, model);
  EXPECT_EQ(into->prefix.load(), 0x0102030405060708U);
  EXPECT_EQ(into->shape().prefix_bytes(), 20U);
  EXPECT_EQ(into->here.load(), 77U);
  EXPECT_EQ(into->shape().kind(), NodeKind::n48);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, NodeOfKind, testing::Values(NodeKind::n4, NodeKind::n16, NodeKind::n48, NodeKind::n256),
    [](const auto& tested) {
      return "n" + std::to_string(Node::Shape{static_cast<std::uint64_t>(tested.param)}.capacity());
    });

TEST(Node, ReadsNoChildOfAFourAsAKeyByte) {
  // match_16 reads past the four key bytes.
  const Owned node = make(NodeKind::n4);
  node->insert(1, 0x0909090909090909);
  EXPECT_EQ(node->find(9), no_child);
  EXPECT_EQ(node->find(0), no_child);
}

}  // namespace
}  // namespace perdure::art
