// PmdkPool: a libpmemobj pool whose root object is our header; its heap is libpmemobj's.
#pragma once

#include <libpmemobj/base.h>

#include <memory>

#include "pool/file.h"
#include "pool/header_pool.h"

namespace perdure {

class PmdkPool final : public HeaderPool {
 public:
  [[nodiscard]] static bool is_signature(const std::byte* page) noexcept;
  /// True when the file is a libpmemobj pool that we made, even if one of the three places that say
  /// so is damaged: libpmemobj's signature, the name of our layout, the magic of our header.
  [[nodiscard]] static bool is_ours(const File& file) noexcept;
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
