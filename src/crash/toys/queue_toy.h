// QueueToy: what all queue toys share: slots of one size, a root block, payloads copied word by
// word so that a copy that another thread overtakes is noticed and not undefined.
#pragma once

#include <array>
#include <cstring>

#include "crash/toys/queue_toys.h"
#include "crash/toys/toy.h"

namespace perdure::crash {

class QueueToy : public DurableQueue {
 public:
  static constexpr std::uint64_t slots = 4;
  static constexpr unsigned most_threads = 8;
  static constexpr unsigned payload_words = 10;

  QueueToy(Pool& pool, QueueDefect defect, bool repaired)
      : pool_(pool), defect_(defect), repaired_(repaired) {}

  Outcome push(std::string_view payload) final { return push(payload, PushTag{}); }
  Outcome push(std::string_view payload, PushTag tag) override = 0;
  [[nodiscard]] std::uint64_t capacity() const final { return slots; }
  [[nodiscard]] std::size_t payload_bytes() const final {
    return payload_words * sizeof(std::uint64_t);
  }
  [[nodiscard]] Result<void> check_invariants() const final {
    if (pool_.heap().usage().live_blocks == 1) return {};
    return Error{ErrorCode::corrupt, "the heap holds other blocks than the root", "toy", ""};
  }
  [[nodiscard]] std::uint64_t dram_bytes() const final { return sizeof *this; }

 protected:
  /// A payload on media.
  struct Payload {
    Word bytes;
    std::array<Word, payload_words> words;
  };
  /// One in DRAM.
  struct Copy {
    std::uint64_t bytes = 0;
    std::array<std::uint64_t, payload_words> words{};

    explicit Copy(std::string_view payload) : bytes(payload.size()) {
      std::memcpy(words.data(), payload.data(), payload.size());
    }
    explicit Copy(const Payload& from) : bytes(from.bytes.load(relaxed)) {
      for (unsigned i = 0; i < payload_words; ++i) words[i] = from.words[i].load(relaxed);
    }
    void store_to(Payload& to) const {
      to.bytes.store(bytes, relaxed);
      for (unsigned i = 0; i < payload_words; ++i) to.words[i].store(words[i], relaxed);
    }
    void give_to(std::string& payload) const {
      const std::size_t most = payload_words * sizeof(std::uint64_t);
      payload.assign(reinterpret_cast<const char*>(words.data()),
                     bytes < most ? static_cast<std::size_t>(bytes) : most);
    }
  };

  [[nodiscard]] bool has(QueueDefect defect) const noexcept {
    return defect_ == defect && !repaired_;
  }

 private:
  Pool& pool_;
  QueueDefect defect_;
  bool repaired_;
};

/// How a toy is opened: `create`, or recovered from its root.
struct QueueOpening {
  const QueuePlace& place;
  QueueDefect defect;
  bool repaired;
  bool create;
};

/// `Toy`'s root is a `Root` of words, which begin as 0.
template <class Toy, class Root>
MadeQueue open_queue(const QueueOpening& opening) {
  Pool& pool = *opening.place.pool;
  IndexPlace place;
  place.pool = &pool;
  place.root_name = opening.place.root_name;
  std::uint64_t at = toy_root(place);
  if (!opening.create && at == null_offset) return Error{ErrorCode::not_found, "no toy", "", ""};
  if (opening.create) {
    Reservation block = pool.heap().reserve(sizeof(Root));
    if (!block) return Error{ErrorCode::out_of_space, "no room for a toy", "", ""};
    at = block.offset;
    auto* const words = pool.at<Word>(at);
    for (std::size_t i = 0; i < sizeof(Root) / sizeof(Word); ++i) words[i].store(0, relaxed);
    pm::persist(words, sizeof(Root));
    if (auto done = pool.add_root(place.root_name, block); !done) return done.error();
  } else if (auto done = pool.root_recovered(place.root_name); !done) {
    return done.error();
  }
  auto toy = std::make_unique<Toy>(pool, *pool.at<Root>(at), opening.defect, opening.repaired);
  toy->recover();
  return std::unique_ptr<DurableQueue>(std::move(toy));
}

[[nodiscard]] MadeQueue open_snapshot_queue(const QueueOpening& opening);
[[nodiscard]] MadeQueue open_slot_ring(const QueueOpening& opening);
[[nodiscard]] MadeQueue open_published_ring(const QueueOpening& opening);
[[nodiscard]] std::vector<MediaStruct> snapshot_queue_media(const IndexOptions&);
[[nodiscard]] std::vector<MediaStruct> slot_ring_media(const IndexOptions&);
[[nodiscard]] std::vector<MediaStruct> published_ring_media(const IndexOptions&);

}  // namespace perdure::crash
