// SlotStore: the slots of a bounded queue (slot_layout.h), in a pool or, for a queue that keeps
// nothing, in DRAM. It knows where each is; who may touch which, and when, is the queue's business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "index/media_layout.h"
#include "lockfree/base/queue_registry.h"
#include "lockfree/slots/slot_layout.h"
#include "pool/pool.h"

namespace perdure::lockfree {

/// What is on media, as recovery finds it.
struct FoundSlots {
  struct Live {
    std::uint64_t seq;
    std::uint32_t slot;
  };
  std::vector<Live> live;             ///< by seq
  std::vector<std::uint32_t> dead;    ///< the other slots
  std::uint64_t last_popped = 0;      ///< the largest mark
  std::uint64_t last_seq = 0;         ///< the largest of headers and marks
  std::vector<std::uint64_t> pushed;  ///< by producer: number of its newest push
};

/// Which queue the slots belong to, and the option, besides its slots, that its layout depends on.
struct SlotOwner {
  std::string_view queue;
  std::string_view option = "variant";
  std::uint64_t value = 0;
  std::uint64_t spare = 0;  ///< slots beyond those of the option `slots`
};

class SlotStore {
 public:
  /// Payloads from this size on are streamed; shorter ones would fill no media block.
  static constexpr std::size_t least_streamed_bytes = pm::media_block_bytes;

  /// Makes empty slots and a root that leads to them: durable when it returns. Nothing is left
  /// behind on error. Errors: exists, out_of_space, usage, unsupported.
  [[nodiscard]] static Result<SlotStore> create(const QueuePlace& place, const SlotOwner& owner,
                                                const SlotShape& shape);
  /// Finds the slots again, marks their blocks for the heap and tells the pool. Writes nothing but
  /// what logs undo. Errors: not_found, foreign, newer, corrupt, out_of_space, unsupported.
  [[nodiscard]] static Result<SlotStore> recover(const QueuePlace& place, const SlotOwner& owner,
                                                 const SlotShape& shape);
  /// Without marks.
  [[nodiscard]] static SlotStore in_dram(const SlotShape& shape, bool huge_pages);

  [[nodiscard]] const SlotShape& shape() const noexcept { return shape_; }
  [[nodiscard]] SlotHeader& header(std::uint64_t slot) const noexcept {
    return headers_[slot / SlotShape::headers_per_chunk][slot % SlotShape::headers_per_chunk];
  }
  /// Where the payload of a slot is, or goes, by its length.
  [[nodiscard]] std::byte* payload(std::uint64_t slot, std::size_t bytes) const noexcept {
    if (bytes <= inline_bytes) return header(slot).short_payload.data();
    return payloads_[slot >> chunk_shift_] + (slot & (payloads_per_chunk_ - 1)) * stride_;
  }
  [[nodiscard]] Mark& mark(std::uint64_t thread) const noexcept { return marks_[thread]; }
  [[nodiscard]] UndoLog& log(std::uint64_t thread) const noexcept { return logs_[thread]; }
  [[nodiscard]] Pool& pool() const noexcept { return *pool_; }

  /// Reads every header and mark. Errors: corrupt, naming the invariant.
  [[nodiscard]] Result<FoundSlots> look() const;
  /// Over what `look` finds, in order: lengths, short payloads and newest pushes. Payloads that lie
  /// outside headers are left out, because a recovery does not read them. 0: what is there is
  /// damaged.
  [[nodiscard]] std::uint64_t content_sum() const;
  /// Compares with what the last clean close has kept, if it has. Errors: corrupt.
  [[nodiscard]] Result<void> check_content(const QueuePlace& place, const FoundSlots& found) const;
  /// Exactly its blocks are live, if it has the pool to itself. Errors: corrupt.
  [[nodiscard]] Result<void> check_blocks() const;
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept;

 private:
  struct FreeMemory {
    std::size_t alignment;
    void operator()(std::byte* memory) const noexcept;
  };

  explicit SlotStore(const SlotShape& shape);
  /// Where chunk `number` of the directory is.
  void place_chunk(std::uint64_t number, std::byte* at) noexcept;
  [[nodiscard]] Result<void> take_back(const QueuePlace& place, std::uint64_t directory);
  void undo() const noexcept;
  [[nodiscard]] std::uint64_t sum_of(const FoundSlots& found) const noexcept;
  [[nodiscard]] Error corrupt(const std::string& what) const;

  SlotShape shape_;
  std::uint64_t stride_;
  std::uint64_t payloads_per_chunk_;
  unsigned chunk_shift_;
  Pool* pool_ = nullptr;
  Mark* marks_ = nullptr;
  UndoLog* logs_ = nullptr;
  std::vector<SlotHeader*> headers_;
  std::vector<std::byte*> payloads_;
  std::unique_ptr<std::byte, FreeMemory> memory_;  ///< all of it, if it is in DRAM
};

/// What the checksum of a directory with these offsets must be.
[[nodiscard]] std::uint64_t checksum_of(const Directory& directory,
                                        const std::uint64_t* offsets) noexcept;

/// How a payload reaches memory. What is not cached is durable after a fence, and takes one in any
/// mode.
enum class PayloadPath : std::uint8_t {
  cached,        ///< plain stores, flushed where flushes are needed
  written_back,  ///< plain stores, and a write-back of each line also where none is needed
  streamed,      ///< past the caches
};

/// The option `payload`: the path of each payload, by its length.
class PayloadPaths {
 public:
  explicit PayloadPaths(const IndexOptions& options);
  [[nodiscard]] PayloadPath of(std::size_t bytes) const noexcept {
    if (bytes <= inline_bytes) return PayloadPath::cached;
    return bytes < SlotStore::least_streamed_bytes ? of_short_ : of_long_;
  }

 private:
  PayloadPath of_short_;  ///< of less than a media block
  PayloadPath of_long_;
};

/// Copies a payload to its place.
void write_payload(std::byte* to, std::string_view payload, PayloadPath path) noexcept;

/// The options of every bounded queue.
[[nodiscard]] std::vector<IndexOption> slot_options();
/// Of one in a pool, with `payload`.
[[nodiscard]] std::vector<IndexOption> persistent_slot_options();
[[nodiscard]] SlotShape shape_of(const IndexOptions& options, bool has_logs);

/// For counterexamples.
[[nodiscard]] std::vector<MediaStruct> media_of_slots(const SlotShape& shape);

}  // namespace perdure::lockfree
