#include "pool/header.h"

#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include "core/rng.h"
#include "pm/pm.h"

namespace perdure {
namespace {

// A chain of bijections: any single changed bit changes the result.
std::uint64_t checksum_of(const void* data, std::size_t bytes, std::uint64_t seed) noexcept {
  std::uint64_t sum = seed;
  for (std::size_t done = 0; done < bytes; done += sizeof sum) {
    std::uint64_t word = 0;
    std::memcpy(&word, static_cast<const std::byte*>(data) + done, sizeof word);
    sum = mix64(sum ^ word) + 0x9e3779b97f4a7c15ULL;
  }
  return sum;
}

constexpr std::uint64_t header_seed = 0x706f6f6c;
constexpr std::uint64_t kept_seed = 0x6b657074;
constexpr std::uint64_t root_seed = 0x726f6f74;

template <class Words>
bool all_zero(const Words& words) {
  return std::ranges::all_of(words, [](auto word) { return word == 0; });
}

}  // namespace

Error corrupt_pool(const std::string& path, std::string what) {
  return {ErrorCode::corrupt, std::move(what), path,
          "restore the file from a copy, or create a new pool"};
}

std::string_view PoolHeader::Root::title() const noexcept {
  return {name.data(), strnlen(name.data(), name.size())};
}

std::uint64_t PoolHeader::Root::checksum_with(std::uint64_t commit_word) const noexcept {
  return checksum_of(name.data(), name.size(), root_seed ^ mix64(bytes) ^ mix64(~commit_word));
}

std::uint64_t PoolHeader::Kept::compute_check() const noexcept {
  return checksum_of(this, offsetof(Kept, check), kept_seed) | 1;
}

std::uint64_t PoolHeader::compute_checksum() const noexcept {
  return checksum_of(this, offsetof(PoolHeader, checksum), header_seed);
}

std::string PoolHeader::uuid_text() const {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits[uuid[i] >> 4];
    text += digits[uuid[i] & 15];
  }
  return text;
}

void write_header(PoolHeader& header, HeapKind kind, std::uint64_t pool_bytes,
                  std::uint64_t heap_offset, unsigned parts) {
  std::memset(static_cast<void*>(&header), 0, sizeof header);
  header.magic = pool_magic;
  header.layout_version = pool_layout_version;
  header.header_bytes = pool_header_bytes;
  header.heap_kind = static_cast<std::uint8_t>(kind);
  header.more_parts = static_cast<std::uint8_t>(parts - 1);
  header.pool_bytes = pool_bytes;
  header.heap_offset = heap_offset;
  // By way of a copy: what the kernel writes into the pool, no simulation would see.
  std::array<std::uint8_t, 16> uuid{};
  if (getrandom(uuid.data(), uuid.size(), 0) != static_cast<ssize_t>(uuid.size())) {
    std::random_device source;
    for (std::uint8_t& byte : uuid) byte = static_cast<std::uint8_t>(source());
  }
  std::memcpy(header.uuid.data(), uuid.data(), uuid.size());
  header.uuid[6] = static_cast<std::uint8_t>((header.uuid[6] & 0x0f) | 0x40);  // RFC 4122,
  header.uuid[8] = static_cast<std::uint8_t>((header.uuid[8] & 0x3f) | 0x80);  // version 4
  header.checksum = header.compute_checksum();
  pm::persist(&header, sizeof header);
}

void write_part_header(PoolHeader& header, const PoolHeader& first, unsigned part, bool finished) {
  std::memset(static_cast<void*>(&header), 0, sizeof header);
  std::memcpy(static_cast<void*>(&header), &first, offsetof(PoolHeader, checksum));
  header.part = static_cast<std::uint8_t>(part);
  header.checksum = header.compute_checksum();
  if (!finished) header.clean.store(PoolHeader::unfinished_word, std::memory_order_relaxed);
  pm::persist(&header, sizeof header);
}

void finish_part_header(PoolHeader& header) { pm::store_persist(header.clean, 0); }

