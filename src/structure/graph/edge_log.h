// EdgeLog: a graph as an append-only log of its edges, found through an index in DRAM. Study
// pmemids, section III, figure 2(b).
//
//   Top     | loading | log | newest | spare |
//   Chunk   | older 8 or 16 | entry | entry | ... | end 8: 0 |
//   Entry   | mark 8: value's bytes << 2 | state | edge 8 | value, to whole words |
//
// An insert or update appends an entry. What it replaces, and what is deleted, is marked dead where
// it lies. A chunk with nothing alive in it is freed; when the newest is full, the one with the
// least alive is compacted: what is alive in it begins the next chunk.
//
// E1  an edge exists <=> an entry of it is marked live in a chunk that `newest` leads to; of two
//     entries the one that was appended later counts.
// E2  after the last entry lies a mark of 0. An entry, and the 0 after it, are durable before the
//     one word that makes it count, its mark.
// E3  an entry is marked dead only after what replaces it counts: two of one edge are live after a
//     power cut only, and recovery marks the earlier one dead.
// E4  compaction fills the spare chunk, links it as the newest, makes the emptied one the spare and
//     takes it out of the log, in this order. Recovery finishes what was cut off: a spare in the
//     log is the newest, or empty.
// E5  a chunk is added only when more than half of each is alive, and there is a spare, so the log
//     takes less than twice the room of what is alive, and two chunks.
// E6  the index in DRAM has the entry that counts of every edge, and the bytes alive in every
// chunk;
//     recovery builds it.
#pragma once

#include <cstring>
#include <vector>

#include "structure/base/structure_index.h"
#include "structure/graph/edge_index.h"
#include "structure/graph/graph.h"

namespace perdure::structure {

template <class Memory>
class EdgeLog final : public StructureIndex<EdgeLog<Memory>, Memory>, public Graph {
  using Base = StructureIndex<EdgeLog<Memory>, Memory>;
  friend Base;

 public:
  using Change = typename Base::Change;
  using Creation = typename Base::Creation;
  template <class T>
  using Ref = typename Memory::template Ref<T>;

  struct Entry {
    static constexpr std::uint64_t live = 1;
    static constexpr std::uint64_t dead = 2;
    static constexpr unsigned state_bits = 2;

    std::uint64_t mark;
    std::uint64_t edge;

    [[nodiscard]] char* text() noexcept { return reinterpret_cast<char*>(this + 1); }
    [[nodiscard]] std::string_view value() const noexcept {
      return {reinterpret_cast<const char*>(this + 1), mark >> state_bits};
    }
    [[nodiscard]] std::uint64_t state() const noexcept { return mark & ((1U << state_bits) - 1); }
    [[nodiscard]] static std::uint64_t mark_of(std::size_t value_bytes, std::uint64_t state) {
      return value_bytes << state_bits | state;
    }
    [[nodiscard]] static constexpr std::size_t bytes_with(std::size_t value_bytes) noexcept {
      return sizeof(Entry) + (value_bytes + 7) / 8 * 8;
    }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_with(value().size()); }
    /// False: media are damaged.
    [[nodiscard]] bool is_sound() const noexcept {
      return value().size() <= max_slot_value_bytes && (state() == live || state() == dead);
    }
  };
  static_assert(sizeof(Entry) == 16 && offsetof(Entry, mark) == 0, "a mark is failure-atomic");
  struct Chunk {
    Ref<Chunk> older;
  };
  struct Top : Anchor {
    Ref<Chunk> newest;
    Ref<Chunk> spare;
  };

  static constexpr const char* name = "graph_log";
  static constexpr std::uint64_t variant = 0;
  static constexpr std::uint64_t least_entries = 4;
  static constexpr std::uint64_t most_entries = 4096;

  using Base::Base;
  ~EdgeLog() override { this->dismantle(); }

  std::size_t neighbours(Vertex source, SlotScan& out) override;
  [[nodiscard]] SlotIndex& edges() noexcept override { return *this; }

