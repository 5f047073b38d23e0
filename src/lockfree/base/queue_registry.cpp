#include "lockfree/base/queue_registry.h"

#include <algorithm>
#include <array>

#include "core/suggest.h"

namespace perdure {
namespace {

std::vector<QueueInfo>& registered_queues() {
  static std::vector<QueueInfo> list;
  return list;
}

Error usage_of_queue(std::string what, std::string where, std::string remedy) {
  return {ErrorCode::usage, std::move(what), std::move(where), std::move(remedy)};
}

/// `place` with every option that `info` declares, or what is wrong with it.
Result<QueuePlace> completed_queue(const QueueInfo& info, const QueuePlace& place) {
  QueuePlace whole = place;
  Result<IndexOptions> options = with_defaults({info.name, info.options}, place.options);
  if (!options) return options.error();
  whole.options = std::move(options).value();
  if (!uses_pool(info.index_class)) return whole;
  if (place.pool == nullptr)
    return usage_of_queue(info.full_name() + " lives in a pool", "QueuePlace::pool",
                          "make one with Pool::create, or open one");
  if (!info.works_on(place.pool->heap_kind()))
    return Error{ErrorCode::unsupported, info.full_name() + " needs a pool with another heap",
                 place.pool->path().empty() ? "QueuePlace::pool" : place.pool->path(),
                 std::string("give PoolOptions::heap ") +
                     name_of(info.heaps.empty() ? HeapKind::slab : info.heaps.front())};
  return whole;
}

}  // namespace

bool QueueInfo::works_on(HeapKind heap) const noexcept {
  if (heaps.empty()) return heap == HeapKind::slab || heap == HeapKind::dram;
  return std::ranges::find(heaps, heap) != heaps.end();
}

std::span<const QueueInfo> QueueRegistry::all() { return registered_queues(); }

Result<const QueueInfo*> QueueRegistry::find(std::string_view name) {
  const auto& list = registered_queues();
  const auto found = std::ranges::find(list, name, &QueueInfo::full_name);
  if (found != list.end()) return &*found;
  std::vector<std::string> names;
  for (const QueueInfo& info : list) names.push_back(info.full_name());
  return usage_of_queue("no queue is named '" + std::string(name) + "'", "QueueRegistry::find",
                        suggestion(name, names, "QueueRegistry::all shows them"));
}

Result<IndexOptions> QueueRegistry::options(const QueueInfo& info,
                                            std::span<const std::string> pairs) {
  return parse_options({info.name, info.options}, pairs);
}

bool QueueRegistry::add(QueueInfo info) {
  auto& list = registered_queues();
  list.insert(std::ranges::upper_bound(list, info.full_name(), {}, &QueueInfo::full_name),
              std::move(info));
  return true;
}

MadeQueue create_queue(const QueueInfo& info, const QueuePlace& place) {
  if (auto recovered = check_recovered(place.pool); !recovered) return recovered.error();
  const Result<QueuePlace> whole = completed_queue(info, place);
  return whole ? info.create(*whole) : whole.error();
}

MadeQueue recover_queue(const QueueInfo& info, const QueuePlace& place) {
  if (info.recover == nullptr)
    return Error{ErrorCode::unsupported, info.full_name() + " keeps nothing to recover",
                 "QueueRegistry::find " + info.full_name(),
                 "QueueRegistry::all shows what each queue offers"};
  const Result<QueuePlace> whole = completed_queue(info, place);
  return whole ? info.recover(*whole) : whole.error();
}

void settle_queue(DurableQueue& queue, Pool& pool, std::string_view root_name) {
  queue.quiesce();
  pool.note_settled(root_name, queue.content_sum());
}

}  // namespace perdure
