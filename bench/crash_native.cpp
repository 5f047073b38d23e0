// The native half of crash_speed: prints nanoseconds per operation of one index, nothing else.
// Usage: crash_native INDEX OPERATIONS
#include <cstdio>
#include <cstdlib>

#include "crash_operations.h"

int main(int argc, char** argv) {
  using namespace perdure;
  const auto info =
      argc == 3 ? IndexRegistry::find(argv[1])
                : Result<const IndexInfo*>(
                      Error{ErrorCode::usage, "takes an index and a number of operations", "", ""});
  if (!info) {
    std::fprintf(stderr, "crash_native: %s\n", info.error().line().c_str());
    return 2;
  }
  const std::uint64_t operations = std::strtoull(argv[2], nullptr, 10);
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(4096, std::size_t{4} << 20));
  bench::SmallTree tree = bench::make_small_tree(**info, {memory, std::size_t{4} << 20});
  Rng rng(1, 1);
  bench::run_operations(*tree.index, rng, operations);
  const double from = bench::cpu_seconds();
  const std::uint64_t done = bench::run_operations(*tree.index, rng, operations);
  const double took = bench::cpu_seconds() - from;
  if (done == 0) return 1;
  std::printf("%.1f\n", 1e9 * took / static_cast<double>(operations));
  return 0;
}
