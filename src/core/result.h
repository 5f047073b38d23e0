// Result<T>: a value, or an Error that says what is wrong, where, and how to mend it.
// Errors of media, files, configuration and input travel this way; "not found" is a value.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace perdure {

/// What kind of thing went wrong. The CLI maps every code but `failed` to exit code 2.
enum class ErrorCode {
  usage,         ///< a flag or option is wrong
  bad_input,     ///< a file's content is wrong (workload, key file, platform)
  not_found,     ///< a file or name does not exist
  exists,        ///< would overwrite something
  busy,          ///< another process holds the pool
  truncated,     ///< the pool is shorter than its header says
  corrupt,       ///< a checksum or an invariant does not hold
  foreign,       ///< not one of our pools, or it holds another index
  newer,         ///< written by a later version of the layout
  out_of_space,  ///< no room in the pool or on its file system
  unsupported,   ///< this machine or this build lacks something
  io,            ///< the operating system refused
  failed,        ///< a run or a check failed
};

struct Error {
  ErrorCode code = ErrorCode::failed;
  std::string what;    ///< what is wrong: "pool header checksum does not match"
  std::string where;   ///< file, flag, line: "/dev/shm/p.pool"
  std::string remedy;  ///< what to do: "restore the file or restart with a new pool"

  /// One line: "where: what; remedy".
  [[nodiscard]] std::string line() const {
    std::string text = where.empty() ? what : where + ": " + what;
    if (!remedy.empty()) text += "; " + remedy;
    return text;
  }
};

/// Prints the line of an unchecked error, and aborts.
[[noreturn]] void no_value(const Error& error) noexcept;
/// Says that a Result with a value has no error, and aborts.
[[noreturn]] void no_error() noexcept;

/// Calling `value` on an error, or `error` on a value, ends the program, in every build.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  [[nodiscard]] T& value() & {
    if (!ok()) [[unlikely]]
      no_value(error());
    return *std::get_if<0>(&state_);
  }
  [[nodiscard]] const T& value() const& {
    if (!ok()) [[unlikely]]
      no_value(error());
    return *std::get_if<0>(&state_);
  }
  [[nodiscard]] T&& value() && {
    if (!ok()) [[unlikely]]
      no_value(error());
    return std::move(*std::get_if<0>(&state_));
  }
  [[nodiscard]] const Error& error() const {
    if (ok()) [[unlikely]]
      no_error();
    return *std::get_if<1>(&state_);
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  [[nodiscard]] bool ok() const noexcept { return !error_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  void value() const {
    if (!ok()) [[unlikely]]
      no_value(*error_);
  }
  [[nodiscard]] const Error& error() const {
    if (ok()) [[unlikely]]
      no_error();
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace perdure
