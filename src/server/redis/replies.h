// Replies of RESP2, appended to what is to be sent.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace perdure::server::redis {

namespace detail {
inline void append_line(std::string& out, char mark, std::int64_t number) {
  char text[24];
  const auto end = std::to_chars(text, text + sizeof text, number);
  out.push_back(mark);
  out.append(text, end.ptr);
  out.append("\r\n");
}
}  // namespace detail

inline void append_integer(std::string& out, std::uint64_t number) {
  detail::append_line(out, ':', static_cast<std::int64_t>(number));
}
inline void append_bulk(std::string& out, std::string_view text) {
  detail::append_line(out, '$', static_cast<std::int64_t>(text.size()));
  out.append(text);
  out.append("\r\n");
}
/// The reply for an absent value.
inline void append_nil(std::string& out) { out.append("$-1\r\n"); }
/// So many replies follow.
inline void append_array(std::string& out, std::size_t size) {
  detail::append_line(out, '*', static_cast<std::int64_t>(size));
}
/// `text` is one of ours, of one line.
inline void append_simple(std::string& out, std::string_view text) {
  out.push_back('+');
  out.append(text);
  out.append("\r\n");
}
/// `text` begins with a kind, as "ERR"; bytes that would end the line are replaced.
inline void append_error(std::string& out, std::string_view text) {
  out.push_back('-');
  for (const char c : text) out.push_back(c >= ' ' && c != '\x7f' ? c : ' ');
  out.append("\r\n");
}

}  // namespace perdure::server::redis
