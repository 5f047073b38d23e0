// What the three graphs have in common.
#include "structure/graph/graph.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "structure/graph/adjacency.h"
#include "structure/graph/test_graph.h"

namespace perdure::structure {
namespace {

// Every edge, and the neighbours of every vertex, whatever the order of changes.
TEST(Graph, has_the_edges_and_neighbours_of_a_model) {
  for (const std::string& graph : all_graphs)
    for (const std::string& mode : all_modes)
      for (const char* offsets : {"offsets=0", "offsets=1"}) {
        SCOPED_TRACE(graph + ":" + mode + " " + offsets);
        ASSERT_NO_FATAL_FAILURE(follow_a_model(graph + ":" + mode, {offsets}, 4000));
      }
}

TEST(Graph, is_an_index_of_its_edges) {
  for (const std::string& graph : all_graphs)
    for (const std::string& mode : all_modes) agree_with_a_model(graph + ":" + mode, {"offsets=1"});
}

TEST(Graph, is_the_same_on_media_in_both_persistent_modes) {
  for (const std::string& graph : all_graphs) modes_open_each_other(graph);
}

// G1: edges at the ends of the key space: neighbours of one vertex are not those of the next.
TEST(Graph, keeps_vertices_apart) {
  constexpr Graph::Vertex last = ~Graph::Vertex{0};
  for (const std::string& name : all_graphs) {
    SlotStore store(name.c_str(), HeapKind::pmdk);
    Graph& graph = *Graph::of(store.index());
    for (const Graph::Vertex source : {Graph::Vertex{0}, Graph::Vertex{1}, last - 1, last})
      for (const Graph::Vertex target : {Graph::Vertex{0}, last})
        ASSERT_EQ(graph.insert_edge(source, target, "between"), Outcome::ok);
    SlotScan found;
    for (const Graph::Vertex source : {Graph::Vertex{0}, Graph::Vertex{1}, last - 1, last}) {
      found.clear();
      ASSERT_EQ(graph.neighbours(source, found), 2U) << name;
      for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_EQ(Graph::source_of(found[i].key), source) << name;
    }
    found.clear();
    EXPECT_EQ(graph.neighbours(2, found), 0U);
    EXPECT_EQ(graph.insert_edge(0, last), Outcome::exists);
    EXPECT_EQ(graph.delete_edge(0, last), Outcome::ok);
    EXPECT_EQ(graph.delete_edge(0, last), Outcome::not_found);
  }
}

TEST(Graph, is_no_other_structure) {
  SlotStore store("bplustree:dram", HeapKind::dram);
  EXPECT_EQ(Graph::of(store.index()), nullptr);
}

// Readers beside writers: an edge that nobody touches is always among the neighbours, once.
TEST(Graph, shows_neighbours_of_one_moment) {
  constexpr Graph::Vertex steady = 20;
  for (const std::string& name : all_graphs) {
    SlotStore store(name.c_str(), HeapKind::pmdk, Pool::min_pool_bytes * 2);
    Graph& graph = *Graph::of(store.index());
    for (Graph::Vertex target = 0; target < steady; ++target)
      ASSERT_EQ(graph.insert_edge(7, 2 * target), Outcome::ok);
    std::thread writer([&] {
      Rng rng(3);
      for (unsigned i = 0; i < 4000; ++i) {
        const auto target = static_cast<Graph::Vertex>(2 * rng.below(2 * steady) + 1);
        if (graph.insert_edge(7, target, "comes and goes") == Outcome::exists)
          graph.delete_edge(7, target);
      }
    });
    SlotScan found;
    for (unsigned i = 0; i < 1000; ++i) {
      found.clear();
      graph.neighbours(7, found);
      unsigned seen = 0;
      for (std::size_t e = 0; e < found.size(); ++e)
        if (Graph::target_of(found[e].key) % 2 == 0) ++seen;
      EXPECT_EQ(seen, steady) << name;
    }
    writer.join();
    EXPECT_TRUE(succeeds(store.index().check_invariants())) << name;
  }
}

// A3: as many vertices come and go as one likes, and their blocks with them.
TEST(Adjacency, frees_a_vertex_with_its_last_edge) {
  for (const std::string& mode : all_modes) {
    const std::string name = "graph_adjacency:" + mode;
    SlotStore store(name.c_str(), heap_of(name), Pool::min_pool_bytes, {"buckets=3"});
    Graph& graph = *Graph::of(store.index());
    for (Graph::Vertex source = 0; source < 30; ++source)
      for (Graph::Vertex target = 0; target < 3; ++target)
        ASSERT_EQ(graph.insert_edge(source, target), Outcome::ok);
    const auto blocks = [&] {
      EXPECT_TRUE(succeeds(store.index().check_invariants())) << mode;
      return store.pool().heap().usage().live_blocks;
    };
    const bool in_pool = mode != "dram";
    const std::uint64_t all = blocks();
    ASSERT_EQ(graph.delete_edge(4, 1), Outcome::ok);  // in the middle
    ASSERT_EQ(graph.delete_edge(4, 2), Outcome::ok);  // the first, which came last
    EXPECT_EQ(blocks(), in_pool ? all - 2 : 0);
    ASSERT_EQ(graph.delete_edge(4, 0), Outcome::ok);
    EXPECT_EQ(blocks(), in_pool ? all - 4 : 0);
    SlotScan found;
    EXPECT_EQ(graph.neighbours(4, found), 0U);
    ASSERT_EQ(graph.insert_edge(4, 4, "again"), Outcome::ok);
    EXPECT_EQ(graph.neighbours(4, found), 1U);
  }
}

TEST(Adjacency, has_edges_of_the_size_of_the_study_s_elements) {
  EXPECT_EQ(sizeof(Adjacency<PmemTransMemory<ObjectIds>>::Edge), 152U);
  EXPECT_EQ(sizeof(Adjacency<PmemTransMemory<ObjectIds>>::Node), 40U);
}

}  // namespace
}  // namespace perdure::structure
