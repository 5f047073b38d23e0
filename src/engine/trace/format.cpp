#include "engine/trace/format.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "core/assert.h"
#include "engine/store/record.h"

namespace perdure::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they are");

constexpr std::uint8_t end_action = 255;
constexpr std::uint8_t flag_has_entries = 1;
constexpr std::uint8_t flag_removes = 2;
constexpr std::size_t fixed_bytes = 40;
constexpr std::size_t end_bytes = 12 + 5 * sizeof(std::uint64_t);
constexpr std::size_t header_crc_at = 12;
constexpr std::size_t header_pool_at = 16;
constexpr std::size_t header_index_at = 32;

template <class Number>
void append(std::string& out, Number number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

template <class Number>
Number number_at(std::string_view bytes, std::size_t at) noexcept {
  Number number;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

std::uint32_t limited(std::uint64_t number) noexcept {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(number, std::numeric_limits<std::uint32_t>::max()));
}

void append_entries(std::string& out, std::span<const EntryText* const> entries) {
  for (const EntryText* entry : entries) {
    append(out, static_cast<std::uint32_t>(entry->text.size() * 2 + (entry->unique ? 1 : 0)));
    out += entry->text;
  }
}

/// Fills in length and checksum of the record that begins at `begin`.
void seal(std::string& out, std::size_t begin) {
  const auto bytes = static_cast<std::uint32_t>(out.size() - begin - trace_prefix_bytes);
  std::memcpy(out.data() + begin + 4, &bytes, sizeof bytes);
  const std::uint32_t crc = extend_crc(0, std::string_view(out).substr(begin + 4));
  std::memcpy(out.data() + begin, &crc, sizeof crc);
}

/// Takes texts from the rest of a record.
class Rest {
 public:
  explicit Rest(std::string_view rest) noexcept : rest_(rest) {}
  [[nodiscard]] std::string_view take(std::size_t bytes) noexcept {
    is_whole_ = is_whole_ && bytes <= rest_.size();
    if (!is_whole_) return {};
    const std::string_view text = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return text;
  }
  void take_entries(std::uint32_t count, std::vector<TraceEntry>& entries) {
    entries.clear();
    for (std::uint32_t i = 0; i < count && is_whole_; ++i) {
      const std::string_view head = take(sizeof(std::uint32_t));
      if (!is_whole_) return;
      const auto length = number_at<std::uint32_t>(head, 0);
      entries.push_back({take(length / 2), length % 2 != 0});
    }
  }
  [[nodiscard]] bool is_over() const noexcept { return is_whole_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool is_whole_ = true;
};

bool decode(std::string_view record, TraceOperation& operation) {
  if (record.size() < fixed_bytes) return false;
  const auto action = number_at<std::uint8_t>(record, 8);
  const auto status = number_at<std::uint8_t>(record, 9);
  const auto flags = number_at<std::uint8_t>(record, 10);
  if (action >= actions || status > static_cast<std::uint8_t>(Status::busy) || flags > 3)
    return false;
  operation.action = static_cast<Action>(action);
  operation.status = static_cast<Status>(status);
  operation.has_entries = (flags & flag_has_entries) != 0;
  operation.removes = (flags & flag_removes) != 0;
  operation.answer = number_at<std::uint32_t>(record, 12);
  operation.count = number_at<std::uint32_t>(record, 16);
  operation.found = number_at<std::uint32_t>(record, 20);
  Rest rest(record.substr(fixed_bytes));
  operation.key = rest.take(number_at<std::uint32_t>(record, 24));
  operation.second = rest.take(number_at<std::uint32_t>(record, 28));
  rest.take_entries(number_at<std::uint32_t>(record, 32), operation.added);
  rest.take_entries(number_at<std::uint32_t>(record, 36), operation.gone);
  return rest.is_over();
}

}  // namespace

std::string TraceHeader::encoded() const {
  std::string out(trace_magic);
  append(out, trace_version);
  append(out, std::uint32_t{0});
  append(out, pool_bytes);
  append(out, documents);
  out += index.substr(0, trace_header_bytes - header_index_at);
  out.resize(trace_header_bytes);
  const std::uint32_t crc = extend_crc(0, std::string_view(out).substr(header_pool_at));
  std::memcpy(out.data() + header_crc_at, &crc, sizeof crc);
  return out;
}

std::optional<TraceHeader> read_header(std::string_view bytes, std::uint32_t& version) {
  version = 0;
  if (bytes.size() < trace_header_bytes || !bytes.starts_with(trace_magic)) return {};
  version = number_at<std::uint32_t>(bytes, trace_magic.size());
  const std::string_view covered =
      bytes.substr(header_pool_at, trace_header_bytes - header_pool_at);
  if (version != trace_version ||
      number_at<std::uint32_t>(bytes, header_crc_at) != extend_crc(0, covered))
    return {};
  const std::string_view name = bytes.substr(header_index_at, trace_header_bytes - header_index_at);
  return TraceHeader{.pool_bytes = number_at<std::uint64_t>(bytes, header_pool_at),
                     .documents = number_at<std::uint64_t>(bytes, header_pool_at + 8),
                     .index = std::string(name.substr(0, name.find('\0')))};
}

std::string TraceEnd::encoded() const {
  std::string out(trace_prefix_bytes, '\0');
  append(out, end_action);
  out.resize(12);
  for (const std::uint64_t number :
       {operations, digest.documents, digest.entries, digest.sum[0], digest.sum[1]})
    append(out, number);
  seal(out, 0);
  return out;
}

bool TraceOperation::has_unique() const noexcept {
  return std::ranges::any_of(added, &TraceEntry::unique) ||
         std::ranges::any_of(gone, &TraceEntry::unique);
}

void append_record(const Observation& seen, std::string& out) {
  const bool finds = seen.action == Action::lookup || seen.action == Action::read;
  const bool ranges = seen.action == Action::scan || seen.action == Action::scan_entries ||
                      seen.action == Action::remove_entries;
  const std::string_view second = ranges ? seen.to : finds ? std::string_view() : seen.document;
  const std::size_t begin = out.size();
  out.append(trace_prefix_bytes, '\0');
  append(out, static_cast<std::uint8_t>(seen.action));
  append(out, static_cast<std::uint8_t>(seen.status));
  append(out, static_cast<std::uint8_t>((seen.has_entries ? flag_has_entries : 0) |
                                        (seen.removes ? flag_removes : 0)));
  append(out, std::uint8_t{0});
  append(out, finds ? extend_crc(0, seen.document) : std::uint32_t{0});
  append(out, limited(seen.count));
  append(out, limited(seen.found));
  append(out, static_cast<std::uint32_t>(seen.key.size()));
  append(out, static_cast<std::uint32_t>(second.size()));
  append(out, static_cast<std::uint32_t>(seen.added.size()));
  append(out, static_cast<std::uint32_t>(seen.gone.size()));
  out.append(seen.key).append(second);
  append_entries(out, seen.added);
  append_entries(out, seen.gone);
  seal(out, begin);
}

TracePart read_record(std::string_view bytes, TraceOperation& operation, TraceEnd& end,
                      std::size_t& taken) {
  taken = 0;
  if (bytes.size() < trace_prefix_bytes) return TracePart::cut_off;
  const auto length = number_at<std::uint32_t>(bytes, 4);
  if (length > most_trace_record_bytes) return TracePart::damaged;
  if (bytes.size() - trace_prefix_bytes < length) return TracePart::cut_off;
  const std::string_view record = bytes.substr(0, trace_prefix_bytes + length);
  if (length < 4 || number_at<std::uint32_t>(record, 0) != extend_crc(0, record.substr(4)))
    return TracePart::damaged;
  taken = record.size();
  if (number_at<std::uint8_t>(record, 8) != end_action)
    return decode(record, operation) ? TracePart::operation : TracePart::damaged;
  if (record.size() != end_bytes) return TracePart::damaged;
  const auto number = [&](std::size_t i) { return number_at<std::uint64_t>(record, 12 + 8 * i); };
  end.operations = number(0);
  end.digest = {.sum = {number(3), number(4)}, .documents = number(1), .entries = number(2)};
  return TracePart::end;
}

void decode_again(std::string_view record, TraceOperation& operation) {
  [[maybe_unused]] const bool is_whole = decode(record, operation);
  PERDURE_ASSERT(is_whole);
}

}  // namespace perdure::engine
