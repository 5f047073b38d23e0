#include "crash/toys/toys.h"

#include <algorithm>
#include <array>
#include <utility>

#include "crash/toys/toy.h"

namespace perdure::crash {
namespace {

/// The structure that a defect is planted in.
struct Home {
  Result<std::unique_ptr<IntegerIndex>> (*open)(const IndexPlace&, Defect, bool, bool);
  std::vector<MediaStruct> (*media)(const IndexOptions&);
};

constexpr Home home_of(Defect defect) {
  switch (defect) {
    case Defect::publish_before_init:
    case Defect::free_before_unlink:
    case Defect::dead_nodes_stay:
    case Defect::old_node_not_freed:
      return {open_list, list_media};
    case Defect::recovery_unlink:
    case Defect::recovery_duplicate:
    case Defect::recovery_half_move:
      return {open_chain, chain_media};
    case Defect::early_growth:
      return {open_hash, hash_media};
    case Defect::stale_parent:
      return {open_tree, tree_media};
    default:
      return {open_table, table_media};
  }
}

template <Defect defect, bool repaired, bool create>
Result<std::unique_ptr<IntegerIndex>> open(const IndexPlace& place) {
  return home_of(defect).open(place, defect, repaired, create);
}

template <Defect defect, bool repaired>
IndexInfo describe() {
  IndexInfo info;
  info.name = std::string("toy:") + name_of(defect) + (repaired ? ":repaired" : "");
  info.title = std::string("toy: ") + name_of(defect) + (repaired ? ", repaired" : ", planted");
  info.ordered = false;
  info.create_integer = open<defect, repaired, true>;
  info.recover_integer = open<defect, repaired, false>;
  info.media = home_of(defect).media;
  return info;
}

template <std::size_t... number>
std::array<IndexInfo, 2 * defects> describe_all(std::index_sequence<number...>) {
  return {describe<static_cast<Defect>(number), false>()...,
          describe<static_cast<Defect>(number), true>()...};
}

}  // namespace

const char* name_of(Defect defect) noexcept {
  static constexpr const char* names[] = {"missing_flush",
                                          "missing_fence",
                                          "wrong_address",
                                          "flush_of_a_temporary",
                                          "last_line_missed",
                                          "valid_before_payload",
                                          "two_tokens",
                                          "non_atomic_move",
                                          "unlock_before_flush",
                                          "publish_before_init",
                                          "free_before_unlink",
                                          "log_reset_unflushed",
                                          "replay_not_idempotent",
                                          "lock_survives",
                                          "leak_in_allocation",
                                          "read_of_unflushed",
                                          "elided_publish",
                                          "slots_used_once",
                                          "slots_not_counted",
                                          "dead_nodes_stay",
                                          "old_node_not_freed",
                                          "recovery_unflushed",
                                          "recovery_clears_first",
                                          "torn_pair",
                                          "recovery_unlink",
                                          "recovery_duplicate",
                                          "recovery_half_move",
                                          "bounded_retries",
                                          "early_growth",
                                          "stale_parent",
                                          "batch_end_unflushed",
                                          "batch_backwards"};
  static_assert(std::size(names) == defects);
  return names[static_cast<std::size_t>(defect)];
}

std::span<const IndexInfo> toys() {
  static const auto all = describe_all(std::make_index_sequence<defects>{});
  return all;
}

unsigned threads_of(Defect defect) noexcept {
  const bool two = defect == Defect::unlock_before_flush || defect == Defect::read_of_unflushed ||
                   defect == Defect::old_node_not_freed || defect == Defect::bounded_retries ||
                   defect == Defect::stale_parent;
  return two ? 2 : 1;
}

unsigned batch_of(Defect defect) noexcept {
  constexpr unsigned some = 6;
  const bool batches = defect == Defect::batch_end_unflushed || defect == Defect::batch_backwards;
  return batches ? some : 1;
}

bool is_elided(Defect defect) noexcept { return defect == Defect::elided_publish; }

std::uint64_t toy_root(const IndexPlace& place) {
  const auto roots = place.pool->roots();
  const auto found = std::ranges::find(roots, place.root_name, &PoolRoot::name);
  return found == roots.end() ? null_offset : found->offset;
}

}  // namespace perdure::crash
