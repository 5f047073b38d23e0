// The four modes of a structure, instantiated in one place: what its registration lists.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "index/registry.h"
#include "structure/base/structure_index.h"

namespace perdure::structure {

/// A family whose member on a memory is the class template itself.
template <template <class> class S>
struct Family {
  template <class Memory>
  [[nodiscard]] static std::unique_ptr<Structure> make(const IndexPlace& place) {
    return std::make_unique<S<Memory>>(place.pool);
  }
};

/// A persistent memory with the kind of refs that the options choose.
template <class Family, template <class> class Memory>
[[nodiscard]] std::unique_ptr<Structure> make_persistent(const IndexPlace& place) {
  return place.options.get("offsets") != 0 ? Family::template make<Memory<Offsets>>(place)
                                           : Family::template make<Memory<ObjectIds>>(place);
}

template <std::unique_ptr<Structure> (*make)(const IndexPlace&)>
[[nodiscard]] MadeIndex<SlotKeys> create(const IndexPlace& place) {
  std::unique_ptr<Structure> structure = make(place);
  if (auto done = structure->create(place); !done) return done.error();
  return std::unique_ptr<SlotIndex>(std::move(structure));
}

template <std::unique_ptr<Structure> (*make)(const IndexPlace&)>
[[nodiscard]] MadeIndex<SlotKeys> recover(const IndexPlace& place) {
  std::unique_ptr<Structure> structure = make(place);
  if (auto done = structure->recover(place); !done) return done.error();
  return std::unique_ptr<SlotIndex>(std::move(structure));
}

/// `tearing`: what pmem-persist leaves of an operation that a power cut meets. `own`: locks that
/// only this structure has.
template <class Family>
[[nodiscard]] std::vector<IndexMode> modes(Tearing tearing, const std::vector<LockKind>& own = {}) {
  constexpr auto persist = make_persistent<Family, PmemPersistMemory>;
  constexpr auto trans = make_persistent<Family, PmemTransMemory>;
  // The mutex of the study's contention first.
  const auto locks = [&](LockKind mutex, std::vector<LockKind> others) {
    others.insert(others.begin(), mutex);
    others.insert(others.end(), {LockKind::readers_writer, LockKind::none});
    others.insert(others.end(), own.begin(), own.end());
    return others;
  };
  return {{.name = VolatileMemory::dram_mode,
           .index_class = IndexClass::in_memory,
           .locks = locks(LockKind::pthread, {}),
           .create_slots = create<Family::template make<VolatileMemory>>},
          {.name = VolatileMemory::pmem_mode,
           .index_class = IndexClass::volatile_pm,
           .heaps = {HeapKind::memkind},
           .locks = locks(LockKind::pthread, {LockKind::pthread_pm}),
           .create_slots = create<Family::template make<VolatileMemory>>},
          {.name = PmemPersistMemory<ObjectIds>::mode,
           .tearing = tearing,
           .heaps = {HeapKind::pmdk},
           .locks = locks(LockKind::pmemobj, {LockKind::pthread, LockKind::pthread_pm}),
           .create_slots = create<persist>,
           .recover_slots = recover<persist>},
          {.name = PmemTransMemory<ObjectIds>::mode,
           .heaps = {HeapKind::pmdk},
           .locks = locks(LockKind::pmemobj, {LockKind::pthread, LockKind::pthread_pm}),
           .create_slots = create<trans>,
           .recover_slots = recover<trans>}};
}

/// The options of every structure, then its own.
[[nodiscard]] inline std::vector<IndexOption> options(std::vector<IndexOption> own = {}) {
  own.insert(own.begin(), {.name = "offsets",
                           .description = "1: 8-byte offsets on media, 0: 16-byte object ids",
                           .fallback = 0,
                           .least = 0,
                           .most = 1});
  return own;
}

/// How many records are expected: `what` follows from it.
[[nodiscard]] inline IndexOption records_option(const char* what) {
  return {.name = "records",
          .description = std::string("expected: ") + what,
          .fallback = 16384,
          .least = 16,
          .most = 1ULL << 32};
}

}  // namespace perdure::structure
