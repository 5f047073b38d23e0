// SoftList: SOFT (Zuriel et al., OOPSLA 2019): the list is in DRAM, its records are on media, and
// no lookup ever flushes. `Heads` is one list, or a hash table of them.
//
//   on media, in the slab: {key, value, begun u8, ended u8, deleted u8}
//   in DRAM, same number:  {key, value, next: stride (number + 1) | state of this node}
// Both have the stride of the slab.
//
// S1  a record is on media <=> begun = ended and deleted differs. A free one has begun = ended =
//     deleted, or has begun alone different, where a power cut met its creation.
// S2  a node's state goes from intend_to_insert over inserted and intend_to_delete to deleted. It
//     is inserted when the record is durable, deleted when the removal is: so what a lookup finds
//     inserted is durable, without a flush. A removal under way still shows.
// S3  who meets an intention that it depends on carries it out, too: creation and removal write the
//     same bytes however often they are done, until the node is retired.
// S4  a deleted node's link never changes again; who unlinks it retires both halves.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/frame.h"
#include "lockfree/list/links.h"
#include "lockfree/list/list_index.h"
#include "pool/mapping.h"

namespace perdure::lockfree {

/// The half on media.
struct alignas(32) SoftRecord {
  std::atomic<std::uint64_t> key;
  std::atomic<std::uint64_t> value;
  std::atomic<std::uint8_t> begun;
  std::atomic<std::uint8_t> ended;
  std::atomic<std::uint8_t> deleted;
};
static_assert(sizeof(SoftRecord) == sizeof(Node) && offsetof(SoftRecord, begun) == 16);

/// The half in DRAM.
struct alignas(32) SoftNode {
  std::atomic<std::uint64_t> key;
  std::atomic<std::uint64_t> value;
  Link next;
  std::atomic<std::uint8_t> valid;  ///< what `begun` and `ended` of its record are to be
};

/// For counterexamples.
[[nodiscard]] inline std::vector<MediaStruct> media_of_soft(const IndexOptions& options) {
  return NodeSlab::media(options.get("nodes"), options.get("stride"),
                         {{"key", offsetof(SoftRecord, key), 8},
                          {"value", offsetof(SoftRecord, value), 8},
                          {"begun", offsetof(SoftRecord, begun), 1},
                          {"ended", offsetof(SoftRecord, ended), 1},
                          {"deleted", offsetof(SoftRecord, deleted), 1}});
}

/// One list.
class OneHead {
 public:
  void prepare(const IndexOptions&) {}
  [[nodiscard]] Link& of(std::uint64_t) noexcept { return head_; }
  [[nodiscard]] std::uint64_t count() const noexcept { return 1; }
  [[nodiscard]] Link& operator[](std::uint64_t) noexcept { return head_; }
  [[nodiscard]] std::uint64_t dram_bytes() const noexcept { return 0; }

 private:
  Link head_{0};
};

template <class Traits>
class SoftList : public ListIndex<SoftList<Traits>> {
  using Base = ListIndex<SoftList<Traits>>;
  friend Base;

 public:
  using Guard = typename Base::Guard;
  static constexpr ListKind kind = Traits::kind;

  Outcome add(const Guard& guard, std::uint64_t key, std::uint64_t value) {
    Place place;
    std::uint32_t node = no_node;
    bool added = false;
    while (!added) {
      if (search(guard, key, place)) {
        if (node != no_node) this->slab().give(node);  // nothing was written to media
        if (state_of(words_of(place.at).next) != intend_to_insert) return Outcome::exists;
        node = place.at;  // S3
        break;
      }
      if (node == no_node) {
        if ((node = this->slab().take(guard)) == no_node) return Outcome::out_of_space;
        describe(node, key, value);
      }
      words_of(node).next.store(offset_of(place.word) | intend_to_insert,
                                std::memory_order_release);
      added = swap_link(*place.link, place.word, link_to(node) | state_in(place.word));
    }
    create_record(node);
    change_state(words_of(node).next, intend_to_insert, inserted);
    return added ? Outcome::ok : Outcome::exists;
  }

  Outcome take(const Guard& guard, std::uint64_t key) {
    Place place;
    if (!search(guard, key, place)) return Outcome::not_found;
    SoftNode& node = words_of(place.at);
    if (state_of(node.next) == intend_to_insert) return Outcome::not_found;
    const bool removed = change_state(node.next, inserted, intend_to_delete);
    delete_record(place.at);
    change_state(node.next, intend_to_delete, deleted);
    if (!removed) return Outcome::not_found;
    const std::uint64_t next = node.next.load(std::memory_order_acquire);
    if (swap_link(*place.link, place.word, offset_of(next) | state_in(place.word)))
      this->slab().retire(guard, this->slab().offset_of(place.at));
    else
      static_cast<void>(search(guard, key, place));
    return Outcome::ok;
  }

