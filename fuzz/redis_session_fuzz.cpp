// Sends arbitrary bytes to a Redis session, at once and in two pieces. Whatever they are: no crash,
// the same replies however the input is cut, and replies of RESP2 only.
//
// The first two bytes say where to cut; with the high bit of the first one, a password is needed.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "server/redis/session.h"
#include "server/redis/test_map_key_values.h"

namespace {

using perdure::server::Password;
using perdure::server::redis::MapKeyValues;
using perdure::server::redis::RedisService;
using perdure::server::redis::RedisSession;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "redis_session_fuzz: %s\n", what);
  std::abort();
}

/// Takes one reply from the beginning of `text`. False: there is none.
bool take_reply(std::string_view& text) {
  const std::size_t end = text.find("\r\n");
  if (end == std::string_view::npos || end == 0) return false;
  const char mark = text.front();
  const std::string line(text.substr(1, end - 1));
  text.remove_prefix(end + 2);
  if (mark == '+' || mark == '-' || mark == ':') return true;
  const long long number = std::atoll(line.c_str());
  if (mark == '*') {
    for (long long i = 0; i < number; ++i)
      if (!take_reply(text)) return false;
    return true;
  }
  if (mark != '$' || number < -1) return false;
  if (number == -1) return true;
  const auto bytes = static_cast<std::size_t>(number);
  if (text.size() < bytes + 2 || text.substr(bytes, 2) != "\r\n") return false;
  text.remove_prefix(bytes + 2);
  return true;
}

/// What a session replies to the input, of which the first `cut` bytes arrive first.
std::string replies_to(std::string_view input, std::size_t cut, const Password* password) {
  MapKeyValues values;
  values.room = 8;
  values.corrupt_key = "bad";
  RedisService service;
  service.values = &values;
  service.password = password;
  RedisSession session(service);
  std::string output;
  std::size_t taken = 0;
  for (const std::size_t arrived : {cut, input.size()}) {
    const auto now = session.consume(input.substr(taken, arrived - taken), output);
    if (!now) break;
    taken += *now;
    require(taken <= arrived, "took more than there was");
    if (session.wants_end()) break;
  }
  return output;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 2, size - 2);
  static const Password password("secret");
  const Password* const needed = (data[0] & 128) != 0 ? &password : nullptr;
  const std::size_t cut = (static_cast<std::size_t>(data[0] & 127) << 8 | data[1]) % (size - 1);

  const std::string whole = replies_to(input, input.size(), needed);
  std::string_view rest = whole;
  while (!rest.empty()) require(take_reply(rest), "the output is not made of replies");
  // INFO tells the time.
  std::string lower(input);
  std::ranges::transform(lower, lower.begin(), [](char c) { return static_cast<char>(c | 32); });
  if (lower.find("info") == std::string::npos)
    require(replies_to(input, cut, needed) == whole,
            "the replies depend on where the input is cut");
  return 0;
}
