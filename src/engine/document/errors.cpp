#include "engine/document/errors.h"

namespace perdure::engine {

std::string name_of(Code code) {
  switch (code) {
    case Code::internal_error:
      return "InternalError";
    case Code::bad_value:
      return "BadValue";
    case Code::failed_to_parse:
      return "FailedToParse";
    case Code::unauthorized:
      return "Unauthorized";
    case Code::type_mismatch:
      return "TypeMismatch";
    case Code::invalid_length:
      return "InvalidLength";
    case Code::illegal_operation:
      return "IllegalOperation";
    case Code::authentication_failed:
      return "AuthenticationFailed";
    case Code::invalid_bson:
      return "InvalidBSON";
    case Code::namespace_not_found:
      return "NamespaceNotFound";
    case Code::index_not_found:
      return "IndexNotFound";
    case Code::path_not_viable:
      return "PathNotViable";
    case Code::conflicting_update_operators:
      return "ConflictingUpdateOperators";
    case Code::cursor_not_found:
      return "CursorNotFound";
    case Code::dollar_prefixed_field_name:
      return "DollarPrefixedFieldName";
    case Code::invalid_id_field:
      return "InvalidIdField";
    case Code::empty_field_name:
      return "EmptyFieldName";
    case Code::command_not_found:
      return "CommandNotFound";
    case Code::immutable_field:
      return "ImmutableField";
    case Code::cannot_create_index:
      return "CannotCreateIndex";
    case Code::invalid_options:
      return "InvalidOptions";
    case Code::invalid_namespace:
      return "InvalidNamespace";
    case Code::index_options_conflict:
      return "IndexOptionsConflict";
    case Code::index_key_specs_conflict:
      return "IndexKeySpecsConflict";
    case Code::operation_failed:
      return "OperationFailed";
    case Code::unsupported_format:
      return "UnsupportedFormat";
    case Code::query_exceeded_memory_limit:
      return "QueryExceededMemoryLimitNoDiskUseAllowed";
    case Code::bson_object_too_large:
      return "BSONObjectTooLarge";
    case Code::duplicate_key:
      return "DuplicateKey";
    case Code::out_of_disk_space:
      return "OutOfDiskSpace";
    case Code::key_too_long:
      return "KeyTooLong";
    case Code::projection_mixed:
    case Code::unknown_field:
      break;
  }
  return "Location" + std::to_string(static_cast<std::int32_t>(code));
}

}  // namespace perdure::engine
