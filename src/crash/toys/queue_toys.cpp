#include "crash/toys/queue_toys.h"

#include <array>
#include <utility>

#include "crash/toys/queue_toy.h"

namespace perdure::crash {
namespace {

/// The structure that a defect is planted in, or its sound twin.
struct QueueHome {
  MadeQueue (*open)(const QueueOpening&);
  std::vector<MediaStruct> (*media)(const IndexOptions&);
  Progress progress;
};

constexpr QueueHome queue_home_of(QueueDefect defect, bool repaired) {
  switch (defect) {
    case QueueDefect::published_ring:
    case QueueDefect::shared_undo:
      if (!repaired) return {open_published_ring, published_ring_media, Progress::blocking};
      [[fallthrough]];
    case QueueDefect::holes:
      return {open_slot_ring, slot_ring_media, Progress::blocking};
    default:
      return {open_snapshot_queue, snapshot_queue_media, Progress::lock_free};
  }
}

template <QueueDefect defect, bool repaired, bool create>
MadeQueue open_toy(const QueuePlace& place) {
  return queue_home_of(defect, repaired).open({place, defect, repaired, create});
}

template <QueueDefect defect, bool repaired>
QueueInfo describe_queue() {
  constexpr QueueHome home = queue_home_of(defect, repaired);
  QueueInfo info;
  info.name = std::string("toy:queue_") + name_of(defect) + (repaired ? ":repaired" : "");
  info.title = std::string("toy: ") + name_of(defect) + (repaired ? ", repaired" : ", planted");
  info.progress = home.progress;
  info.detectable = home.open != open_published_ring;
  info.create = open_toy<defect, repaired, true>;
  info.recover = open_toy<defect, repaired, false>;
  info.media = home.media;
  return info;
}

template <std::size_t... number>
std::array<QueueInfo, 2 * queue_defects> describe_queues(std::index_sequence<number...>) {
  return {describe_queue<static_cast<QueueDefect>(number), false>()...,
          describe_queue<static_cast<QueueDefect>(number), true>()...};
}

}  // namespace

const char* name_of(QueueDefect defect) noexcept {
  static constexpr const char* names[] = {
      "published_ring", "shared_undo",       "empty_not_durable",   "early_push",
      "holes",          "payload_unflushed", "last_push_forgotten", "blocking_wait"};
  static_assert(std::size(names) == queue_defects);
  return names[static_cast<std::size_t>(defect)];
}

std::span<const QueueInfo> queue_toys() {
  static const auto all = describe_queues(std::make_index_sequence<queue_defects>{});
  return all;
}

unsigned threads_of(QueueDefect defect) noexcept {
  const bool two = defect == QueueDefect::shared_undo || defect == QueueDefect::empty_not_durable ||
                   defect == QueueDefect::holes || defect == QueueDefect::blocking_wait;
  return two ? 2 : 1;
}

}  // namespace perdure::crash
