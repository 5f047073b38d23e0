#include "crash_operations.h"

#include <algorithm>
#include <ctime>

#include "pm/pm.h"

namespace perdure::bench {

double cpu_seconds() noexcept {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

SmallTree make_small_tree(const IndexInfo& info, std::span<std::byte> memory) {
  pm::configure(pm::Durability::adr);
  pm::configure_transactions(pm::TransactionUse::off);
  SmallTree tree;
  tree.pool = std::move(Pool::create_in(memory)).value();
  IndexPlace place;
  place.pool = tree.pool.get();
  for (const IndexOption& option : info.options) {
    const bool workers = option.name == "workers";  // they are no threads of the trace
    place.options.set(option.name,
                      std::clamp<std::uint64_t>(workers ? 0 : 4, option.least, option.most));
  }
  place.huge_pages = false;
  tree.index = std::move(create_index<IntegerKeys>(info, place)).value();
  return tree;
}

std::uint64_t run_operations(IntegerIndex& index, Rng& rng, std::uint64_t operations) {
  std::uint64_t done = 0;
  for (std::uint64_t i = 0; i < operations; ++i) {
    const std::uint64_t key = mix64(rng.below(crash_keys));
    std::uint64_t value = i;
    Outcome outcome = Outcome::ok;
    switch (rng.below(4)) {
      case 0:
        outcome = index.insert(key, value);
        break;
      case 1:
        outcome = index.update(key, value);
        break;
      case 2:
        outcome = index.remove(key);
        break;
      default:
        outcome = index.lookup(key, value);
    }
    done += outcome == Outcome::ok;
    if (i % 64 == 0) index.quiesce();
  }
  return done;
}

}  // namespace perdure::bench