 private:
  using Number = std::uint32_t;  ///< of a segment
  static constexpr Number none = ~Number{0};
  static constexpr std::size_t longest_entry_bytes = Entry::bytes_with(max_slot_value_bytes);

  struct Segment {  // a chunk of the log
    Chunk* chunk;   ///< null: this number is free
    std::uint32_t live_bytes;
    Number newer;
    Number older;
  };
  struct Where {
    Entry* entry;
    Number segment;
    [[nodiscard]] explicit operator bool() const noexcept { return entry != nullptr; }
  };

  void prepare(Creation& creation, const IndexOptions& options);
  [[nodiscard]] bool reopen(Walk<Memory>& walk, std::uint64_t chunk_entries) noexcept;
  [[nodiscard]] std::uint64_t table_size() const noexcept { return chunk_entries_; }
  [[nodiscard]] Result<void> walk(Walk<Memory>& walk);
  [[nodiscard]] Result<void> walk(Walk<Memory>& walk) const;
  void clear(Creation& creation);
  [[nodiscard]] std::uint64_t extra_dram_bytes() const noexcept {
    return index_.dram_bytes() + segments_.capacity() * sizeof(Segment) +
           free_numbers_.capacity() * sizeof(Number);
  }

  [[nodiscard]] const Entry* find(std::uint64_t key) const noexcept {
    const Where* const where = index_.find(key);
    return where == nullptr ? nullptr : where->entry;
  }
  Effect put(Change& change, std::uint64_t key, std::string_view value, Put how);
  Effect take(Change& change, std::uint64_t key);
  void collect(std::uint64_t, std::size_t, SlotScan&) const {}  // unordered

  // Entries.
  Entry* append(Change& change, std::uint64_t key, std::string_view value);
  /// Marks dead what counts no more, or frees its chunk where nothing else is alive in it.
  void retire(Change& change, const Where& where);
  /// The DRAM side of it. `bytes`: of the entry, which may be gone.
  void forget(Number segment, std::size_t bytes);

  // Room.
  void make_room(std::size_t bytes);
  void grow();
  void compact(Number victim);
  [[nodiscard]] Number sparsest() const noexcept;

  // Recovery.
  [[nodiscard]] Result<void> rebuild(Walk<Memory>& walk);
  [[nodiscard]] bool read_in(Chunk& chunk, Walk<Memory>& walk, std::vector<Entry*>& stale);
  void complete_spare(Creation& creation);

  // Chunks and their segments.
  [[nodiscard]] std::size_t capacity() const noexcept {
    return chunk_entries_ * longest_entry_bytes;
  }
  [[nodiscard]] std::size_t chunk_bytes() const noexcept {
    return sizeof(Chunk) + capacity() + sizeof(Entry);
  }
  [[nodiscard]] static Entry* entry_at(Chunk& chunk, std::size_t position) noexcept {
    return reinterpret_cast<Entry*>(reinterpret_cast<std::byte*>(&chunk + 1) + position);
  }
  /// Calls `visit` for every entry, live or dead. Returns where the end is; beyond the capacity:
  /// the chunk is damaged.
  template <class Visit>
  std::size_t read_entries(Chunk& chunk, Visit&& visit) const;
  [[nodiscard]] Number add_segment(Chunk* chunk, Number newer, Number older);
  void remove_segment(Number number);
  [[nodiscard]] Ref<Chunk>& link_to(Number number) const noexcept {
    const Number newer = segments_[number].newer;
    return newer == none ? this->top().newest : segments_[newer].chunk->older;
  }
  [[nodiscard]] Chunk* at(Ref<Chunk> ref) const noexcept { return this->memory_.at(ref); }

  std::uint64_t chunk_entries_ = 0;
  EdgeIndex<Where> index_;
  std::vector<Segment> segments_;
  std::vector<Number> free_numbers_;
  Number newest_ = none;
  Number oldest_ = none;
  std::size_t tail_ = 0;  ///< of the newest chunk: where the next entry goes
};

}  // namespace perdure::structure