  PERDURE_FRAME Outcome find(const Guard&, std::uint64_t key, std::uint64_t& value) {
    std::uint64_t word = heads_.of(key).load(std::memory_order_acquire);
    while (offset_of(word) != 0) {
      const SoftNode& node = node_at(word);
      word = node.next.load(std::memory_order_acquire);
      const std::uint64_t found = node.key.load(std::memory_order_relaxed);
      if (found < key) continue;
      if (found != key || !shows(word)) break;
      value = node.value.load(std::memory_order_relaxed);
      return Outcome::ok;
    }
    return Outcome::not_found;
  }

  std::size_t scan(std::uint64_t from, std::size_t count, IntegerScan& out) final {
    return kind.ordered ? Base::scan(from, count, out) : 0;
  }

  template <class Each>
  void visit(std::uint64_t from, Each&& each) {
    for (std::uint64_t head = 0; head < heads_.count(); ++head) {
      std::uint64_t word = heads_[head].load(std::memory_order_acquire);
      while (offset_of(word) != 0) {
        const SoftNode& node = node_at(word);
        word = node.next.load(std::memory_order_acquire);
        const std::uint64_t key = node.key.load(std::memory_order_relaxed);
        if (key >= from && shows(word) && !each(key, node.value.load(std::memory_order_relaxed)))
          return;
      }
    }
  }
  [[nodiscard]] std::uint64_t dram_bytes() const final {
    return Base::dram_bytes() + memory_.bytes() + heads_.dram_bytes();
  }

 private:
  static constexpr std::uint64_t inserted = 0;
  static constexpr std::uint64_t intend_to_insert = 1;
  static constexpr std::uint64_t intend_to_delete = 2;
  static constexpr std::uint64_t deleted = 3;

  struct Place {
    Link* link = nullptr;    ///< leads to `at`
    std::uint64_t word = 0;  ///< what was read there
    std::uint32_t at = no_node;
  };

  [[nodiscard]] static constexpr std::uint64_t state_in(std::uint64_t word) noexcept {
    return word & deleted;
  }
  [[nodiscard]] static constexpr std::uint64_t offset_of(std::uint64_t word) noexcept {
    return word & ~deleted;
  }
  [[nodiscard]] std::uint64_t link_to(std::uint32_t node) const noexcept {
    return (std::uint64_t{node} + 1) << stride_shift_;
  }
  [[nodiscard]] std::uint32_t number_in(std::uint64_t word) const noexcept {
    return static_cast<std::uint32_t>((word >> stride_shift_) - 1);
  }
  /// An addition only: every step of a search waits for it.
  [[nodiscard]] SoftNode& node_at(std::uint64_t word) const noexcept {
    return *reinterpret_cast<SoftNode*>(before_first_ + offset_of(word));
  }
  [[nodiscard]] SoftNode& words_of(std::uint32_t number) const noexcept {
    return node_at(link_to(number));
  }
  [[nodiscard]] static std::uint64_t state_of(const Link& link) noexcept {
    return state_in(link.load(std::memory_order_acquire));
  }
  /// S2
  [[nodiscard]] static constexpr bool shows(std::uint64_t word) noexcept {
    return state_in(word) == inserted || state_in(word) == intend_to_delete;
  }
  /// True: by this call.
  static bool change_state(Link& link, std::uint64_t from, std::uint64_t to) noexcept {
    for (std::uint64_t word = link.load(std::memory_order_acquire); state_in(word) == from;)
      if (link.compare_exchange_weak(word, offset_of(word) | to, std::memory_order_acq_rel))
        return true;
    return false;
  }

  [[nodiscard]] SoftRecord& record(std::uint32_t node) const noexcept {
    return reinterpret_cast<SoftRecord&>(this->at(this->slab().offset_of(node)));
  }
  void describe(std::uint32_t node, std::uint64_t key, std::uint64_t value) noexcept {
    words_of(node).key.store(key, std::memory_order_relaxed);
    words_of(node).value.store(value, std::memory_order_relaxed);
    words_of(node).valid.store(record(node).deleted.load(std::memory_order_relaxed) ^ 1,
                               std::memory_order_relaxed);
  }
  void write_record(std::uint32_t node) noexcept {
    SoftRecord& on_media = record(node);
    const SoftNode& words = words_of(node);
    const std::uint8_t valid = words.valid.load(std::memory_order_relaxed);
    on_media.begun.store(valid, std::memory_order_release);
    on_media.key.store(words.key.load(std::memory_order_relaxed), std::memory_order_release);
    on_media.value.store(words.value.load(std::memory_order_relaxed), std::memory_order_release);
    on_media.ended.store(valid, std::memory_order_release);
    pm::flush(&on_media, sizeof on_media);
  }
  void create_record(std::uint32_t node) noexcept {
    write_record(node);
    pm::fence();
  }
  void delete_record(std::uint32_t node) noexcept {
    SoftRecord& on_media = record(node);
    on_media.deleted.store(words_of(node).valid.load(std::memory_order_relaxed),
                           std::memory_order_release);
    pm::persist(&on_media, sizeof on_media);
  }

