// EnginePool: a pool with the engine of documents in it, for the commands that serve, check and
// export it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/result.h"
#include "engine/document/engine.h"
#include "pm/pm.h"
#include "pool/pool.h"

namespace perdure::cli {

struct EnginePoolOptions {
  std::string path;
  std::uint64_t create_bytes = 0;  ///< makes a pool of this size where there is none; 0: an error
  std::string index;               ///< at creation; empty: the store's default
  unsigned threads = 1;            ///< that recovery may use
  pm::Durability durability = pm::Durability::adr;
};

class EnginePool {
 public:
  /// Opens and recovers it, or makes it. A pool that cannot be made whole is removed again.
  /// Errors: as of Pool and Engine, with the remedies of these commands.
  [[nodiscard]] static Result<std::unique_ptr<EnginePool>> open(const EnginePoolOptions& options);
  ~EnginePool();
  EnginePool(const EnginePool&) = delete;
  EnginePool& operator=(const EnginePool&) = delete;

  [[nodiscard]] engine::Engine& engine() noexcept { return *engine_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return pool_->bytes(); }
  /// Settles the engine and closes the pool as clean; no operation may run. Errors: io.
  Result<void> close();

 private:
  explicit EnginePool(std::unique_ptr<Pool> pool) : pool_(std::move(pool)) {}
  Result<void> open_engine(const EnginePoolOptions& options, bool is_new);

  std::unique_ptr<Pool> pool_;
  std::unique_ptr<engine::Engine> engine_;
};

}  // namespace perdure::cli
