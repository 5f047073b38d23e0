#include "structure/graph/adjacency.h"

#include <string>
#include <unordered_set>

#include "structure/base/modes.h"

namespace perdure::structure {

template <class Memory>
void Adjacency<Memory>::prepare(Creation& creation, const IndexOptions& options) {
  this->top().table = heads_.create(creation, this->memory_, buckets_of(options),
                                    this->memory_.template null<Node>());
}

template <class Memory>
bool Adjacency<Memory>::reopen(Walk<Memory>& walk, std::uint64_t buckets) {
  return buckets > 0 && heads_.reopen(walk, this->top().table, buckets);
}

template <class Memory>
Result<void> Adjacency<Memory>::walk(Walk<Memory>& walk) const {
  heads_.walk(walk, this->top().table);
  for (std::uint64_t bucket = 0; bucket < heads_.size(); ++bucket) {
    std::unordered_set<std::uint64_t> seen;
    for (Ref<Node> ref = heads_[bucket]; ref;) {
      const Node* const vertex = walk.template enter<Node>(ref);
      if (vertex == nullptr)
        return corrupt("A1: bucket " + std::to_string(bucket) + " leads to no vertex of its own");
      const bool twice = !walk.recovers() && !seen.insert(vertex->id).second;
      if (vertex->id >> 32 != 0 || bucket_of(vertex->id) != bucket || twice)
        return corrupt("A1: bucket " + std::to_string(bucket) + " holds what is not its own");
      if (auto sound = walk_edges(walk, *vertex); !sound) return sound;
      ref = vertex->next;
    }
  }
  return {};
}

template <class Memory>
Result<void> Adjacency<Memory>::walk_edges(Walk<Memory>& walk, const Node& vertex) const {
  const auto wrong = [&](const char* what) {
    return corrupt(std::string(what) + ", vertex " + std::to_string(vertex.id));
  };
  if (!vertex.first) return wrong("A3: no edge leaves a vertex");
  std::unordered_set<std::uint64_t> seen;
  for (Ref<Edge> ref = vertex.first; ref;) {
    const Edge* const edge = walk.template enter<Edge>(ref);
    if (edge == nullptr) return wrong("A1: a link leads to no edge of its own");
    const bool twice = !walk.recovers() && !seen.insert(edge->target).second;
    if (edge->target >> 32 != 0 || !edge->slot.is_sound() || twice)
      return wrong("A1: an edge is damaged or there twice");
    walk.count_record();
    ref = edge->next;
  }
  return {};
}

template <class Memory>
void Adjacency<Memory>::clear(Creation& creation) {
  for (std::uint64_t bucket = 0; bucket < heads_.size(); ++bucket)
    creation.link(heads_[bucket], this->memory_.template null<Node>());
}

template <class Memory>
auto Adjacency<Memory>::link_to(std::uint64_t vertex) const noexcept -> Ref<Node>& {
  Ref<Node>* link = &heads_[bucket_of(vertex)];
  for (Node* node = at(*link); node != nullptr && node->id != vertex; node = at(*link))
    link = &node->next;
  return *link;
}

template <class Memory>
auto Adjacency<Memory>::link_to(Node& vertex, std::uint64_t target) const noexcept -> Ref<Edge>& {
  Ref<Edge>* link = &vertex.first;
  for (Edge* edge = at(*link); edge != nullptr && edge->target != target; edge = at(*link))
    link = &edge->next;
  return *link;
}

template <class Memory>
const Slot* Adjacency<Memory>::find(std::uint64_t key) const noexcept {
  Node* const vertex = at(link_to(source_of(key)));
  const Edge* const edge = vertex == nullptr ? nullptr : at(link_to(*vertex, target_of(key)));
  return edge == nullptr ? nullptr : &edge->slot;
}

template <class Memory>
std::size_t Adjacency<Memory>::neighbours(Vertex source, SlotScan& out) {
  return this->read([&] {
    const Node* const vertex = at(link_to(source));
    if (vertex == nullptr) return out.size();
    for (const Edge* edge = at(vertex->first); edge != nullptr; edge = at(edge->next))
      out.append(Graph::edge(source, static_cast<Vertex>(edge->target)), edge->slot.value());
    return out.size();
  });
}

template <class Memory>
Effect Adjacency<Memory>::put(Change& change, std::uint64_t key, std::string_view value, Put how) {
  const Vertex target = target_of(key);
  Node* const vertex = at(link_to(source_of(key)));
  if (Edge* const found = vertex == nullptr ? nullptr : at(link_to(*vertex, target));
      found != nullptr) {
    if (how == Put::insert) return Effect::exists;
    this->rewrite(change, found->slot, value);
    return Effect::replaced;
  }
  if (how == Put::update) return Effect::not_found;
  auto* const added = change.template make<Edge>();
  added->target = target;
  added->slot.write(value);
  added->next = vertex == nullptr ? this->memory_.template null<Edge>() : vertex->first;
  if (vertex != nullptr) {
    change.link(vertex->first, this->memory_.ref(added));  // A2
    return Effect::added;
  }
  auto* const source = change.template make<Node>();
  Ref<Node>& head = heads_[bucket_of(source_of(key))];
  source->id = source_of(key);
  source->next = head;
  source->first = this->memory_.ref(added);
  change.link(head, this->memory_.ref(source));  // A2
  return Effect::added;
}

template <class Memory>
Effect Adjacency<Memory>::take(Change& change, std::uint64_t key) {
  Ref<Node>& to_vertex = link_to(source_of(key));
  Node* const vertex = at(to_vertex);
  if (vertex == nullptr) return Effect::not_found;
  Ref<Edge>& to_edge = link_to(*vertex, target_of(key));
  Edge* const edge = at(to_edge);
  if (edge == nullptr) return Effect::not_found;
  const bool is_only_one = vertex->first == to_edge && !edge->next;
  if (is_only_one)
    change.link(to_vertex, vertex->next);  // A3, A4
  else
    change.link(to_edge, edge->next);  // A4
  change.drop(edge);
  if (is_only_one) change.drop(vertex);
  return Effect::removed;
}

namespace {

PERDURE_REGISTER_INDEX(
    graph_adjacency,
    IndexInfo{.name = "graph_adjacency",
              .title = "Graph: adjacency lists over a hash of vertices (Islam et al., MSST 2020)",
              .ordered = false,
              .options = options({records_option("edges, each of a vertex of its own at worst"),
                                  {.name = "buckets",
                                   .description = "chains of vertices; 0: as `records` says",
                                   .fallback = 0,
                                   .least = 0,
                                   .most = 1ULL << 33}}),
              .modes = modes<Family<Adjacency>>(Tearing::values)});

}  // namespace
}  // namespace perdure::structure
