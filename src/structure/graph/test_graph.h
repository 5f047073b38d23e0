// What the graphs' tests share: a history of edges beside a model.
#pragma once

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "structure/base/test_history.h"
#include "structure/graph/graph.h"

namespace perdure::structure {

inline const std::vector<std::string> all_graphs{"graph_adjacency", "graph_bplustree", "graph_log"};

using GraphModel = std::map<Graph::Vertex, std::map<Graph::Vertex, std::string>>;

inline void expect_neighbours(SlotStore& store, const GraphModel& model, Graph::Vertex vertices) {
  ASSERT_TRUE(succeeds(store.index().check_invariants()));
  Graph* const graph = Graph::of(store.index());
  ASSERT_NE(graph, nullptr);
  SlotScan found;
  for (Graph::Vertex source = 0; source < vertices; ++source) {
    std::map<Graph::Vertex, std::string> seen;
    found.clear();
    const std::size_t degree = graph->neighbours(source, found);
    ASSERT_EQ(degree, found.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(Graph::source_of(found[i].key), source);
      ASSERT_TRUE(seen.emplace(Graph::target_of(found[i].key), found[i].value).second);
    }
    const auto expected = model.find(source);
    ASSERT_EQ(seen, expected == model.end() ? GraphModel::mapped_type{} : expected->second)
        << "of vertex " << source;
  }
}

/// Edges of few vertices come, change and go, more of them in one half of the time and fewer in the
/// other; a persistent graph is reopened without a shutdown now and then.
inline void follow_a_model(const std::string& name, std::vector<std::string> options,
                           unsigned operations) {
  constexpr Graph::Vertex vertices = 25;
  SlotStore store(name.c_str(), heap_of(name), Pool::min_pool_bytes * 2, std::move(options));
  GraphModel model;
  Rng rng(11);
  for (unsigned i = 0; i < operations; ++i) {
    Graph* const graph = Graph::of(store.index());
    ASSERT_NE(graph, nullptr);
    const auto source = static_cast<Graph::Vertex>(rng.below(vertices));
    const auto target = static_cast<Graph::Vertex>(rng.below(vertices));
    const bool present = model.contains(source) && model[source].contains(target);
    const bool grows = i / 700 % 2 == 0;
    if (present && rng.below(3) == 0) {
      ASSERT_EQ(store.index().update(Graph::edge(source, target), value_of(i)), Outcome::ok);
      model[source][target] = value_of(i);
    } else if (grows) {
      ASSERT_EQ(graph->insert_edge(source, target, value_of(i)),
                present ? Outcome::exists : Outcome::ok);
      model[source].try_emplace(target, value_of(i));
    } else {
      ASSERT_EQ(graph->delete_edge(source, target), present ? Outcome::ok : Outcome::not_found);
      if (present) model[source].erase(target);
    }
    if (i % 600 != 599) continue;
    if (store.info().recovers(KeyKind::slots)) {
      ASSERT_TRUE(succeeds(store.crash()));
    }
    ASSERT_NO_FATAL_FAILURE(expect_neighbours(store, model, vertices));
  }
}

}  // namespace perdure::structure
