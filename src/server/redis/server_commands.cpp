// The commands of RedisSession about the connection and the server.
#include <unistd.h>

#include <array>
#include <utility>

#include "server/redis/glob.h"
#include "server/redis/replies.h"
#include "server/redis/session.h"

namespace perdure::server::redis {
namespace {

using engine::StoreUsage;

// The version whose replies these commands give; clients choose commands by it.
constexpr std::string_view redis_version = "7.0.0";

// What redis-benchmark and others ask. A reply to a write means that it is durable, which Redis
// calls this.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> settings = {
    {{"save", ""},
     {"appendonly", "yes"},
     {"appendfsync", "always"},
     {"databases", "1"},
     {"proto-max-bulk-len", "16777216"},
     {"maxmemory-policy", "noeviction"}}};

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return lower;
}

void append_field(std::string& text, std::string_view name, std::string_view value) {
  text.append(name).append(":").append(value).append("\r\n");
}
void append_field(std::string& text, std::string_view name, std::uint64_t value) {
  append_field(text, name, std::to_string(value));
}

std::string server_section(const RedisService& service) {
  using std::chrono::seconds;
  const auto up = std::chrono::steady_clock::now() - service.started;
  std::string text = "# Server\r\n";
  append_field(text, "redis_version", redis_version);
  append_field(text, "redis_mode", "standalone");
  append_field(text, "perdure_version", service.version);
  append_field(text, "process_id", static_cast<std::uint64_t>(getpid()));
  append_field(text, "uptime_in_seconds",
               static_cast<std::uint64_t>(std::chrono::duration_cast<seconds>(up).count()));
  return text;
}

std::string persistence_section() {
  std::string text = "# Persistence\r\n";
  append_field(text, "loading", "0");
  append_field(text, "aof_enabled", "1");
  return text;
}

std::string pool_section(const StoreUsage& usage) {
  std::string text = "# Pool\r\n";
  append_field(text, "pool_documents", usage.documents);
  append_field(text, "pool_live_bytes", usage.live_bytes);
  append_field(text, "pool_extent_bytes", usage.extent_bytes);
  append_field(text, "pool_segment_bytes", usage.segment_bytes);
  append_field(text, "pool_moved_bytes", usage.moved_bytes);
  append_field(text, "used_memory", usage.dram_bytes);
  return text;
}

std::string keyspace_section(std::uint64_t keys) {
  std::string text = "# Keyspace\r\n";
  if (keys != 0) append_field(text, "db0", "keys=" + std::to_string(keys) + ",expires=0,avg_ttl=0");
  return text;
}

}  // namespace

void RedisSession::ping(Arguments arguments, std::string& out) {
  if (arguments.size() == 2) return append_bulk(out, arguments[1]);
  append_simple(out, "PONG");
}

void RedisSession::echo(Arguments arguments, std::string& out) { append_bulk(out, arguments[1]); }

void RedisSession::select(Arguments arguments, std::string& out) {
  if (arguments[1] != "0") return append_error(out, "ERR DB index is out of range");
  append_simple(out, "OK");
}

bool RedisSession::check_password(std::string_view user, std::string_view password,
                                  std::string& out) {
  if (service_.password == nullptr) {
    append_error(out, "ERR AUTH <password> called without any password configured for this server");
    return false;
  }
  // Both are looked at, so that the time taken says nothing of either.
  const bool right = service_.password->matches(password);
  if (right && user == "default") {
    is_known_ = true;
    wrong_passwords_ = 0;
    return true;
  }
  ++wrong_passwords_;
  append_error(out, "WRONGPASS invalid username-password pair or user is disabled.");
  return false;
}

void RedisSession::auth(Arguments arguments, std::string& out) {
  const std::string_view user = arguments.size() == 3 ? arguments[1] : "default";
  if (check_password(user, arguments.back(), out)) append_simple(out, "OK");
}

void RedisSession::hello(Arguments arguments, std::string& out) {
  if (arguments.size() > 1 && arguments[1] != "2")
    return append_error(out, "NOPROTO unsupported protocol version; this server speaks RESP2");
  for (std::size_t i = 2; i < arguments.size();) {
    if (is_word(arguments[i], "auth") && i + 2 < arguments.size()) {
      if (!check_password(arguments[i + 1], arguments[i + 2], out)) return;
      i += 3;
    } else if (is_word(arguments[i], "setname") && i + 1 < arguments.size()) {
      i += 2;  // a name for lists of clients, which there are none of
    } else {
      return append_error(out, "ERR Syntax error in HELLO option");
    }
  }
  if (!is_known_)
    return append_error(out,
                        "NOAUTH HELLO must be called with the client already authenticated, "
                        "otherwise HELLO 2 AUTH default <password> does both");
  append_array(out, 14);
  for (const std::string_view text : {std::string_view("server"), std::string_view("redis"),
                                      std::string_view("version"), redis_version})
    append_bulk(out, text);
  append_bulk(out, "proto");
  append_integer(out, 2);
  append_bulk(out, "id");
  append_integer(out, 0);
  for (const std::string_view text : {"mode", "standalone", "role", "master", "modules"})
    append_bulk(out, text);
  append_array(out, 0);
}

void RedisSession::quit(Arguments /*arguments*/, std::string& out) {
  wants_end_ = true;
  append_simple(out, "OK");
}

void RedisSession::info(Arguments arguments, std::string& out) {
  const auto wanted = [&](std::string_view section) {
    if (arguments.size() == 1) return true;
    for (const std::string_view name : arguments.subspan(1))
      if (is_word(name, section) || is_word(name, "all") || is_word(name, "everything") ||
          is_word(name, "default"))
        return true;
    return false;
  };
  std::string text;
  const auto add = [&text](const std::string& section) {
    text += (text.empty() ? "" : "\r\n") + section;
  };
  if (wanted("server")) add(server_section(service_));
  if (wanted("persistence")) add(persistence_section());
  if (wanted("pool") || wanted("memory")) add(pool_section(service_.values->usage()));
  if (wanted("keyspace")) add(keyspace_section(service_.values->size()));
  append_bulk(out, text);
}

void RedisSession::config(Arguments arguments, std::string& out) {
  if (!is_word(arguments[1], "get"))
    return append_error(out, "ERR CONFIG's " + lower_case(arguments[1].substr(0, 32)) +
                                 " is not supported: flags of perdure serve set the server up");
  if (arguments.size() == 2)
    return append_error(out, "ERR wrong number of arguments for 'config|get' command");
  std::string fields;
  std::size_t count = 0;
  for (const auto& [name, value] : settings) {
    for (const std::string_view pattern : arguments.subspan(2)) {
      if (!matches_glob(lower_case(pattern), name)) continue;
      append_bulk(fields, name);
      append_bulk(fields, value);
      ++count;
      break;
    }
  }
  append_array(out, 2 * count);
  out += fields;
}

// Clients take descriptions of commands for their help only.
void RedisSession::command(Arguments /*arguments*/, std::string& out) { append_array(out, 0); }

}  // namespace perdure::server::redis
