// The commands of RedisSession that read and write values.
#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "server/redis/glob.h"
#include "server/redis/replies.h"
#include "server/redis/session.h"

namespace perdure::server::redis {
namespace {

using engine::Status;

// A reply is made in memory before it is sent.
constexpr std::size_t max_reply_bytes = 128U << 20;
constexpr std::uint64_t most_scanned = 10'000;  // COUNT is a hint
constexpr std::uint64_t default_scanned = 10;

std::string complaint_of(Status status) {
  switch (status) {
    case Status::out_of_space:
      return "OOM the pool is full; delete keys, or serve a larger pool";
    case Status::corrupt:
      return "ERR the record of this key is corrupt; stop the server and run perdure engine check";
    case Status::too_long:
      return "ERR the key or the value is too long";
    default:
      return "ERR the store cannot do this";
  }
}

std::string long_key() {
  return "ERR the key is longer than " + std::to_string(max_redis_key_bytes) + " bytes";
}

bool is_too_long(std::string_view key) noexcept { return key.size() > max_redis_key_bytes; }

std::optional<std::uint64_t> number_of(std::string_view text) noexcept {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc{} || read.ptr != end) return {};
  return number;
}

/// Options of SET after key and value.
struct SetOptions {
  Put kind = Put::upsert;
  bool tells = false;
};

/// Empty: read; else the complaint.
std::string read_set_options(std::span<const std::string_view> words, SetOptions& options) {
  for (const std::string_view word : words) {
    if (is_word(word, "get")) {
      options.tells = true;
    } else if (is_word(word, "nx") && options.kind != Put::update) {
      options.kind = Put::insert;
    } else if (is_word(word, "xx") && options.kind != Put::insert) {
      options.kind = Put::update;
    } else if (is_word(word, "ex") || is_word(word, "px") || is_word(word, "exat") ||
               is_word(word, "pxat") || is_word(word, "keepttl")) {
      return "ERR SET's " + std::string(word) + " is not supported: keys here do not expire";
    } else {
      return "ERR syntax error";
    }
  }
  return {};
}

/// Options of SCAN after the cursor.
struct ScanOptions {
  std::optional<std::string_view> pattern;
  std::uint64_t count = default_scanned;
};

std::string read_scan_options(std::span<const std::string_view> words, ScanOptions& options) {
  for (std::size_t i = 0; i < words.size(); i += 2) {
    if (is_word(words[i], "type"))
      return "ERR SCAN's TYPE is not supported: all values are strings";
    if (i + 1 == words.size()) return "ERR syntax error";
    if (is_word(words[i], "match")) {
      options.pattern = words[i + 1];
    } else if (is_word(words[i], "count")) {
      const auto count = number_of(words[i + 1]);
      if (!count) return "ERR value is not an integer or out of range";
      if (*count == 0) return "ERR syntax error";
      options.count = std::min(*count, most_scanned);
    } else {
      return "ERR syntax error";
    }
  }
  return {};
}

}  // namespace

void RedisSession::get(Arguments arguments, std::string& out) {
  if (is_too_long(arguments[1])) return append_nil(out);
  const Status status = service_.values->get(arguments[1], value_);
  if (status == Status::ok) return append_bulk(out, value_);
  if (status == Status::not_found) return append_nil(out);
  append_error(out, complaint_of(status));
}

void RedisSession::set(Arguments arguments, std::string& out) {
  SetOptions options;
  if (const std::string wrong = read_set_options(arguments.subspan(3), options); !wrong.empty())
    return append_error(out, wrong);
  const std::string_view key = arguments[1];
  if (is_too_long(key)) return append_error(out, long_key());
  return options.tells ? set_and_tell(key, arguments[2], options.kind, out)
                       : set_plainly(key, arguments[2], options.kind, out);
}

void RedisSession::set_plainly(std::string_view key, std::string_view value, Put kind,
                               std::string& out) {
  const Status status = service_.values->set(key, value, kind);
  if (status == Status::ok) return append_simple(out, "OK");
  if (status == Status::exists || status == Status::not_found) return append_nil(out);
  append_error(out, complaint_of(status));
}