Error foreign_error(const std::string& path) {
  return {ErrorCode::foreign, "not a perdure pool", path,
          "check the path; Pool::create makes a pool at another"};
}

Result<void> check_header(const PoolHeader& header, std::uint64_t available_bytes,
                          const std::string& path, std::uint64_t least_bytes) {
  if (header.magic != pool_magic) return foreign_error(path);
  if (header.checksum != header.compute_checksum())
    return corrupt_pool(path, "the pool header's checksum does not match");
  if (header.layout_version > pool_layout_version)
    return Error{ErrorCode::newer,
                 "the pool has layout version " + std::to_string(header.layout_version) +
                     ", this program knows up to " + std::to_string(pool_layout_version),
                 path, "use a newer perdure"};
  if (header.layout_version == 0 || header.header_bytes != pool_header_bytes ||
      header.heap_kind > static_cast<std::uint8_t>(HeapKind::dram) || !all_zero(header.unused) ||
      header.part > header.more_parts || header.more_parts >= PoolLimits::max_parts ||
      header.pool_bytes > PoolHeader::Root::offset_mask || header.pool_bytes % 4096 != 0 ||
      header.pool_bytes < least_bytes || header.heap_offset >= header.pool_bytes)
    return corrupt_pool(path, "the pool header makes no sense");
  if (available_bytes < header.pool_bytes)
    return Error{ErrorCode::truncated,
                 "the pool has " + std::to_string(available_bytes) + " of " +
                     std::to_string(header.pool_bytes) + " bytes",
                 path, "restore the file from a copy, or create a new pool"};
  const std::uint64_t clean = header.clean.load(std::memory_order_relaxed);
  const std::uint64_t other =
      header.part == 0 ? PoolHeader::clean_word : PoolHeader::unfinished_word;
  const bool keeps = header.part == 0 && clean != 0 && !header.kept.is_empty();
  if (keeps && (header.layout_version < 2 || header.kept.check != header.kept.compute_check()))
    return corrupt_pool(path, "the pool header is damaged");
  if ((clean != 0 && clean != other) || !all_zero(header.unused_line) ||
      !all_zero(header.unused_end))
    return corrupt_pool(path, "the pool header is damaged");
  std::set<std::string_view> titles;
  for (const PoolHeader::Root& root : header.root) {
    const std::uint64_t commit = root.commit.load(std::memory_order_relaxed);
    if (commit == 0) continue;
    if (root.checksum != root.checksum_with(commit) || root.unused != 0 ||
        (commit & ~PoolHeader::Root::offset_mask) != PoolHeader::Root::commit_tag ||
        root.title().empty() || root.title().size() == root.name.size() ||
        !titles.insert(root.title()).second)
      return corrupt_pool(path, "the pool's table of roots is damaged");
  }
  return {};
}

Result<void> check_first_part(const PoolHeader& header, unsigned parts, const std::string& path) {
  if (header.part != 0)
    return Error{ErrorCode::foreign, "part " + std::to_string(header.part) + " of a pool", path,
                 "open the pool by its first part"};
  const unsigned made_of = header.more_parts + 1U;
  if (made_of == parts) return {};
  return Error{ErrorCode::foreign,
               "a pool of " + std::to_string(made_of) + (made_of == 1 ? " part" : " parts") +
                   ", and not of " + std::to_string(parts),
               path, "open it with the node_pools it was made with"};
}

Result<void> check_part(const PoolHeader& header, const PoolHeader& first, unsigned part,
                        const std::string& path) {
  if (header.uuid == first.uuid && header.part == part && header.more_parts == first.more_parts &&
      header.pool_bytes == first.pool_bytes && header.heap_kind == first.heap_kind &&
      header.heap_offset == first.heap_offset)
    return {};
  return Error{ErrorCode::foreign, "not part " + std::to_string(part) + " of this pool", path,
               "put the pool's own file there, or create a new pool"};
}

}  // namespace perdure
