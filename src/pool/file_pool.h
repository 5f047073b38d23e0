// FilePool: a pool in files, devices or anonymous memory, with a slab heap after each header.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "pool/file.h"
#include "pool/header_pool.h"
#include "pool/leftovers.h"
#include "pool/mapping.h"

namespace perdure {

class FilePool final : public HeaderPool {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Pool>> create(const PoolOptions& options);
  [[nodiscard]] static Result<std::unique_ptr<Pool>> create_in_memory(const PoolOptions& options);
  [[nodiscard]] static Result<std::unique_ptr<Pool>> create_in(std::span<std::byte> memory,
                                                               unsigned parts);
  [[nodiscard]] static Result<std::unique_ptr<Pool>> open_in(std::span<std::byte> memory);
  /// `file`, the first part's, is open but not locked.
  [[nodiscard]] static Result<std::unique_ptr<Pool>> open(const PoolOptions& options, File file);

  ~FilePool() override;
  Result<void> close() override;

 private:
  FilePool() = default;
  class Site;
  /// Maps each part by `map_part(number, address)`, and says that they are persistent memory.
  template <class MapPart>
  Result<void> map(const PoolOptions& options, const MapPart& map_part);
  [[nodiscard]] std::optional<unsigned> node_of(unsigned part) const noexcept;
  [[nodiscard]] pm::PoolPart place_of(unsigned part, const PoolOptions& options) const noexcept;
  [[nodiscard]] PoolHeader& header_of(unsigned part) const noexcept {
    return *reinterpret_cast<PoolHeader*>(base_ + start_of_part(part));
  }
  void use_huge_pages();
  void prefault_parts();
  [[nodiscard]] Result<void> format();
  [[nodiscard]] static Result<void> withdraw(std::span<Site> sites, const ReplacedParts& old);
  [[nodiscard]] Result<void> publish(std::span<Site> sites, const ReplacedParts& old);
  void finish_parts();
  void attach_heap();
  void note_not_persistent() const noexcept;
  void adopt(std::span<std::byte> memory, std::uint64_t part_bytes, unsigned parts);

  std::vector<unsigned> nodes_;  ///< as of PoolOptions
  std::vector<Mapping> mapping_;
  std::vector<File> file_;  ///< they carry the lock (P3)
};

/// Reads the first page of a file or device. Errors: foreign, truncated, io.
[[nodiscard]] Result<void> read_first_page(const File& file, const std::string& path,
                                           std::byte* page);

}  // namespace perdure
