#include "crash/image.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>

#include "core/assert.h"

namespace perdure::crash {

Memory::Memory(std::size_t bytes, bool as_file) : bytes_(bytes) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
  if (as_file) {
    flags = MAP_SHARED | MAP_POPULATE;
    file_ = memfd_create("perdure-crash", MFD_CLOEXEC);
    if (file_ < 0 || ftruncate(file_, static_cast<off_t>(bytes)) != 0)
      throw std::system_error(errno, std::generic_category(), "no memory for crash states");
  }
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file_, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  base_ = static_cast<std::byte*>(memory);
}

Memory::~Memory() {
  munmap(base_, bytes_);
  if (file_ >= 0) close(file_);
}

Image::Image(std::size_t bytes, bool as_file)
    : memory_(bytes, as_file), floor_(bytes), stamp_(bytes / line_bytes, 0) {
  PERDURE_ASSERT(bytes % line_bytes == 0);
}

void Image::load(const std::byte* content) {
  PERDURE_ASSERT(marks_.empty());
  std::memcpy(memory_.base(), content, bytes());
  std::memcpy(floor_.base(), content, bytes());
  digest_ = 0;  // relative to this content: enough to tell the states of one run apart
}

LineContent Image::read(LineNumber line) const {
  LineContent content;
  const auto* const from =
      reinterpret_cast<const std::uint64_t*>(memory_.base() + std::size_t{line} * line_bytes);
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = from[i];
  return content;
}

void Image::write(LineNumber line, const LineContent& content) {
  auto* const to =
      reinterpret_cast<std::uint64_t*>(memory_.base() + std::size_t{line} * line_bytes);
  if (!marks_.empty()) {
    save(line);
  } else {
    digest_ ^= digest(line, read(line)) ^ digest(line, content);
    auto* const floor =
        reinterpret_cast<std::uint64_t*>(floor_.base() + std::size_t{line} * line_bytes);
    for (std::size_t i = 0; i < content.size(); ++i) floor[i] = content[i];
  }
  for (std::size_t i = 0; i < content.size(); ++i) to[i] = content[i];
}

void Image::mark() { marks_.push_back({saved_.size(), ++epoch_}); }

void Image::undo() {
  PERDURE_ASSERT(!marks_.empty());
  while (saved_.size() > marks_.back().first) {
    const Saved& saved = saved_.back();
    auto* const to =
        reinterpret_cast<std::uint64_t*>(memory_.base() + std::size_t{saved.line} * line_bytes);
    for (std::size_t i = 0; i < saved.content.size(); ++i) to[i] = saved.content[i];
    stamp_[saved.line] = saved.epoch;
    saved_.pop_back();
  }
  marks_.pop_back();
}

void Image::touch(std::uint64_t at, std::size_t bytes) {
  if (marks_.empty() || bytes == 0 || at >= this->bytes()) return;
  const std::uint64_t last = std::min<std::uint64_t>(at + bytes, this->bytes()) - 1;
  for (std::uint64_t line = at / line_bytes; line <= last / line_bytes; ++line)
    save(static_cast<LineNumber>(line));
}

void Image::take(const std::byte* copy) {
  PERDURE_ASSERT(!marks_.empty());
  if (copy == base()) return;
  constexpr std::size_t page_bytes = 4096;
  for (std::size_t page = 0; page < bytes(); page += page_bytes) {
    const std::size_t end = std::min(page + page_bytes, bytes());
    if (std::memcmp(base() + page, copy + page, end - page) == 0) continue;
    for (std::size_t at = page; at < end; at += line_bytes) {
      LineContent content;
      std::memcpy(content.data(), copy + at, line_bytes);
      if (std::memcmp(base() + at, copy + at, line_bytes) != 0)
        write(static_cast<LineNumber>(at / line_bytes), content);
    }
  }
}

void Image::save(LineNumber line) {
  if (stamp_[line] == marks_.back().epoch) return;
  saved_.push_back({line, stamp_[line], read(line)});
  stamp_[line] = marks_.back().epoch;
}

std::int64_t Image::verify() const {
  PERDURE_ASSERT(marks_.empty());
  if (std::memcmp(memory_.base(), floor_.base(), bytes()) == 0) return -1;
  for (std::size_t i = 0;; ++i)
    if (memory_.base()[i] != floor_.base()[i]) return static_cast<std::int64_t>(i);
}

}  // namespace perdure::crash
