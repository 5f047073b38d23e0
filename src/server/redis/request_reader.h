// RequestReader: finds requests of RESP2 in what a client has sent.
//
//   *2\r\n$3\r\nGET\r\n$1\r\nk\r\n     an array of bulk strings
//   GET k\r\n                          or a line, as typed into telnet (inline)
//
// A request may arrive in many pieces. The reader remembers how far it has looked, so that reading
// one costs as much as it is long, however it is cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace perdure::server::redis {

/// What a request may be.
struct RequestLimits {
  std::size_t arguments;
  std::size_t argument_bytes;
  std::size_t frame_bytes;
};

class RequestReader {
 public:
  enum class Found : std::uint8_t {
    request,     ///< `arguments` has it, `bytes` is its length
    incomplete,  ///< more input is needed
    broken,      ///< `complaint` says why; what follows cannot be understood
  };

  /// Looks at `input`, which begins with the next request: after `incomplete`, with the same bytes
  /// as before and perhaps more.
  Found next(std::string_view input, const RequestLimits& limits);
  /// Of the request found, none for an empty one; valid as long as the input.
  [[nodiscard]] std::span<const std::string_view> arguments() const noexcept { return arguments_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return at_; }
  [[nodiscard]] const std::string& complaint() const noexcept { return complaint_; }

 private:
  struct Range {
    std::size_t at;
    std::size_t bytes;
  };

  Found broken(std::string complaint);
  Found read_array(std::string_view input, const RequestLimits& limits);
  Found read_inline(std::string_view input);
  /// The number between the byte at `at_`, which is `mark`, and the end of its line; moves `at_`
  /// there. `incomplete` leaves it.
  Found read_number(std::string_view input, char mark, std::int64_t& number, const char* complaint);
  /// The words of an inline request go to `words_`. False: quotes are not closed.
  bool split(std::string_view line);
  void begin();

  std::size_t at_ = 0;          ///< up to here the request is read
  std::size_t missing_ = 0;     ///< arguments
  std::size_t bulk_bytes_ = 0;  ///< of the argument whose length was read
  bool in_array_ = false;       ///< its number of arguments was read
  bool in_bulk_ = false;        ///< an argument's length was read, the argument was not
  bool is_done_ = true;         ///< the next call begins a request
  std::vector<Range> ranges_;   ///< of the arguments read, in the input or in `words_`
  std::string words_;
  std::vector<std::string_view> arguments_;
  std::string complaint_;
};

}  // namespace perdure::server::redis
