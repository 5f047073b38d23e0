// MongoDB's wire protocol: requests read from bytes, replies written to bytes.
//
//   header    message length | request id | response to | operation    4 bytes each, little-endian
//   OP_MSG    flags | sections ... | CRC-32C of all before it, if flag 0 is set
//             section 0: one document; section 1: length | name 00 | documents ...
//   OP_QUERY  flags | "database.$cmd" 00 | skip | count | document   how old drivers begin
//
// W1  `read_request` follows no length that leads out of the message.
// W2  every document of a request has passed check_document before a command sees any of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "engine/document/errors.h"

namespace perdure::server::mongo {

/// Documents that stand beside the command's own, as in "documents" of an insert.
struct DocumentSequence {
  std::string_view name;
  std::vector<std::string_view> documents;
};

/// A command. Views lead into the message.
struct Request {
  std::int32_t id = 0;
  std::string_view body;
  std::vector<DocumentSequence> sequences;
  std::string_view database;  ///< OP_QUERY: of the namespace; OP_MSG: empty, it is in the body
  bool is_query = false;      ///< to be answered with OP_REPLY
  bool has_checksum = false;
  bool wants_reply = true;
};

inline constexpr std::size_t header_bytes = 16;

/// The length of the message that begins here; 0: too few bytes to tell. Errors: bad_input, for a
/// length or an operation that no message has.
[[nodiscard]] Result<std::size_t> message_bytes(std::string_view input);

/// Of one whole message. Errors: bad_input where it is broken, so that the connection must end.
[[nodiscard]] Result<Request> read_request(std::string_view message);
/// W2. Errors: invalid_bson, which is a reply.
[[nodiscard]] engine::Answer<engine::Done> check_documents(const Request& request);

/// Appends the reply to `request`.
void write_reply(const Request& request, std::string_view document, std::string& output);

}  // namespace perdure::server::mongo
