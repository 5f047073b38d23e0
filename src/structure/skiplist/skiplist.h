// Skiplist: up to 16 levels, an element goes on to the next with p = 0.5. Study pmemids,
// section IV-A.
//
//   Top      | loading | log | first[16] |
//   Element  | slot 128 | key 8 | height 8 | next[height] |
//   link     | ref 8 or 16 | key 8 |     first[i] and next[i]
//
// L1  a record exists <=> its element is in level 0, in ascending order of keys.
// L2  level i+1 has some of the elements of level i that are higher than i+1, in the same order.
//     With pmem-persist a power cut may leave an element out of its upper levels: it is found all
//     the same.
// L3  an element is linked from level 0 up and unlinked from the top down, so level 0 decides.
// L4  a link has the key of the element it leads to, a null one the highest there is. So a search
//     reads no element but those it goes on from. Recovery makes right what a power cut left.
#pragma once

#include <array>

#include "core/rng.h"
#include "structure/base/structure_index.h"

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
  using Link = KeyedRef<Ref<Element>>;
  using Links = std::array<Link, levels>;
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
  static constexpr std::uint32_t layout_version = 2;  ///< 1: links without keys

  using Base::Base;
  ~Skiplist() override { this->dismantle(); }

 private:
  /// Per level, the link in which the wanted key's place is.
  using Place = std::array<Link*, levels>;

  void prepare(Creation&, const IndexOptions&) { this->top().first.fill(nowhere()); }
  [[nodiscard]] Result<void> walk(Walk<Memory>& walk) const;
  void clear(Creation& creation) {
    for (Link& link : this->top().first) creation.link(link, nowhere());
  }
  [[nodiscard]] Result<void> adopt() {
    for (unsigned level = 1; level < levels; ++level)
      if (this->top().first[level]) height_ = level + 1;
    return {};
  }

  [[nodiscard]] const Slot* find(std::uint64_t key) const noexcept {
    const Element* const element = search(key);
    return element == nullptr ? nullptr : &element->slot;
  }
  Effect put(Change& change, std::uint64_t key, std::string_view value, Put how);
  Effect take(Change& change, std::uint64_t key);
  void collect(std::uint64_t from, std::size_t count, SlotScan& out) const;

  [[nodiscard]] Element* at(Ref<Element> ref) const noexcept { return this->memory_.at(ref); }
  [[nodiscard]] Link nowhere() const noexcept {
    return {this->memory_.template null<Element>(), ~std::uint64_t{0}};
  }
  [[nodiscard]] static bool leads_to(const Link& link, std::uint64_t key) noexcept {
    return link.key == key && link;  // L4: null links have a key that a record can have
  }
  [[nodiscard]] static std::size_t bytes_of(std::uint64_t height) noexcept {
    return sizeof(Element) - (levels - height) * sizeof(Link);
  }
  /// The links of the element that `link` leads to.
  [[nodiscard]] Link* follow(const Link& link) const noexcept;
  /// The key's element or null. The element itself is not read.
  [[nodiscard]] Element* search(std::uint64_t key) const noexcept;
  /// Finds the key's place in every level in use. The link that leads to its element, if there is
  /// one, or past it.
  Link& descend(std::uint64_t key, Place& place) const noexcept;
  /// Whether the link has the key it should have (L4); a recovery sees to it.
  [[nodiscard]] static bool agree(const Walk<Memory>& walk, Link& link, std::uint64_t key);
  [[nodiscard]] unsigned draw_height() noexcept;

  Rng rng_{1};
  unsigned height_ = 1;  ///< levels in use
};

}  // namespace perdure::structure
