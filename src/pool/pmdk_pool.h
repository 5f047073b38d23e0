// PmdkPool: a libpmemobj pool whose root object is our header; its heap is libpmemobj's.
#pragma once

#include <libpmemobj/base.h>

#include <memory>

#include "pool/file.h"
#include "pool/header_pool.h"

namespace perdure {

class PmdkPool final : public HeaderPool {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Pool>> create(const PoolOptions& options);
  [[nodiscard]] static Result<std::unique_ptr<Pool>> open(const PoolOptions& options, File file);

  ~PmdkPool() override;
  Result<void> close() override;

 private:
  PmdkPool() = default;
  Result<void> adopt(PMEMobjpool* objects, const PoolOptions& options, std::uint64_t bytes);

  PMEMobjpool* objects_ = nullptr;
};

}  // namespace perdure
