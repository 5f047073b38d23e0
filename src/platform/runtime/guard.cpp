#include "platform/runtime/guard.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <new>

#include "platform/runtime/spin_hold.h"
#include "platform/runtime/symbols.h"

namespace perdure::platform::runtime {
namespace {

constexpr std::uintptr_t line_bytes = 64;
constexpr std::uint64_t page_bytes = 4096;

bool is_zero(const std::byte* page, std::uint64_t bytes) noexcept {
  return std::all_of(page, page + bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

thread_local constinit Guard::Awaited Guard::awaited;

void Guard::add(const AddressSpace::Region& region) {
  if (shadow_of(region.base) != nullptr) return;
  void* memory = mmap(nullptr, region.bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  auto* const copy = static_cast<std::byte*>(memory);
  for (std::uint64_t at = 0; at < region.bytes; at += page_bytes) {
    const std::uint64_t bytes = std::min(page_bytes, region.bytes - at);
    if (!is_zero(region.base + at, bytes)) std::copy_n(region.base + at, bytes, copy + at);
  }
  shadows_.push_back({region.base, region.bytes, copy, region.foreign_writes});
}

void Guard::remove(const void* base) {
  settle();
  const auto found = std::ranges::find(shadows_, base, &Shadow::base);
  if (found == shadows_.end()) return;
  at_fence();
  if (!found->foreign_writes) compare(*found, 0, found->bytes);
  munmap(found->copy, found->bytes);
  shadows_.erase(found);
}

Guard::Shadow* Guard::shadow_of(const std::byte* address) noexcept {
  for (Shadow& shadow : shadows_)
    if (address >= shadow.base && address < shadow.base + shadow.bytes) return &shadow;
  return nullptr;
}

void Guard::settle_now() noexcept {
  const Awaited done = awaited;
  awaited = {};
  Shadow* const shadow = shadow_of(done.address);
  if (shadow == nullptr) return;
  const auto offset = static_cast<std::uint64_t>(done.address - shadow->base);
  std::copy_n(done.address, std::min<std::uint64_t>(done.bytes, shadow->bytes - offset),
              shadow->copy + offset);
  const SpinHold hold(busy_);
  last_site_ = done.site;
  const std::byte* const end = done.address + done.bytes;
  auto line = reinterpret_cast<std::uintptr_t>(done.address) & ~(line_bytes - 1);
  for (; line < reinterpret_cast<std::uintptr_t>(end); line += line_bytes) {
    const auto* at = reinterpret_cast<const std::byte*>(line);
    if (stored_lines_.empty() || stored_lines_.back() != at) stored_lines_.push_back(at);
  }
}

void Guard::accept(const void* address, std::size_t bytes) noexcept {
  const auto* const at = static_cast<const std::byte*>(address);
  Shadow* const shadow = shadow_of(at);
  if (shadow == nullptr) return;
  const auto offset = static_cast<std::uint64_t>(at - shadow->base);
  std::copy_n(at, std::min<std::uint64_t>(bytes, shadow->bytes - offset), shadow->copy + offset);
}

void Guard::at_fence() {
  settle();
  const SpinHold hold(busy_);
  for (const std::byte* line : stored_lines_) {
    const Shadow* const shadow = shadow_of(line);
    if (shadow == nullptr) continue;
    const auto offset = static_cast<std::uint64_t>(line - shadow->base);
    compare(*shadow, offset, std::min<std::uint64_t>(line_bytes, shadow->bytes - offset));
  }
  stored_lines_.clear();
}

std::string Guard::check() {
  at_fence();
  for (const Shadow& shadow : shadows_)
    if (!shadow.foreign_writes) compare(shadow, 0, shadow.bytes);
  // Named here and not where it is found: finding a name is hooked code, which must not run while
  // `busy_` is held.
  return failure_.empty() ? std::string() : failure_ + Symbols::get().name_of(failed_site_);
}

void Guard::compare(const Shadow& shadow, std::uint64_t offset, std::uint64_t bytes) {
  if (!failure_.empty()) return;
  const std::byte* const now = shadow.base + offset;
  const std::byte* const seen = shadow.copy + offset;
  if (std::equal(now, now + bytes, seen)) return;
  const auto differs =
      static_cast<std::uint64_t>(std::mismatch(now, now + bytes, seen).first - now);
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(),
                "the byte at %p, pool offset 0x%llx, changed from 0x%02x to 0x%02x without a hook; "
                "the last hooked store was in ",
                static_cast<const void*>(now + differs),
                static_cast<unsigned long long>(offset + differs),
                static_cast<unsigned>(seen[differs]), static_cast<unsigned>(now[differs]));
  failure_ = text.data();
  failed_site_ = last_site_;
}

}  // namespace perdure::platform::runtime
