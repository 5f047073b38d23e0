#include "workload/key_text.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>

namespace perdure::workload {
namespace {

using std::string_view_literals::operator""sv;

struct Packed {
  std::string_view magic;
  const char* name;
  const char* unpack;
};
constexpr std::array<Packed, 5> packed_files = {{{"\x1f\x8b"sv, "gzip", "gunzip -c"},
                                                 {"\x28\xb5\x2f\xfd"sv, "zstd", "zstd -dc"},
                                                 {"\xfd\x37zXZ\0"sv, "xz", "xz -dc"},
                                                 {"BZh"sv, "bzip2", "bunzip2 -c"},
                                                 {"PK\x03\x04"sv, "zip", "unzip -p"}}};

std::size_t line_at(std::string_view content, std::size_t place) {
  return 1 + static_cast<std::size_t>(std::count(
                 content.begin(), content.begin() + static_cast<std::ptrdiff_t>(place), '\n'));
}

// Letters of one byte, each with a zero beside it.
bool is_bare_utf16(std::string_view content) {
  const std::string_view start = content.substr(0, 4096);
  const auto zeros_from = [&](std::size_t first) {
    std::size_t zeros = 0;
    for (std::size_t at = first; at < start.size(); at += 2) zeros += start[at] == '\0' ? 1 : 0;
    return zeros;
  };
  const std::size_t most = start.size() / 2;
  const std::size_t even = zeros_from(0);
  const std::size_t odd = zeros_from(1);
  return content.size() % 2 == 0 && most != 0 &&
         ((even == 0 && odd > most * 3 / 4) || (odd == 0 && even > most * 3 / 4));
}

}  // namespace

Result<std::string> read_key_file(const std::filesystem::path& path) {
  std::error_code failure;
  const std::filesystem::file_status status = std::filesystem::status(path, failure);
  if (status.type() == std::filesystem::file_type::not_found)
    return Error{ErrorCode::not_found, "there is no such key file", path.string(),
                 "name a file with one key per line"};
  if (status.type() == std::filesystem::file_type::directory)
    return Error{ErrorCode::bad_input, "the key file is a directory", path.string(),
                 "name a file with one key per line"};
  // A device may never end.
  if (status.type() != std::filesystem::file_type::regular &&
      status.type() != std::filesystem::file_type::none)
    return Error{ErrorCode::bad_input, "the key file is a device, a pipe or a socket",
                 path.string(), "write its keys to a file, and name that"};
  std::ifstream in(path, std::ios::binary);
  std::string text;
  if (in) text.assign(std::istreambuf_iterator<char>(in), {});
  if (!in)
    return Error{ErrorCode::io, std::strerror(errno), path.string(), "check its permissions"};
  return text;
}

bool is_sosd(std::string_view content) noexcept {
  constexpr std::size_t word_bytes = sizeof(std::uint64_t);
  std::uint64_t count = 0;
  if (content.size() < 2 * word_bytes || content.size() % word_bytes != 0) return false;
  std::memcpy(&count, content.data(), word_bytes);
  return count == content.size() / word_bytes - 1;
}

bool is_ycsb_properties(std::string_view content) noexcept {
  for (const std::string_view property : {"recordcount="sv, "readproportion="sv})
    if (content.starts_with(property) ||
        content.find("\n" + std::string(property)) != std::string_view::npos)
      return true;
  return false;
}

Result<void> check_key_text(std::string_view content, std::string_view name) {
  const std::string file(name);
  const auto bad = [&](std::size_t line, std::string what, std::string remedy) {
    return Error{ErrorCode::bad_input, std::move(what), file + ":" + std::to_string(line),
                 std::move(remedy)};
  };
  for (const Packed& packed : packed_files)
    if (content.starts_with(packed.magic))
      return bad(1, std::string("is compressed: ") + packed.name,
                 std::string(packed.unpack) + " " + file + " > keys.txt");
  const std::string from_utf16 = "iconv -f UTF-16 -t UTF-8 " + file + " > keys.txt";
  if (content.starts_with("\xff\xfe"sv) || content.starts_with("\xfe\xff"sv))
    return bad(1, "is UTF-16", from_utf16);
  if (content.starts_with("\xef\xbb\xbf"sv))
    return bad(1, "starts with a byte order mark (UTF-8), which would belong to the first key",
               "tail -c +4 " + file + " > keys.txt");
  if (is_sosd(content))
    return bad(1, "is binary: a SOSD file of integers", "read it with --key-kind integer");
  if (const std::size_t zero = content.find('\0'); zero != std::string_view::npos)
    return is_bare_utf16(content)
               ? bad(1, "is UTF-16 without a byte order mark",
                     "iconv -f " + std::string(content[0] == '\0' ? "UTF-16BE" : "UTF-16LE") +
                         " -t UTF-8 " + file + " > keys.txt")
               : bad(line_at(content, zero), "is binary: it has zero bytes",
                     "write one key per line, as text");
  if (content.find('\n') == std::string_view::npos && content.find('\r') < content.size() - 1)
    return bad(1, "its lines end in CR alone", "tr '\\r' '\\n' < " + file + " > keys.txt");
  if (is_ycsb_properties(content))
    return bad(1, "is a property file of YCSB, and holds no keys",
               "give --workload ycsb-a or another of workloads/");
  return {};
}

}  // namespace perdure::workload
