#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <system_error>

#include "workload/keys.h"

namespace perdure::workload {

Result<std::shared_ptr<const KeyFile>> KeyFile::open(const std::filesystem::path& path) {
  std::error_code failure;
  if (!std::filesystem::exists(path, failure))
    return Error{ErrorCode::not_found, "there is no such key file", path.string(),
                 "name a file with one key per line"};
  if (std::filesystem::is_directory(path, failure))
    return Error{ErrorCode::bad_input, "the key file is a directory", path.string(),
                 "name a file with one key per line"};
  std::ifstream in(path, std::ios::binary);
  std::string text;
  if (in) text.assign(std::istreambuf_iterator<char>(in), {});
  if (!in)
    return Error{ErrorCode::io, std::strerror(errno), path.string(), "check its permissions"};
  return parse(std::move(text), path.string());
}

Result<std::shared_ptr<const KeyFile>> KeyFile::parse(std::string text, std::string_view name) {
  const auto bad = [&](std::uint64_t line, std::string what, std::string remedy) {
    return Error{ErrorCode::bad_input, std::move(what),
                 std::string(name) + ":" + std::to_string(line + 1), std::move(remedy)};
  };
  const auto keys = std::make_shared<KeyFile>();
  keys->text_ = std::move(text);
  const std::string_view all = keys->text_;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\n', at), all.size());
    std::size_t length = end - at;
    if (length != 0 && all[end - 1] == '\r') --length;
    if (length > longest_key_bytes)
      return bad(keys->size(), "the key has " + std::to_string(length) + " bytes",
                 "keys have at most " + std::to_string(longest_key_bytes));
    keys->start_.push_back(at);
    keys->length_.push_back(static_cast<std::uint16_t>(length));
    keys->longest_ = std::max(keys->longest_, length);
    at = end + 1;
  }
  if (keys->size() == 0)
    return Error{ErrorCode::bad_input, "the key file is empty", std::string(name),
                 "write one key per line"};
  keys->sorted_.resize(keys->size());
  std::iota(keys->sorted_.begin(), keys->sorted_.end(), std::uint64_t{0});
  // Equal keys by line, so that the error names the second of them.
  std::sort(keys->sorted_.begin(), keys->sorted_.end(), [&](std::uint64_t a, std::uint64_t b) {
    const int order = (*keys)[a].compare((*keys)[b]);
    return order != 0 ? order < 0 : a < b;
  });
  std::uint64_t duplicate = keys->size();
  std::uint64_t original = 0;
  for (std::size_t i = 1; i < keys->sorted_.size(); ++i) {
    const std::uint64_t line = keys->sorted_[i];
    if (line < duplicate && (*keys)[line] == (*keys)[keys->sorted_[i - 1]]) {
      duplicate = line;
      original = keys->sorted_[i - 1];
    }
  }
  if (duplicate != keys->size())
    return bad(duplicate, "the key is that of line " + std::to_string(original + 1) + " again",
               "every key may be there once; sort -u makes it so");
  return std::shared_ptr<const KeyFile>(keys);
}

std::optional<std::uint64_t> KeyFile::find(std::string_view key) const noexcept {
  const auto at = std::lower_bound(
      sorted_.begin(), sorted_.end(), key,
      [this](std::uint64_t line, std::string_view wanted) { return (*this)[line] < wanted; });
  if (at == sorted_.end() || (*this)[*at] != key) return std::nullopt;
  return *at;
}

}  // namespace perdure::workload
