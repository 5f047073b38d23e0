#include "support/suite_main.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "pm/pm.h"
#include "support/kill.h"

namespace perdure::testing {

int suite_main(int argc, char** argv, void (*prepare)()) {
  // libpmemobj believes that tmpfs is no persistent memory and would msync every range.
  setenv("PMEM_IS_PMEM_FORCE", "1", 0);
  pm::configure(pm::Durability::adr);
  if (prepare != nullptr) prepare();
  run_kill_worker(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

}  // namespace perdure::testing
