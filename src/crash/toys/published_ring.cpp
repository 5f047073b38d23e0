// The persistent ring of pmidio, section 6.3, as published, with two ways to recover.
//
//   root    | head | tail |                    shared; fetch-and-add
//   owner   | push position | pop position | undo: in use, head, tail |   by thread, a line each
//   slot    | payload |
//
// published_ring  A thread takes a number and then stores it as its position: a cut between the two
//                 leaves a number of which nobody knows that its slot was never filled. Positions
//                 are numbers + 1, and 0 for none.
// shared_undo     Each thread logs head and tail before it changes one of them. What the log of a
//                 thread that was cut off restores takes back what others have done since.
//
// A pop that finds the ring empty says so, where the paper's waits for a push.
#include <algorithm>
#include <vector>

#include "crash/toys/queue_toy.h"

namespace perdure::crash {
namespace {

class PublishedRing final : public QueueToy {
 public:
  struct alignas(64) Owner {
    Word push_position;
    Word pop_position;
    Word undoes;
    Word head;
    Word tail;
  };
  struct alignas(64) Slot {
    Payload payload;
  };
  struct Root {
    Word head;
    alignas(64) Word tail;
    std::array<Owner, most_threads> owner;
    std::array<Slot, slots> slot;
  };

  PublishedRing(Pool& pool, Root& root, QueueDefect defect, bool repaired)
      : QueueToy(pool, defect, repaired), root_(root) {}

  void recover() {
    std::vector<std::uint64_t> pushes;
    std::uint64_t head = root_.head.load(relaxed);
    for (Owner& owner : root_.owner) {
      if (owner.undoes.load(relaxed) != 0) {
        root_.head.store(owner.head.load(relaxed), relaxed);
        root_.tail.store(owner.tail.load(relaxed), relaxed);
        pm::persist(&root_, sizeof(Word) + 64);
        pm::store_persist(owner.undoes, 0);
        head = root_.head.load(relaxed);
      }
      if (const std::uint64_t at = owner.push_position.load(relaxed); at != 0)
        pushes.push_back(at - 1);
      if (const std::uint64_t at = owner.pop_position.load(relaxed); at != 0)
        head = std::min(head, at - 1);
    }
    consolidate(head, pushes);
  }

  using QueueToy::push;
  Outcome push(std::string_view payload, PushTag) override {
    const Copy copy(payload);
    Owner& owner = owner_of_thread();
    if (root_.tail.load() - root_.head.load() >= slots) return Outcome::out_of_space;
    begin(owner);
    const std::uint64_t number = root_.tail.fetch_add(1);
    pm::persist(&root_.tail, sizeof(Word));
    take(owner.push_position, number);
    Slot& slot = root_.slot[number % slots];
    copy.store_to(slot.payload);
    pm::persist(&slot, sizeof slot);
    end(owner, owner.push_position);
    return Outcome::ok;
  }

  Outcome pop(std::string& payload) override {
    Owner& owner = owner_of_thread();
    if (root_.head.load() >= first_unfinished()) return Outcome::not_found;
    begin(owner);
    const std::uint64_t number = root_.head.fetch_add(1);
    pm::persist(&root_.head, sizeof(Word));
    take(owner.pop_position, number);
    while (number >= first_unfinished()) pm::pause();
    const Copy copy(root_.slot[number % slots].payload);
    end(owner, owner.pop_position);
    copy.give_to(payload);
    return Outcome::ok;
  }
  [[nodiscard]] std::uint64_t size() const override {
    return root_.tail.load(relaxed) - root_.head.load(relaxed);
  }

 private:
  [[nodiscard]] bool undoes() const noexcept { return has(QueueDefect::shared_undo); }
  [[nodiscard]] Owner& owner_of_thread() const {
    return root_.owner[pm::thread_slot() % most_threads];
  }

  void begin(Owner& owner) {
    if (!undoes()) return;
    owner.head.store(root_.head.load(), relaxed);
    owner.tail.store(root_.tail.load(), relaxed);
    pm::persist(&owner, sizeof owner);
    pm::store_persist(owner.undoes, 1);
  }
  void take(Word& position, std::uint64_t number) {
    position.store(number + 1);
    if (!undoes()) pm::persist(&position, sizeof position);
  }
  void end(Owner& owner, Word& position) {
    if (undoes()) pm::store_persist(owner.undoes, 0);
    position.store(0);
    pm::persist(&position, sizeof position);
  }

  /// The number of the earliest push under way, or the next one's.
  [[nodiscard]] std::uint64_t first_unfinished() const {
    std::uint64_t first = root_.tail.load();
    for (const Owner& owner : root_.owner)
      if (const std::uint64_t at = owner.push_position.load(); at != 0)
        first = std::min(first, at - 1);
    return first;
  }

  /// Closes the holes that pushes under way have left.
  void consolidate(std::uint64_t head, const std::vector<std::uint64_t>& pushes) {
    std::uint64_t to = head;
    const std::uint64_t tail = root_.tail.load(relaxed);
    for (std::uint64_t from = head; from < tail; ++from) {
      if (std::ranges::find(pushes, from) != pushes.end()) continue;
      if (to != from)
        Copy(root_.slot[from % slots].payload).store_to(root_.slot[to % slots].payload);
      ++to;
    }
    root_.head.store(head, relaxed);
    root_.tail.store(to, relaxed);
    for (Owner& owner : root_.owner) {
      owner.push_position.store(0, relaxed);
      owner.pop_position.store(0, relaxed);
    }
    pm::persist(&root_, sizeof root_);
  }

  Root& root_;
};

}  // namespace

std::vector<MediaStruct> published_ring_media(const IndexOptions&) {
  using Owner = PublishedRing::Owner;
  constexpr auto owners = static_cast<std::uint32_t>(offsetof(PublishedRing::Root, owner));
  constexpr auto slots = static_cast<std::uint32_t>(offsetof(PublishedRing::Root, slot));
  constexpr std::uint32_t count = PublishedRing::most_threads;
  const auto of_owner = [&](std::size_t field) {
    return owners + static_cast<std::uint32_t>(field);
  };
  return {{"ring",
           sizeof(PublishedRing::Root),
           {{"head", 0, 8},
            {"tail", 64, 8},
            {"owner[].push_position", of_owner(offsetof(Owner, push_position)), 8, count, 64},
            {"owner[].pop_position", of_owner(offsetof(Owner, pop_position)), 8, count, 64},
            {"owner[].undoes", of_owner(offsetof(Owner, undoes)), 8, count, 64},
            {"owner[].head", of_owner(offsetof(Owner, head)), 8, count, 64},
            {"owner[].tail", of_owner(offsetof(Owner, tail)), 8, count, 64},
            {"slot[].payload", slots, 8, PublishedRing::slots, sizeof(PublishedRing::Slot)}}}};
}

MadeQueue open_published_ring(const QueueOpening& opening) {
  return open_queue<PublishedRing, PublishedRing::Root>(opening);
}

}  // namespace perdure::crash