  [[nodiscard]] PERDURE_FRAME bool search(const Guard& guard, std::uint64_t key, Place& place) {
    for (;;) {
      Link& head = heads_.of(key);
      place = {.link = &head, .word = head.load(std::memory_order_acquire)};
      for (;;) {
        if (offset_of(place.word) == 0) return false;
        SoftNode& node = node_at(place.word);
        const std::uint64_t next = node.next.load(std::memory_order_acquire);
        if (state_in(next) == deleted) [[unlikely]] {
          const std::uint64_t without = offset_of(next) | state_in(place.word);
          if (!swap_link(*place.link, place.word, without)) break;
          this->slab().retire(guard, this->slab().offset_of(number_in(place.word)));
          place.word = without;
          continue;
        }
        const std::uint64_t found = node.key.load(std::memory_order_relaxed);
        if (found >= key) {
          place.at = number_in(place.word);
          return found == key;
        }
        place.link = &node.next;
        place.word = next;
      }
    }
  }

  /// Nodes in use that do not show.
  [[nodiscard]] std::uint64_t hidden() {
    std::uint64_t count = 0;
    for (std::uint64_t head = 0; head < heads_.count(); ++head) {
      std::uint64_t word = heads_[head].load(std::memory_order_acquire);
      while (offset_of(word) != 0) {
        word = node_at(word).next.load(std::memory_order_acquire);
        count += shows(word) ? 0 : 1;
      }
    }
    return count;
  }
  void prepare(const IndexPlace& place) {
    heads_.prepare(place.options);
    constexpr std::uint64_t page = 4096;
    stride_shift_ = this->slab().stride_shift();
    const std::uint64_t size = std::uint64_t{this->slab().nodes()} << stride_shift_;
    const std::uint64_t bytes = (size + page - 1) / page * page;
    Result<Mapping> memory = Mapping::anonymous(bytes, 0);
    if (!memory) throw std::bad_alloc();
    memory_ = std::move(memory).value();
    if (place.huge_pages) request_huge_pages(memory_.base(), bytes, Medium::anonymous);
    before_first_ = reinterpret_cast<std::uintptr_t>(memory_.base()) - link_to(0);
  }

  [[nodiscard]] Result<void> rebuild() {
    constexpr auto relaxed = std::memory_order_relaxed;
    std::vector<std::uint32_t> live;
    for (std::uint32_t node = 0; node < this->slab().nodes(); ++node) {
      const SoftRecord& on_media = record(node);
      const std::uint8_t valid = on_media.begun.load(relaxed);
      if (valid != on_media.ended.load(relaxed) || valid == on_media.deleted.load(relaxed))
        continue;
      describe(node, on_media.key.load(relaxed), on_media.value.load(relaxed));
      live.push_back(node);
    }
    const auto key_of = [&](std::uint32_t node) { return words_of(node).key.load(relaxed); };
    std::ranges::sort(live, std::greater<>(), key_of);
    if (std::ranges::adjacent_find(live, {}, key_of) != live.end())
      return this->corrupt("two records hold one key");
    for (const std::uint32_t node : live) {
      static_cast<void>(this->slab().free_nodes().claim(node));
      link_first(node);
    }
    return {};
  }
  /// The caller is alone, and the key is less than all of its list.
  void link_first(std::uint32_t node) noexcept {
    Link& head = heads_.of(words_of(node).key.load(std::memory_order_relaxed));
    words_of(node).next.store(offset_of(head.load(std::memory_order_relaxed)) | inserted,
                              std::memory_order_relaxed);
    head.store(link_to(node), std::memory_order_release);
  }
  [[nodiscard]] std::uint64_t place(std::uint32_t node, std::uint64_t key, std::uint64_t value,
                                    std::uint64_t) {
    describe(node, key, value);
    write_record(node);
    link_first(node);
    return 0;
  }
  static void set_first(std::uint64_t) {}
  void wipe() {
    for (std::uint32_t node = 0; node < this->slab().nodes(); ++node) {
      SoftRecord& on_media = record(node);
      on_media.deleted.store(on_media.ended.load(std::memory_order_relaxed),
                             std::memory_order_release);
      pm::flush(&on_media, sizeof on_media);
    }
    pm::fence();
  }

  typename Traits::Heads heads_;
  Mapping memory_;
  std::uintptr_t before_first_ = 0;  ///< address of node 0, less the link to it
  unsigned stride_shift_ = 0;
};

}  // namespace perdure::lockfree
