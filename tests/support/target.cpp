#include "support/target.h"

#include <algorithm>
#include <cstdlib>

namespace perdure::testing {
namespace {

/// The heaps of the list that the index works on; any one where it needs none.
std::vector<HeapKind> suitable(const IndexInfo& info, std::vector<HeapKind> heaps) {
  if (!uses_pool(info.index_class)) return {HeapKind::dram};
  std::erase_if(heaps, [&](HeapKind heap) {
    if (info.heaps.empty()) return heap == HeapKind::memkind;  // keeps nothing
    return std::ranges::find(info.heaps, heap) == info.heaps.end();
  });
  return heaps;
}

[[nodiscard]] bool has_slab(const IndexInfo& info) {
  return std::ranges::count(info.options, "nodes", &IndexOption::name) != 0;
}

/// A slab is written when it is made.
std::vector<std::string> small_slab(const IndexInfo& info) {
  if (!has_slab(info)) return {};
  return {"nodes=65536"};
}

template <class Wanted>
std::vector<Target> targets(std::vector<HeapKind> heaps, Wanted&& wanted) {
  std::vector<Target> list;
  for (const IndexInfo& info : IndexRegistry::all()) {
    if (!info.verifiable || !wanted(info)) continue;
    for (const HeapKind heap : suitable(info, heaps))
      for (const KeyKind kind : {KeyKind::integer, KeyKind::bytes, KeyKind::slots})
        if (info.offers(kind)) list.push_back({&info, heap, kind, small_slab(info)});
  }
  return list;
}

}  // namespace

std::string Target::name() const {
  std::string text = info->full_name();
  if (uses_pool()) text += std::string("_") + name_of(heap);
  text += std::string("_") + name_of(kind);
  for (const std::string& option : options) text += "_" + option;
  std::ranges::replace_if(
      text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return text;
}

std::ostream& operator<<(std::ostream& out, const Target& target) { return out << target.name(); }

std::vector<Target> all_targets() {
  return targets({HeapKind::slab, HeapKind::pmdk, HeapKind::dram, HeapKind::memkind},
                 [](const IndexInfo&) { return true; });
}

std::vector<Target> recovering_targets() {
  std::vector<Target> list = targets({HeapKind::slab, HeapKind::pmdk}, [](const IndexInfo& info) {
    return info.index_class == IndexClass::persistent || info.index_class == IndexClass::on_disk;
  });
  const std::string node_pools = node_pools_option().name;
  for (Target& target : targets({HeapKind::slab}, [&](const IndexInfo& info) {
         return std::ranges::count(info.options, node_pools, &IndexOption::name) != 0;
       })) {
    target.options.push_back(node_pools + "=2");
    list.push_back(std::move(target));
  }
  return list;
}

std::vector<Target> killable_targets() {
  auto list = recovering_targets();
  std::erase_if(list,
                [](const Target& target) { return target.info->tearing == Tearing::structure; });
  return list;
}

std::vector<Target> pool_targets() {
  return targets({HeapKind::slab, HeapKind::pmdk},
                 [](const IndexInfo& info) { return info.index_class == IndexClass::persistent; });
}

std::vector<std::string> small_nodes(const IndexInfo& info) {
  std::vector<std::string> pairs;
  for (const IndexOption& option : info.options) {
    if (!option.name.ends_with("entries") && !option.name.ends_with("buckets")) continue;
    const std::uint64_t value = std::clamp<std::uint64_t>(4, option.least, option.most);
    pairs.push_back(option.name + "=" + std::to_string(value));
  }
  return pairs;
}

std::vector<std::string> short_list(const IndexInfo& info) {
  if (!has_slab(info) || !info.ordered) return {};
  return {"nodes=4096"};
}

std::uint64_t scaled(std::uint64_t amount, std::uint64_t least) {
  static const double factor = [] {
    const char* given = std::getenv("PERDURE_TEST_FACTOR");
    const double value = given == nullptr ? 1.0 : std::strtod(given, nullptr);
    return value > 0 ? value : 1.0;
  }();
  const auto result = static_cast<std::uint64_t>(static_cast<double>(amount) * factor);
  return std::max(result, least);
}

std::uint64_t seed_or(std::uint64_t fallback) {
  const char* given = std::getenv("PERDURE_TEST_SEED");
  return given == nullptr ? fallback : std::strtoull(given, nullptr, 10);
}

}  // namespace perdure::testing
