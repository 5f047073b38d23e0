// A ring in which a push takes a number, and a pop waits for the push that has its number: sound,
// and blocking.
//
//   slot    | seq | producer | number | payload ...        seq: of the push that filled it, or 0
//   mark    | seq |                                        by thread, a line each
//   last    | number |                                     by producer
//
// R1  a slot with a seq is whole and durable up to that number.
// R2  what is popped, or was overtaken by what is popped, has a seq up to the largest mark. A slot
//     is free again only when its payload is.
// R3  a producer's last push has the largest number of `last` and of its slots.
// R4  between the largest mark and the largest seq there are holes: numbers that were taken by
//     pushes that were cut off. In DRAM the numbers begin anew without them: seq = base + number.
#include <algorithm>
#include <bit>
#include <vector>

#include "crash/toys/queue_toy.h"

namespace perdure::crash {
namespace {

class SlotRing final : public QueueToy {
 public:
  struct alignas(64) Slot {
    Word seq;
    Word producer;
    Word number;
    Payload payload;
  };
  struct alignas(64) Mark {
    Word seq;
  };
  struct Root {
    std::array<Slot, slots> slot;
    std::array<Mark, most_threads> mark;
    alignas(64) std::array<Word, most_threads> last;
  };

  SlotRing(Pool& pool, Root& root, QueueDefect defect, bool repaired)
      : QueueToy(pool, defect, repaired), root_(root) {}

  // Writes nothing.
  void recover() {
    std::uint64_t newest = 0;
    for (const Mark& mark : root_.mark) newest = std::max(newest, mark.seq.load(relaxed));
    const std::uint64_t popped = newest;
    std::vector<std::uint64_t> live;  // the oldest first
    for (std::uint64_t i = 0; i < slots; ++i)
      if (seq_of(i) > popped) live.push_back(i);
    std::ranges::sort(live, {}, [&](std::uint64_t place) { return seq_of(place); });
    std::uint64_t count = live.size();
    for (std::uint64_t i = 0; has(QueueDefect::holes) && i < count; ++i)  // R4
      if (seq_of(live[i]) != popped + 1 + i) count = i;
    if (count > 0) newest = seq_of(live[count - 1]);
    base_ = newest - count;
    std::uint64_t free = (std::uint64_t{1} << slots) - 1;
    for (std::uint64_t i = 0; i < count; ++i) {
      free &= ~bit(live[i]);
      cell_[(i + 1) % slots].store((i + 1) * slots + live[i], relaxed);
    }
    free_.store(free, relaxed);
    tail_.store(count + 1, relaxed);
  }

  using QueueToy::push;
  Outcome push(std::string_view payload, PushTag tag) override {
    const Copy copy(payload);
    std::uint64_t free = free_.load();
    do {
      if (free == 0) return Outcome::out_of_space;
    } while (!free_.compare_exchange_strong(free, free & (free - 1)));
    const auto place = static_cast<std::uint64_t>(std::countr_zero(free));
    Slot& slot = root_.slot[place];
    keep_last(slot);
    slot.seq.store(0, std::memory_order_release);
    slot.producer.store(tag.producer % most_threads, relaxed);
    slot.number.store(tag.number, relaxed);
    copy.store_to(slot.payload);
    pm::persist(&slot, sizeof slot);
    const std::uint64_t number = tail_.fetch_add(1);
    pm::store_persist(slot.seq, base_ + number);  // R1
    cell_[number % slots].store(number * slots + place);
    return Outcome::ok;
  }

  Outcome pop(std::string& payload) override {
    Word& mark = root_.mark[pm::thread_slot() % most_threads].seq;
    for (;;) {
      std::uint64_t number = head_.load();
      if (number == tail_.load()) {
        // What others have popped they may not have marked.
        pm::store_persist(mark, base_ + number - 1);
        return Outcome::not_found;
      }
      const std::uint64_t cell = cell_[number % slots].load();
      if (cell / slots != number) {
        pm::pause();
      } else if (head_.compare_exchange_strong(number, number + 1)) {
        const Slot& slot = root_.slot[cell % slots];
        const Copy copy(slot.payload);
        pm::store_persist(mark, slot.seq.load(relaxed));
        copy.give_to(payload);
        free_.fetch_or(bit(cell % slots));  // R2
        return Outcome::ok;
      }
    }
  }

  [[nodiscard]] std::uint64_t last_push(std::uint32_t producer) const override {
    std::uint64_t last = root_.last[producer % most_threads].load(relaxed);
    for (const Slot& slot : root_.slot)
      if (slot.seq.load(relaxed) != 0 && slot.producer.load(relaxed) == producer)
        last = std::max(last, slot.number.load(relaxed));
    return last;
  }
  [[nodiscard]] std::uint64_t size() const override {
    return tail_.load(relaxed) - head_.load(relaxed);
  }

 private:
  [[nodiscard]] std::uint64_t seq_of(std::uint64_t place) const {
    return root_.slot[place].seq.load(relaxed);
  }

  /// R3: before the slot is overwritten.
  void keep_last(const Slot& slot) {
    if (slot.seq.load(relaxed) == 0) return;
    Word& last = root_.last[slot.producer.load(relaxed) % most_threads];
    const std::uint64_t number = slot.number.load(relaxed);
    std::uint64_t known = last.load();
    while (known < number && !last.compare_exchange_weak(known, number)) {
    }
    pm::persist(&last, sizeof last);
  }

  Root& root_;
  std::uint64_t base_ = 0;
  Word head_{1};                    ///< number of the next pop
  Word tail_{1};                    ///< number of the next push
  Word free_{0};                    ///< slots, a bit each
  std::array<Word, slots> cell_{};  ///< by number: number * slots + slot, of the last push there
};

}  // namespace

std::vector<MediaStruct> slot_ring_media(const IndexOptions&) {
  using Slot = SlotRing::Slot;
  constexpr auto slots = static_cast<std::uint32_t>(SlotRing::slots);
  constexpr auto slot = static_cast<std::uint32_t>(sizeof(Slot));
  constexpr auto marks = static_cast<std::uint32_t>(offsetof(SlotRing::Root, mark));
  constexpr auto last = static_cast<std::uint32_t>(offsetof(SlotRing::Root, last));
  return {{"ring",
           sizeof(SlotRing::Root),
           {{"slot[].seq", 0, 8, slots, slot},
            {"slot[].producer", offsetof(Slot, producer), 8, slots, slot},
            {"slot[].number", offsetof(Slot, number), 8, slots, slot},
            {"slot[].payload", offsetof(Slot, payload), 8, slots, slot},
            {"mark[]", marks, 8, SlotRing::most_threads, 64},
            {"last[]", last, 8, SlotRing::most_threads}}}};
}

MadeQueue open_slot_ring(const QueueOpening& opening) {
  return open_queue<SlotRing, SlotRing::Root>(opening);
}

}  // namespace perdure::crash
