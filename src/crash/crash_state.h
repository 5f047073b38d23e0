// Crash state: which of its possible contents each line holds after a power cut; chosen, made in an
// image, and described.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "crash/image.h"
#include "crash/persistency.h"

namespace perdure::crash {

/// One line of a crash state; or, with line `store_buffer` (eADR), how many stores left the buffer.
struct LineState {
  static constexpr LineNumber store_buffer = ~LineNumber{0};

  LineNumber line;
  std::uint32_t choice;  ///< of how many
  std::uint32_t choices;
  LineContent content;
  LineContent newest{};               ///< what the line held in the run
  std::vector<std::uint32_t> lost{};  ///< events whose stores are missing
  std::vector<std::uint32_t> kept{};  ///< events since the floor whose stores are there
};

/// A line that may have more than one content.
struct OpenLine {
  LineNumber line;
  std::span<const Choice> choices;
  Bytes bytes;  ///< that are not the same in all choices
};
/// Ascending by line. Valid until the model or a floor changes.
using OpenLines = std::vector<OpenLine>;
[[nodiscard]] OpenLines open_lines(const Persistency& model);

/// By open line: the number of its choice.
using Choices = std::vector<std::uint32_t>;
[[nodiscard]] Choices oldest(const OpenLines& open);
[[nodiscard]] Choices newest(const OpenLines& open);

/// Writes the chosen contents over the floor. A level of the image is open.
void write_lines(const OpenLines& open, const Choices& chosen, Image& image);
/// The chosen contents that are not the newest of their line.
[[nodiscard]] std::vector<LineState> older_lines(const Persistency& model, const OpenLines& open,
                                                 const Choices& chosen);

/// eADR: the first `kept` of these stores have left the store buffer.
[[nodiscard]] LineState buffer_state(std::span<const Persistency::Buffered> waiting,
                                     std::size_t kept);

/// The state in which the lines of a description have their contents, and all others the newest.
struct CrashState {
  std::vector<Persistency::Buffered> waiting;
  std::size_t kept;  ///< of `waiting`
  OpenLines open;
  Choices chosen;
};
/// Writes it over the floor. A level of the image is open.
[[nodiscard]] CrashState write_state(const Persistency& model, const std::vector<LineState>& lines,
                                     Image& image);

}  // namespace perdure::crash
