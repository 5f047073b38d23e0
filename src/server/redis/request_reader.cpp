#include "server/redis/request_reader.h"

#include <algorithm>
#include <charconv>

namespace perdure::server::redis {
namespace {

constexpr std::size_t max_inline_bytes = 64U << 10;
constexpr std::size_t max_number_bytes = 32;
// A request with more arguments than this gives their memory back.
constexpr std::size_t kept_arguments = 4096;

bool is_space(char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r') || c == '\0'; }

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// What the escape at the beginning of `text` means; `used` is its length.
char unescaped(std::string_view text, std::size_t& used) noexcept {
  if (text.size() >= 4 && text[1] == 'x' && hex_digit(text[2]) >= 0 && hex_digit(text[3]) >= 0) {
    used = 4;
    return static_cast<char>(hex_digit(text[2]) * 16 + hex_digit(text[3]));
  }
  used = 2;
  switch (text[1]) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'b':
      return '\b';
    case 'a':
      return '\a';
    default:
      return text[1];
  }
}

}  // namespace

RequestReader::Found RequestReader::broken(std::string complaint) {
  complaint_ = std::move(complaint);
  is_done_ = true;
  return Found::broken;
}

void RequestReader::begin() {
  if (!is_done_) return;
  is_done_ = false;
  at_ = 0;
  missing_ = 0;
  in_array_ = in_bulk_ = false;
  if (ranges_.capacity() > kept_arguments) {
    ranges_ = {};
    arguments_ = {};
  }
  ranges_.clear();
  arguments_.clear();
  words_.clear();
}

RequestReader::Found RequestReader::next(std::string_view input, const RequestLimits& limits) {
  begin();
  if (input.empty()) return Found::incomplete;
  const bool is_array = input.front() == '*';
  const Found found = is_array ? read_array(input, limits) : read_inline(input);
  if (found != Found::request) return found;
  const std::string_view text = is_array ? input : std::string_view(words_);
  arguments_.reserve(ranges_.size());
  for (const Range& range : ranges_) arguments_.push_back(text.substr(range.at, range.bytes));
  is_done_ = true;
  return found;
}

RequestReader::Found RequestReader::read_number(std::string_view input, char mark,
                                                std::int64_t& number, const char* complaint) {
  if (at_ == input.size()) return Found::incomplete;
  if (input[at_] != mark) {
    const char got = input[at_];
    const std::string shown(1, got >= ' ' && got <= '~' ? got : '?');
    return broken(std::string("expected '") + mark + "', got '" + shown + "'");
  }
  const std::string_view rest = input.substr(at_ + 1, max_number_bytes);
  const std::size_t end = rest.find('\n');
  if (end == std::string_view::npos)
    return rest.size() == max_number_bytes ? broken(complaint) : Found::incomplete;
  if (end == 0 || rest[end - 1] != '\r') return broken(complaint);
  const char* const last = rest.data() + end - 1;
  const auto read = std::from_chars(rest.data(), last, number);
  if (read.ec != std::errc{} || read.ptr != last) return broken(complaint);
  at_ += 1 + end + 1;
  return Found::request;
}

RequestReader::Found RequestReader::read_array(std::string_view input,
                                               const RequestLimits& limits) {
  std::int64_t number = 0;
  if (!in_array_) {
    const Found found = read_number(input, '*', number, "invalid multibulk length");
    if (found != Found::request) return found;
    if (number > static_cast<std::int64_t>(limits.arguments))
      return broken("invalid multibulk length");
    in_array_ = true;
    missing_ = number > 0 ? static_cast<std::size_t>(number) : 0;
  }
  while (missing_ > 0) {
    if (!in_bulk_) {
      const Found found = read_number(input, '$', number, "invalid bulk length");
      if (found != Found::request) return found;
      if (number < 0 || number > static_cast<std::int64_t>(limits.argument_bytes))
        return broken("invalid bulk length");
      bulk_bytes_ = static_cast<std::size_t>(number);
      if (at_ + bulk_bytes_ + 2 > limits.frame_bytes)
        return broken("the request is longer than " + std::to_string(limits.frame_bytes) +
                      " bytes");
      in_bulk_ = true;
    }
    if (input.size() - at_ < bulk_bytes_ + 2) return Found::incomplete;
    if (input.substr(at_ + bulk_bytes_, 2) != "\r\n")
      return broken("a bulk string does not end where its length says");
    ranges_.push_back({at_, bulk_bytes_});
    at_ += bulk_bytes_ + 2;
    in_bulk_ = false;
    --missing_;
  }
  return Found::request;
}

RequestReader::Found RequestReader::read_inline(std::string_view input) {
  // Up to `at_` there is no end of line.
  const std::size_t end = input.find('\n', at_);
  if (std::min(end, input.size()) > max_inline_bytes) return broken("too big inline request");
  if (end == std::string_view::npos) {
    at_ = input.size();
    return Found::incomplete;
  }
  std::string_view line = input.substr(0, end);
  if (line.ends_with('\r')) line.remove_suffix(1);
  at_ = end + 1;
  return split(line) ? Found::request : broken("unbalanced quotes in request");
}

bool RequestReader::split(std::string_view line) {
  while (true) {
    while (!line.empty() && is_space(line.front())) line.remove_prefix(1);
    if (line.empty()) return true;
    const std::size_t begin = words_.size();
    char quote = 0;
    while (!line.empty() && (quote != 0 || !is_space(line.front()))) {
      const char c = line.front();
      std::size_t used = 1;
      if (quote == 0 && (c == '"' || c == '\'')) {
        quote = c;
      } else if (quote != 0 && c == quote) {
        // A word ends with its quote.
        if (line.size() > 1 && !is_space(line[1])) return false;
        quote = 0;
      } else if (quote == '"' && c == '\\' && line.size() > 1) {
        words_.push_back(unescaped(line, used));
      } else if (quote == '\'' && line.starts_with("\\'")) {
        words_.push_back('\'');
        used = 2;
      } else {
        words_.push_back(c);
      }
      line.remove_prefix(used);
    }
    if (quote != 0) return false;
    ranges_.push_back({begin, words_.size() - begin});
  }
}

}  // namespace perdure::server::redis
