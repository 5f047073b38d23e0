#include "server/mongo/wire.h"

#include <bit>
#include <cstring>

#include "engine/document/bson_view.h"
#include "engine/store/record.h"
#include "server/session.h"

namespace perdure::server::mongo {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::int32_t op_reply = 1;
constexpr std::int32_t op_query = 2004;
constexpr std::int32_t op_message = 2013;

constexpr std::uint32_t checksum_present = 1U << 0;
constexpr std::uint32_t more_to_come = 1U << 1;
/// Flags below it change what a message means, so an unknown one must not be ignored.
constexpr std::uint32_t required_flags = 0xFFFF;

constexpr std::size_t checksum_bytes = 4;
constexpr std::size_t least_document_bytes = 5;
constexpr std::size_t max_sequences = 16;

Error broken(std::string what) { return {ErrorCode::bad_input, std::move(what), "", ""}; }

template <class T>
T read_at(std::string_view bytes, std::size_t at) noexcept {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <class T>
void append_raw(T value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Reads what is left of a message from its beginning.
class Reader {
 public:
  explicit Reader(std::string_view rest) : rest_(rest) {}

  [[nodiscard]] bool is_at_end() const noexcept { return rest_.empty(); }
  template <class T>
  bool number(T& value) noexcept {
    if (rest_.size() < sizeof value) return false;
    value = read_at<T>(rest_, 0);
    rest_.remove_prefix(sizeof value);
    return true;
  }
  bool text(std::string_view& value) noexcept {
    const std::size_t end = rest_.find('\0');
    if (end == std::string_view::npos) return false;
    value = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return true;
  }
  /// A document by its length alone.
  bool document(std::string_view& value) noexcept {
    if (rest_.size() < least_document_bytes) return false;
    const auto length = read_at<std::uint32_t>(rest_, 0);
    return length >= least_document_bytes && bytes(length, value);
  }
  bool bytes(std::size_t length, std::string_view& value) noexcept {
    if (length > rest_.size()) return false;
    value = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return true;
  }

 private:
  std::string_view rest_;
};

bool read_sequence(Reader& reader, DocumentSequence& sequence) {
  std::uint32_t length = 0;
  std::string_view bytes;
  if (!reader.number(length) || length < sizeof length ||
      !reader.bytes(length - sizeof length, bytes))
    return false;
  Reader inside(bytes);
  if (!inside.text(sequence.name)) return false;
  while (!inside.is_at_end()) {
    std::string_view document;
    if (!inside.document(document)) return false;
    sequence.documents.push_back(document);
  }
  return true;
}

Result<Request> read_message(std::string_view message, Request request) {
  std::string_view rest = message.substr(header_bytes);
  if (rest.size() < sizeof(std::uint32_t)) return broken("OP_MSG without flags");
  const auto flags = read_at<std::uint32_t>(rest, 0);
  rest.remove_prefix(sizeof flags);
  if ((flags & required_flags & ~(checksum_present | more_to_come)) != 0)
    return broken("OP_MSG with unknown flags");
  request.wants_reply = (flags & more_to_come) == 0;
  request.has_checksum = (flags & checksum_present) != 0;
  if (request.has_checksum) {
    if (rest.size() < checksum_bytes) return broken("OP_MSG without its checksum");
    const std::string_view covered = message.substr(0, message.size() - checksum_bytes);
    if (engine::extend_crc(0, covered) != read_at<std::uint32_t>(message, covered.size()))
      return broken("the checksum of OP_MSG does not match");
    rest.remove_suffix(checksum_bytes);
  }
  Reader reader(rest);
  while (!reader.is_at_end()) {
    std::uint8_t kind = 0;
    (void)reader.number(kind);
    if (kind == 0) {
      if (!request.body.empty()) return broken("OP_MSG with two bodies");
      if (!reader.document(request.body)) return broken("OP_MSG with a truncated body");
    } else if (kind == 1) {
      if (request.sequences.size() == max_sequences) return broken("OP_MSG with many sequences");
      if (!read_sequence(reader, request.sequences.emplace_back()))
        return broken("OP_MSG with a malformed document sequence");
    } else {
      return broken("OP_MSG with an unknown kind of section");
    }
  }
  if (request.body.empty()) return broken("OP_MSG without a body");
  return request;
}

Result<Request> read_query(std::string_view message, Request request) {
  Reader reader(message.substr(header_bytes));
  std::uint32_t flags = 0;
  std::uint32_t skip = 0;
  std::uint32_t count = 0;
  std::string_view name;
  if (!reader.number(flags) || !reader.text(name) || !reader.number(skip) ||
      !reader.number(count) || !reader.document(request.body))
    return broken("OP_QUERY is truncated");
  if (!name.ends_with(".$cmd")) return broken("OP_QUERY serves commands only");
  request.database = name.substr(0, name.find('.'));
  request.is_query = true;
  return request;
}

}  // namespace

Result<std::size_t> message_bytes(std::string_view input) {
  if (input.size() < header_bytes) return std::size_t{0};
  const auto length = read_at<std::uint32_t>(input, 0);
  if (length < header_bytes || length > max_frame_bytes)
    return broken("a message of " + std::to_string(length) + " bytes");
  const auto operation = read_at<std::int32_t>(input, 12);
  if (operation != op_message && operation != op_query)
    return broken("the operation " + std::to_string(operation) + " is not supported");
  return std::size_t{length};
}

Result<Request> read_request(std::string_view message) {
  Request request;
  request.id = read_at<std::int32_t>(message, 4);
  return read_at<std::int32_t>(message, 12) == op_message
             ? read_message(message, std::move(request))
             : read_query(message, std::move(request));
}

engine::Answer<engine::Done> check_documents(const Request& request) {
  if (auto checked = engine::check_document(request.body); !checked) return checked;
  for (const DocumentSequence& sequence : request.sequences)
    for (const std::string_view document : sequence.documents)
      if (auto checked = engine::check_document(document); !checked) return checked;
  return engine::Done{};
}

void write_reply(const Request& request, std::string_view document, std::string& output) {
  constexpr std::uint32_t await_capable = 8;
  const std::size_t begin = output.size();
  append_raw(std::uint32_t{0}, output);  // the length, below
  append_raw(std::int32_t{0}, output);
  append_raw(request.id, output);
  append_raw(request.is_query ? op_reply : op_message, output);
  if (request.is_query) {
    append_raw(await_capable, output);
    append_raw(std::int64_t{0}, output);  // cursor
    append_raw(std::int32_t{0}, output);  // starting from
    append_raw(std::int32_t{1}, output);  // documents
  } else {
    append_raw(request.has_checksum ? checksum_present : std::uint32_t{0}, output);
    output += '\0';
  }
  output.append(document);
  const bool adds_checksum = request.has_checksum && !request.is_query;
  const auto length =
      static_cast<std::uint32_t>(output.size() - begin + (adds_checksum ? checksum_bytes : 0));
  std::memcpy(output.data() + begin, &length, sizeof length);
  if (adds_checksum)
    append_raw(engine::extend_crc(0, std::string_view(output).substr(begin)), output);
}

}  // namespace perdure::server::mongo
