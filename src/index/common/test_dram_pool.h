// The smallest pool there is, in DRAM: what a record store needs in a test.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "pool/pool.h"

namespace perdure {

[[nodiscard]] inline std::unique_ptr<Pool> dram_pool() {
  PoolOptions options;
  options.heap = HeapKind::dram;
  options.bytes = Pool::min_pool_bytes;
  options.huge_pages = false;
  options.prefault = false;
  auto pool = Pool::create(options);
  EXPECT_TRUE(pool.ok()) << pool.error().line();
  return std::move(pool).value();
}

}  // namespace perdure