void RedisSession::set_and_tell(std::string_view key, std::string_view value, Put kind,
                                std::string& out) {
  bool had_value = false;
  const Status status = service_.values->exchange(key, value, kind, value_, had_value);
  if (status != Status::ok && status != Status::exists && status != Status::not_found)
    return append_error(out, complaint_of(status));
  return had_value ? append_bulk(out, value_) : append_nil(out);
}

void RedisSession::del(Arguments arguments, std::string& out) {
  std::uint64_t removed = 0;
  for (const std::string_view key : arguments.subspan(1)) {
    if (is_too_long(key)) continue;
    const Status status = service_.values->remove(key);
    if (status == Status::not_found) continue;
    if (status != Status::ok && status != Status::corrupt)
      return append_error(out, complaint_of(status));
    ++removed;
  }
  append_integer(out, removed);
}

void RedisSession::exists(Arguments arguments, std::string& out) {
  std::uint64_t found = 0;
  for (const std::string_view key : arguments.subspan(1))
    if (!is_too_long(key) && service_.values->get(key, value_) != Status::not_found) ++found;
  append_integer(out, found);
}

void RedisSession::mget(Arguments arguments, std::string& out) {
  const std::size_t begin = out.size();
  const auto refuse = [&](const std::string& complaint) {
    out.resize(begin);
    append_error(out, complaint);
  };
  append_array(out, arguments.size() - 1);
  for (const std::string_view key : arguments.subspan(1)) {
    const Status status = is_too_long(key) ? Status::not_found : service_.values->get(key, value_);
    if (status == Status::not_found) {
      append_nil(out);
    } else if (status == Status::ok) {
      append_bulk(out, value_);
    } else {
      return refuse(complaint_of(status));
    }
    if (out.size() - begin > max_reply_bytes)
      return refuse("ERR the values are longer than 128 MB together; ask for fewer keys");
  }
}

// Each pair is written by itself: a full pool or a crash may leave a beginning of them. The reply
// comes when all are durable.
void RedisSession::mset(Arguments arguments, std::string& out) {
  const Arguments pairs = arguments.subspan(1);
  if (pairs.size() % 2 != 0)
    return append_error(out, "ERR wrong number of arguments for 'mset' command");
  for (std::size_t i = 0; i < pairs.size(); i += 2)
    if (is_too_long(pairs[i])) return append_error(out, long_key());
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    const Status status = service_.values->set(pairs[i], pairs[i + 1], Put::upsert);
    if (status == Status::ok) continue;
    return append_error(out, complaint_of(status) + "; the first " + std::to_string(i / 2) +
                                 " of " + std::to_string(pairs.size() / 2) + " keys are set");
  }
  append_simple(out, "OK");
}

void RedisSession::scan(Arguments arguments, std::string& out) {
  const auto cursor = number_of(arguments[1]);
  if (!cursor) return append_error(out, "ERR invalid cursor");
  ScanOptions options;
  if (const std::string wrong = read_scan_options(arguments.subspan(2), options); !wrong.empty())
    return append_error(out, wrong);
  const auto from = *cursor == 0 ? std::string() : service_.cursors.find(*cursor);
  if (!from)
    return append_error(out, "ERR this cursor is unknown or too old; begin again with SCAN 0");
  std::vector<std::string> keys;
  std::string next;
  const bool goes_on =
      service_.values->scan(*from, static_cast<std::size_t>(options.count), keys, next);
  if (options.pattern)
    std::erase_if(keys,
                  [&](const std::string& key) { return !matches_glob(*options.pattern, key); });
  append_array(out, 2);
  append_bulk(out, std::to_string(goes_on ? service_.cursors.add(next) : 0));
  append_array(out, keys.size());
  for (const std::string& key : keys) append_bulk(out, key);
}

void RedisSession::dbsize(Arguments /*arguments*/, std::string& out) {
  append_integer(out, service_.values->size());
}

}  // namespace perdure::server::redis
