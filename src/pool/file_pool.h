// FilePool: a pool in a file, a device or anonymous memory, with a slab heap behind its header.
#pragma once

#include <memory>
#include <span>

#include "pool/file.h"
#include "pool/header_pool.h"
#include "pool/mapping.h"

namespace perdure {

class FilePool final : public HeaderPool {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Pool>> create(const PoolOptions& options);
  [[nodiscard]] static Result<std::unique_ptr<Pool>> create_in_memory(const PoolOptions& options);
  [[nodiscard]] static Result<std::unique_ptr<Pool>> create_in(std::span<std::byte> memory);
  [[nodiscard]] static Result<std::unique_ptr<Pool>> open_in(std::span<std::byte> memory);
  /// `file` is open but not locked.
  [[nodiscard]] static Result<std::unique_ptr<Pool>> open(const PoolOptions& options, File file);

  ~FilePool() override;
  Result<void> close() override;

 private:
  FilePool() = default;
  Result<void> map(const PoolOptions& options, const File& file, std::uint64_t bytes);
  [[nodiscard]] static std::unique_ptr<FilePool> over(std::span<std::byte> memory);
  void attach_heap();

  Mapping mapping_;
  File file_;  ///< carries the lock (P3)
};

/// Reads the first page of a file or device. Errors: foreign, truncated, io.
[[nodiscard]] Result<void> read_first_page(const File& file, const std::string& path,
                                           std::byte* page);

}  // namespace perdure
