// What can go wrong with a command on documents: MongoDB's numbers and names for it, because
// clients tell errors apart by them, and a message.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "core/result.h"

namespace perdure::engine {

/// MongoDB's error codes, as far as they are used here.
enum class Code : std::int32_t {
  internal_error = 1,
  bad_value = 2,
  failed_to_parse = 9,
  unauthorized = 13,
  type_mismatch = 14,
  invalid_length = 16,
  illegal_operation = 20,
  authentication_failed = 18,
  invalid_bson = 22,
  namespace_not_found = 26,
  index_not_found = 27,
  path_not_viable = 28,
  conflicting_update_operators = 40,
  cursor_not_found = 43,
  dollar_prefixed_field_name = 52,
  invalid_id_field = 53,
  empty_field_name = 56,
  command_not_found = 59,
  immutable_field = 66,
  cannot_create_index = 67,
  invalid_options = 72,
  invalid_namespace = 73,
  index_options_conflict = 85,
  index_key_specs_conflict = 86,
  operation_failed = 96,
  unsupported_format = 247,
  query_exceeded_memory_limit = 292,
  bson_object_too_large = 10334,
  duplicate_key = 11000,
  out_of_disk_space = 14031,
  key_too_long = 17280,
  projection_mixed = 31254,
  unknown_field = 40415,
};
/// "DuplicateKey"; "Location31254" where MongoDB has no name.
[[nodiscard]] std::string name_of(Code code);

struct Failure {
  Code code = Code::internal_error;
  std::string message;
};

/// A value, or why there is none. As perdure::Result, whose errors have no such codes.
template <class T>
class [[nodiscard]] Answer {
 public:
  Answer(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Answer(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}
  Answer(Code code, std::string message)
      : state_(std::in_place_index<1>, Failure{code, std::move(message)}) {}

  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }
  /// Calling these on the other kind of state ends the program, in every build.
  [[nodiscard]] T& value() & {
    if (!ok()) [[unlikely]]
      no_value(as_error());
    return *std::get_if<0>(&state_);
  }
  [[nodiscard]] const T& value() const& {
    if (!ok()) [[unlikely]]
      no_value(as_error());
    return *std::get_if<0>(&state_);
  }
  [[nodiscard]] T&& value() && { return std::move(value()); }
  [[nodiscard]] const Failure& failure() const {
    if (ok()) [[unlikely]]
      no_error();
    return *std::get_if<1>(&state_);
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  /// The failure as whoever does not care for codes takes it.
  [[nodiscard]] Error as_error() const { return {ErrorCode::failed, failure().message, {}, {}}; }

 private:
  std::variant<T, Failure> state_;
};

/// Of what has no value: nothing, or a Failure.
struct Done {};

}  // namespace perdure::engine
