// Skiplist: up to 16 levels, an element goes on to the next with p = 0.5. Study pmemids,
// section IV-A.
//
//   Top      | loading | log | first[16] |
//   Element  | slot 128 | key 8 | height 8 | next[height] |
//
// L1  a record exists <=> its element is in level 0, in ascending order of keys.
// L2  level i+1 has some of the elements of level i that are higher than i+1, in the same order.
//     With pmem-persist a power cut may leave an element out of its upper levels: it is found all
//     the same.
// L3  an element is linked from level 0 up and unlinked from the top down, so level 0 decides.
#pragma once

#include <array>

#include "core/rng.h"
#include "structure/memory/structure_index.h"

namespace perdure::structure {

template <class Memory>
class Skiplist final : public StructureIndex<Skiplist<Memory>, Memory> {
  using Base = StructureIndex<Skiplist<Memory>, Memory>;
  friend Base;

 public:
  using Change = typename Base::Change;
  using Creation = typename Base::Creation;
  template <class T>
  using Ref = typename Memory::template Ref<T>;

  static constexpr unsigned levels = 16;

  struct Element;
  using Links = std::array<Ref<Element>, levels>;
  struct Element {
    Slot slot;  ///< first, so that what a search reads lies together
    std::uint64_t key;
    std::uint64_t height;
    Links next;  ///< the first `height` of them
  };
  struct Top : Anchor {
    Links first;
  };

  static constexpr const char* name = "skiplist";
  static constexpr std::uint64_t variant = 0;

  using Base::Base;
  ~Skiplist() override { this->dismantle(); }

 private:
  /// Per level, the links in which the wanted key's place is.
  using Place = std::array<Links*, levels>;

  void prepare(Creation&, const IndexOptions&) {
    this->top().first.fill(this->memory_.template null<Element>());
  }
  [[nodiscard]] Result<void> walk(Walk<Memory>& walk) const;
  void clear(Creation& creation) {
    for (Ref<Element>& link : this->top().first)
      creation.link(link, this->memory_.template null<Element>());
  }
  [[nodiscard]] Result<void> adopt() {
    for (unsigned level = 1; level < levels; ++level)
      if (this->top().first[level]) height_ = level + 1;
    return {};
  }

  [[nodiscard]] const Slot* find(std::uint64_t key) const noexcept;
  Effect put(Change& change, std::uint64_t key, std::string_view value, Put how);
  Effect take(Change& change, std::uint64_t key);
  void collect(std::uint64_t from, std::size_t count, SlotScan& out) const;

  [[nodiscard]] Element* at(Ref<Element> ref) const noexcept { return this->memory_.at(ref); }
  [[nodiscard]] static std::size_t bytes_of(std::uint64_t height) noexcept {
    return sizeof(Element) - (levels - height) * sizeof(Ref<Element>);
  }
  /// The first element not below `key`. `stops`: where it is met first, at whatever level, so the
  /// place is known only down to there.
  Element* descend(std::uint64_t key, Place& place, bool stops) const noexcept;
  [[nodiscard]] unsigned draw_height() noexcept;

  Rng rng_{1};
  unsigned height_ = 1;  ///< levels in use
};

}  // namespace perdure::structure
