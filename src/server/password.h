// Password: what clients must know, read from a file that only its owner's group may read.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "core/result.h"

namespace perdure::server {

class Password {
 public:
  explicit Password(std::string text) : text_(std::move(text)) {}

  /// The first line of `path`. Errors: not_found, io; bad_input (empty, longer than 1024 bytes, or
  /// others than owner and group may read it or others than the owner may write it).
  [[nodiscard]] static Result<Password> read(const std::string& path);

  /// Takes equally long for every `attempt` of one length, however much of it is right.
  [[nodiscard]] bool matches(std::string_view attempt) const;
  /// For protocols that derive keys from it.
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

}  // namespace perdure::server
