// Point: one measurement of a probe, completely described. A probe is a list of points.
//
// A point is data: it can be listed, written as JSON, sent to another process and measured there.
// Each is measured from a fresh state and knows nothing of the points before it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pm/persist.h"

namespace perdure::probe {

/// How a point is measured; see measurement.h.
enum class Kind : std::uint8_t {
  bandwidth,       ///< threads access their regions as fast as they can
  latency,         ///< one access at a time, each waited for
  chase,           ///< blocks in random order, each found through the one before
  write_buffer,    ///< first halves of XPLines, then second halves
  cached,          ///< I1: a region that is in the last-level cache to a given share
  loaded_latency,  ///< one thread chases while the others load the memory
};

enum class Memory : std::uint8_t { pm, dram };
enum class Op : std::uint8_t { load, store, store_flush, ntstore };
enum class Pattern : std::uint8_t { seq, rand, stride, same };
enum class Node : std::uint8_t { local, remote };
/// The published I1 loop stores to line i but flushes line 0; `corrected` flushes line i;
/// `dependent` chases loads, where the published ones are independent.
enum class Variant : std::uint8_t { none, as_published, corrected, dependent };

/// Operations between two fences of a thread; 0: no fence at all.
using FenceInterval = std::uint64_t;

struct Point {
  std::string experiment;  ///< "I2", "bandwidth": what it is reported under
  Kind kind = Kind::bandwidth;
  Memory memory = Memory::pm;
  Op op = Op::load;
  Pattern pattern = Pattern::seq;
  std::uint64_t access_bytes = 64;  ///< per operation; chase: per block
  unsigned threads = 1;
  std::uint64_t stride_bytes = 0;  ///< pattern stride
  double mix_reads = 0;            ///< this share of the operations of a writing point are loads
  unsigned readers = 0;            ///< so many of the threads only load
  std::uint64_t align_bytes = 0;   ///< random accesses begin at multiples of it; 0: of their size
  std::uint64_t region_bytes = 0;  ///< over all threads
  FenceInterval fence_every = 0;
  double op_cost_ns = 0;          ///< software of the benchmark, per operation
  bool op_cost_overlaps = false;  ///< with the misses of its operation; else it comes after them
  bool op_state = false;          ///< the benchmark stores its state to a line per operation
  Node node = Node::local;
  std::optional<unsigned> dimms;    ///< per socket; nothing: as the target has it
  std::optional<bool> prefetch;     ///< hardware prefetchers of the cores
  std::optional<double> hit_ratio;  ///< Kind::cached
  Variant variant = Variant::none;
  /// What the program believes: under eadr it flushes nothing. Nothing: what the target is.
  std::optional<pm::Durability> durability{};
  std::optional<pm::FlushInstruction> flush;  ///< nothing: the best there is
  std::uint64_t operations = 0;               ///< over all threads; 0: chosen by the target

  [[nodiscard]] bool reads() const noexcept {
    return op == Op::load || mix_reads > 0 || readers > 0;
  }
  [[nodiscard]] bool writes() const noexcept { return op != Op::load; }
  [[nodiscard]] std::uint64_t lines_per_operation() const noexcept {
    return (access_bytes + pm::cache_line_bytes - 1) / pm::cache_line_bytes;
  }
};

template <class T>
struct Name {
  T value;
  const char* text;
};

inline constexpr std::array<Name<Memory>, 2> memories = {
    {{Memory::pm, "pm"}, {Memory::dram, "dram"}}};
inline constexpr std::array<Name<Op>, 4> ops = {{{Op::load, "load"},
                                                 {Op::store, "store"},
                                                 {Op::store_flush, "store+clwb"},
                                                 {Op::ntstore, "ntstore"}}};
inline constexpr std::array<Name<Pattern>, 4> patterns = {{{Pattern::seq, "seq"},
                                                           {Pattern::rand, "rand"},
                                                           {Pattern::stride, "stride"},
                                                           {Pattern::same, "same"}}};
inline constexpr std::array<Name<Node>, 2> nodes = {
    {{Node::local, "local"}, {Node::remote, "remote"}}};
inline constexpr std::array<Name<Variant>, 3> variants = {{{Variant::as_published, "as_published"},
                                                           {Variant::corrected, "corrected"},
                                                           {Variant::dependent, "dependent"}}};

template <class T, std::size_t n>
[[nodiscard]] constexpr const char* text_of(const std::array<Name<T>, n>& names, T value) {
  for (const Name<T>& name : names)
    if (name.value == value) return name.text;
  return "";
}

/// "none", "each" or "every=4".
[[nodiscard]] std::string text_of_fence(FenceInterval every);

}  // namespace perdure::probe
