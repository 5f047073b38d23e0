#include "pool/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "pool/file.h"
#include "pool/test_support.h"

namespace perdure {
namespace {

constexpr std::uint64_t mapping_bytes = 64 * huge_page_size;
constexpr std::uint64_t block_bytes = 4 * huge_page_size;

// Maps memory of its own until told to stop, and keeps it.
std::vector<std::byte*> map_blocks(const std::atomic<bool>& stop) {
  std::vector<std::byte*> blocks;
  while (!stop.load(std::memory_order_relaxed) && blocks.size() < 1000) {
    void* memory = mmap(nullptr, block_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) break;
    blocks.push_back(static_cast<std::byte*>(memory));
    blocks.back()[0] = std::byte{1};
  }
  return blocks;
}

// In the current folder, on whatever a user's disk is: there the kernel has a file mapping replace
// another in two steps when it is asked for MAP_SYNC.
TEST(Mapping, TakesNoMemoryThatAnotherThreadMapsMeanwhile) {
  const TestFolder folder(std::filesystem::current_path());
  const File file(open(folder.file().c_str(), O_RDWR | O_CREAT, 0600));
  ASSERT_EQ(ftruncate(file.get(), mapping_bytes), 0);
  for (int round = 0; round < 200; ++round) {
    std::atomic<bool> stop = false;
    std::vector<std::byte*> blocks;
    std::thread other([&] { blocks = map_blocks(stop); });
    const auto mapping = Mapping::of_file(file.get(), mapping_bytes, 0, folder.file());
    stop = true;
    other.join();
    ASSERT_TRUE(mapping);
    const std::byte* const begin = mapping->base();
    for (std::byte* block : blocks) {
      EXPECT_TRUE(block + block_bytes <= begin || begin + mapping_bytes <= block) << round;
      munmap(block, block_bytes);
    }
  }
}

}  // namespace
}  // namespace perdure
