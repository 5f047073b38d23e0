// A lock-free queue that is copied as a whole: an operation writes the queue as it shall be into a
// block of its own thread, makes it durable, and swings the root to it.
//
//   root      | version << 8 | number of the snapshot | dirty |
//   snapshot  | count | last push by producer | payloads, the oldest first |    two for each thread
//
// S1  the snapshot that the root names is durable before the root names it.
// S2  a root that is not dirty is durable. Nobody answers from a dirty one, or swings it on.
// S3  a snapshot changes only while neither the durable root nor the visible one names it: of its
//     two a thread takes the one that the clean root does not name.
// S4  a copy is whole if the root's version is the same before and after it.
#include <algorithm>

#include "crash/toys/queue_toy.h"

namespace perdure::crash {
namespace {

class SnapshotQueue final : public QueueToy {
 public:
  struct alignas(64) Snapshot {
    Word count;
    std::array<Word, most_threads> last;
    std::array<Payload, slots> payload;
  };
  struct Root {
    Word word;
    std::array<Snapshot, 2 * most_threads> snapshot;
  };

  SnapshotQueue(Pool& pool, Root& root, QueueDefect defect, bool repaired)
      : QueueToy(pool, defect, repaired), root_(root) {}

  // A dirty root was durable, or it would not have been read.
  void recover() {
    const std::uint64_t word = root_.word.load(relaxed);
    if ((word & dirty) != 0) pm::store_persist(root_.word, word & ~dirty);
  }

  using QueueToy::push;
  Outcome push(std::string_view payload, PushTag tag) override {
    const Copy copy(payload);
    return change(false, [&](Queue& queue) {
      if (queue.count == slots) return Outcome::out_of_space;
      queue.payloads[queue.count++] = copy;
      queue.last[tag.producer % most_threads] = tag.number;
      return Outcome::ok;
    });
  }
  Outcome pop(std::string& payload) override {
    Copy oldest("");
    const Outcome outcome = change(has(QueueDefect::empty_not_durable), [&](Queue& queue) {
      if (queue.count == 0) return Outcome::not_found;
      oldest = queue.payloads[0];
      --queue.count;
      for (std::uint64_t i = 0; i < queue.count; ++i) queue.payloads[i] = queue.payloads[i + 1];
      // The defect: of what is popped nothing is known.
      if (has(QueueDefect::last_push_forgotten) && queue.count == 0) queue.last = {};
      return Outcome::ok;
    });
    if (outcome == Outcome::ok) oldest.give_to(payload);
    return outcome;
  }
  [[nodiscard]] std::uint64_t last_push(std::uint32_t producer) const override {
    return of(root_.word.load(relaxed)).last[producer % most_threads].load(relaxed);
  }
  [[nodiscard]] std::uint64_t size() const override {
    return of(root_.word.load(relaxed)).count.load(relaxed);
  }

 private:
  static constexpr std::uint64_t dirty = 1;
  static constexpr std::uint64_t version_step = 256;

  /// A snapshot in DRAM.
  struct Queue {
    std::uint64_t count = 0;
    std::array<std::uint64_t, most_threads> last{};
    std::array<Copy, slots> payloads{Copy{""}, Copy{""}, Copy{""}, Copy{""}};
  };

  [[nodiscard]] static std::uint64_t number_in(std::uint64_t word) { return (word & 0xff) >> 1; }
  [[nodiscard]] Snapshot& of(std::uint64_t word) const { return root_.snapshot[number_in(word)]; }

  static void read(const Snapshot& from, Queue& to) {
    to.count = std::min(from.count.load(relaxed), slots);  // S4: it may change meanwhile
    for (unsigned i = 0; i < most_threads; ++i) to.last[i] = from.last[i].load(relaxed);
    for (std::uint64_t i = 0; i < to.count; ++i) to.payloads[i] = Copy(from.payload[i]);
  }
  void write(const Queue& from, Snapshot& to) const {
    to.count.store(from.count, relaxed);
    for (unsigned i = 0; i < most_threads; ++i) to.last[i].store(from.last[i], relaxed);
    for (std::uint64_t i = 0; i < from.count; ++i) from.payloads[i].store_to(to.payload[i]);
  }
  void persist(const Snapshot& snapshot) const {
    constexpr std::size_t line = 64;
    pm::persist(&snapshot, has(QueueDefect::payload_unflushed) ? 2 * line : sizeof snapshot);
  }

  /// S2
  void clean(std::uint64_t word) {
    pm::persist(&root_.word, sizeof(Word));
    root_.word.compare_exchange_strong(word, word & ~dirty);
  }

  /// `careless`: what changes nothing is answered from a dirty root, too.
  template <class Work>
  Outcome change(bool careless, Work&& work) {
    const std::size_t thread = pm::thread_slot() % most_threads;
    while (has(QueueDefect::blocking_wait) && busy_.exchange(1) != 0) pm::pause();
    for (;;) {
      std::uint64_t word = root_.word.load();
      Queue queue;
      read(of(word), queue);
      if (root_.word.load() != word) continue;  // S4
      const Outcome outcome = work(queue);
      const bool answers = outcome != Outcome::ok;
      if ((word & dirty) != 0 && !(answers && careless)) {
        clean(word);
        continue;
      }
      if (answers || swing(word, queue, thread)) {
        if (has(QueueDefect::blocking_wait)) busy_.store(0);
        return outcome;
      }
    }
  }

  /// False: the root was swung by another thread.
  bool swing(std::uint64_t word, const Queue& queue, std::size_t thread) {
    const std::uint64_t mine = 2 * thread + (number_in(word) == 2 * thread ? 1 : 0);  // S3
    write(queue, root_.snapshot[mine]);
    const bool early = has(QueueDefect::early_push);
    if (!early) persist(root_.snapshot[mine]);  // S1
    const std::uint64_t next = (word & ~(version_step - 1)) + version_step + (mine << 1 | dirty);
    if (!root_.word.compare_exchange_strong(word, next)) return false;
    if (early) persist(root_.snapshot[mine]);
    clean(next);
    return true;
  }

  Root& root_;
  Word busy_{0};
};

}  // namespace

std::vector<MediaStruct> snapshot_queue_media(const IndexOptions&) {
  return {{"queue", sizeof(SnapshotQueue::Root), {{"root", 0, 8}}}};
}

MadeQueue open_snapshot_queue(const QueueOpening& opening) {
  return open_queue<SnapshotQueue, SnapshotQueue::Root>(opening);
}

}  // namespace perdure::crash
