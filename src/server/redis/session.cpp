#include "server/redis/session.h"

#include <algorithm>
#include <array>
#include <limits>

#include "server/redis/replies.h"

namespace perdure::server::redis {
namespace {

constexpr RequestLimits limits{1U << 20, engine::max_document_bytes, max_frame_bytes};
// R2: whoever does not know the password cannot make the server hold much.
constexpr RequestLimits limits_before_password{10, 16U << 10, 64U << 10};
constexpr unsigned most_wrong_passwords = 8;
constexpr std::size_t any = std::numeric_limits<std::size_t>::max();
// Values and keys up to these lengths are kept as buffers between requests.
constexpr std::size_t kept_value_bytes = 1U << 20;
constexpr std::size_t shown_bytes = 128;

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

std::string shown(std::string_view text) { return std::string(text.substr(0, shown_bytes)); }

std::string unknown_command(std::span<const std::string_view> arguments) {
  std::string text = "ERR unknown command '" + shown(arguments[0]) + "'";
  if (arguments.size() == 1) return text;
  text += ", with args beginning with:";
  for (const std::string_view argument : arguments.subspan(1)) {
    if (text.size() > 2 * shown_bytes) break;
    text += " '" + shown(argument) + "'";
  }
  return text;
}

}  // namespace

bool is_word(std::string_view text, std::string_view word) noexcept {
  return text.size() == word.size() &&
         std::equal(text.begin(), text.end(), word.begin(),
                    [](char given, char wanted) { return lower(given) == wanted; });
}

const RedisSession::Command* RedisSession::find(std::string_view name) noexcept {
  // The most frequent ones come first.
  static constexpr std::array<Command, 17> commands = {
      {{"get", 2, 2, &RedisSession::get},
       {"set", 3, any, &RedisSession::set},
       {"del", 2, any, &RedisSession::del},
       {"exists", 2, any, &RedisSession::exists},
       {"mget", 2, any, &RedisSession::mget},
       {"mset", 3, any, &RedisSession::mset},
       {"scan", 2, any, &RedisSession::scan},
       {"dbsize", 1, 1, &RedisSession::dbsize},
       {"ping", 1, 2, &RedisSession::ping},
       {"echo", 2, 2, &RedisSession::echo},
       {"select", 2, 2, &RedisSession::select},
       {"auth", 2, 3, &RedisSession::auth, true},
       {"hello", 1, any, &RedisSession::hello, true},
       {"quit", 1, any, &RedisSession::quit, true},
       {"info", 1, any, &RedisSession::info},
       {"config", 2, any, &RedisSession::config},
       {"command", 1, any, &RedisSession::command}}};
  const auto found =
      std::ranges::find_if(commands, [name](const Command& c) { return is_word(name, c.name); });
  return found == commands.end() ? nullptr : &*found;
}

void RedisSession::execute(Arguments arguments, std::string& out) {
  const Command* const command = find(arguments[0]);
  if (!is_known_ && (command == nullptr || !command->before_password))
    return append_error(out, "NOAUTH Authentication required.");
  if (command == nullptr) return append_error(out, unknown_command(arguments));
  if (arguments.size() < command->least_arguments || arguments.size() > command->most_arguments)
    return append_error(
        out, "ERR wrong number of arguments for '" + std::string(command->name) + "' command");
  (this->*command->run)(arguments, out);
  if (value_.capacity() > kept_value_bytes) value_ = {};
}

Result<std::size_t> RedisSession::consume(std::string_view input, std::string& output) {
  std::size_t taken = 0;
  const auto end = [&output](std::string reason) {
    append_error(output, "ERR " + reason);
    return Error{ErrorCode::bad_input, std::move(reason), "", ""};
  };
  while (!wants_end_ && output.size() <= output_mark_bytes) {
    const auto found =
        reader_.next(input.substr(taken), is_known_ ? limits : limits_before_password);
    if (found == RequestReader::Found::incomplete) break;
    if (found == RequestReader::Found::broken) return end("Protocol error: " + reader_.complaint());
    taken += reader_.bytes();
    const Arguments arguments = reader_.arguments();
    if (arguments.empty()) continue;
    // A web page can make a browser send requests to a port of its own machine.
    if (is_word(arguments[0], "post") || is_word(arguments[0], "host:"))
      return end("Protocol error: this is no HTTP server");
    execute(arguments, output);
    if (wrong_passwords_ >= most_wrong_passwords) return end("too many wrong passwords");
  }
  return taken;
}

}  // namespace perdure::server::redis
