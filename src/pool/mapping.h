// Mapping: pool memory in our address space, on huge pages where the system gives them.
//
// DAX files and devices are mapped through libpmem2, everything else by mmap; flushing is ours
// (`pm::`).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "core/result.h"
#include "pool/options.h"

struct pmem2_map;
struct pmem2_vm_reservation;

namespace perdure {

inline constexpr std::uint64_t huge_page_size = std::uint64_t{2} << 20;

class Mapping {
 public:
  Mapping() = default;
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;

  /// Maps [0, bytes) of an open file or device. `address` 0: anywhere, aligned to a huge page.
  /// Errors: io, with the system's reason.
  [[nodiscard]] static Result<Mapping> of_file(int file, std::uint64_t bytes, std::uint64_t address,
                                               const std::string& path);
  /// Anonymous memory, zeroed. Errors: out_of_space.
  [[nodiscard]] static Result<Mapping> anonymous(std::uint64_t bytes, std::uint64_t address);

  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  Mapping(void* base, std::uint64_t bytes) noexcept
      : base_(static_cast<std::byte*>(base)), bytes_(bytes) {}
  static Result<Mapping> of_dax_file(int file, std::uint64_t bytes, std::uint64_t address,
                                     const std::string& path);
  static Result<Mapping> of_cached_file(int file, std::uint64_t bytes, std::uint64_t address,
                                        const std::string& path);

  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
  pmem2_map* map_ = nullptr;                     ///< only DAX
  pmem2_vm_reservation* reservation_ = nullptr;  ///< only for a given address
};

/// A range of addresses that nobody else is given meanwhile, for mappings at fixed distances.
class AddressRange {
 public:
  AddressRange() = default;
  ~AddressRange();
  AddressRange(AddressRange&& other) noexcept;
  AddressRange& operator=(AddressRange&& other) noexcept;

  /// `address` 0: anywhere, aligned to a huge page. Errors: out_of_space.
  [[nodiscard]] static Result<AddressRange> reserve(std::uint64_t bytes, std::uint64_t address,
                                                    const std::string& path);
  [[nodiscard]] std::uint64_t address() const noexcept { return address_; }
  /// Gives up the addresses below `end`, for a mapping that follows at once.
  void release_to(std::uint64_t end) noexcept;

 private:
  std::uint64_t address_ = 0;
  std::uint64_t held_ = 0;  ///< [held_, end_) is still held
  std::uint64_t end_ = 0;
};

/// While one lives, this thread and those it starts get their new pages from a NUMA node, as long
/// as it has any.
class PreferredNode {
 public:
  explicit PreferredNode(std::optional<unsigned> node) noexcept;
  ~PreferredNode();
  PreferredNode(const PreferredNode&) = delete;
  PreferredNode& operator=(const PreferredNode&) = delete;

 private:
  static constexpr unsigned word_bits = 64;
  static constexpr unsigned words = 16;
  static constexpr unsigned bits = words * word_bits;  ///< no kernel has more nodes

  bool set_ = false;
  int mode_ = 0;  ///< what it was before
  std::array<unsigned long, words> mask_{};
};

/// Asks for huge pages under [base, base + bytes), before or after it is touched. On tmpfs this
/// fills the range, because only present pages can be collapsed. Never fails: `huge_page_bytes`
/// reports the result.
void request_huge_pages(std::byte* base, std::uint64_t bytes, Medium medium);

/// Touches every page for writing, with several threads. Content is kept. The file's blocks must be
/// allocated, or a full file system would kill the process.
void prefault(std::byte* base, std::uint64_t bytes);

/// Bytes of [base, base + bytes) that /proc/self/smaps says are backed by huge pages.
[[nodiscard]] std::uint64_t huge_page_bytes(const std::byte* base, std::uint64_t bytes);

/// What an open file lives on.
[[nodiscard]] Medium medium_of(int file);

/// Makes a range of an ordinary file's mapping durable, where cache flushes reach only the page
/// cache; nothing on other media.
void sync_page_cache(const std::byte* base, std::uint64_t bytes, Medium medium);

}  // namespace perdure
