#include <algorithm>
#include <charconv>
#include <cstring>
#include <numeric>

#include "workload/key_text.h"
#include "workload/keys.h"

namespace perdure::workload {
namespace {

Error bad_key(std::string_view name, std::uint64_t line, std::string what, std::string remedy) {
  return {ErrorCode::bad_input, std::move(what), std::string(name) + ":" + std::to_string(line + 1),
          std::move(remedy)};
}

/// Numbers of `keys` in their order; an error names the first line that repeats another.
template <class Keys>
Result<std::vector<std::uint64_t>> sorted_by_key(const Keys& keys, std::string_view name) {
  std::vector<std::uint64_t> sorted(keys.size());
  std::iota(sorted.begin(), sorted.end(), std::uint64_t{0});
  // Equal keys by line, so that the error names the second of them.
  std::sort(sorted.begin(), sorted.end(), [&](std::uint64_t a, std::uint64_t b) {
    const auto order = keys[a] <=> keys[b];
    return order != 0 ? order < 0 : a < b;
  });
  std::uint64_t duplicate = keys.size();
  std::uint64_t original = 0;
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i] < duplicate && keys[sorted[i]] == keys[sorted[i - 1]]) {
      duplicate = sorted[i];
      original = sorted[i - 1];
    }
  if (duplicate != keys.size())
    return bad_key(name, duplicate,
                   "the key is that of line " + std::to_string(original + 1) + " again",
                   "every key may be there once; sort -u makes it so");
  return sorted;
}

template <class Keys, class Key>
std::optional<std::uint64_t> find_in(const std::vector<std::uint64_t>& sorted, const Keys& keys,
                                     const Key& key) noexcept {
  const auto at =
      std::lower_bound(sorted.begin(), sorted.end(), key,
                       [&](std::uint64_t line, const Key& wanted) { return keys[line] < wanted; });
  if (at == sorted.end() || keys[*at] != key) return std::nullopt;
  return *at;
}

Error empty_file(std::string_view name) {
  return {ErrorCode::bad_input, "the key file is empty", std::string(name),
          "write one key per line"};
}

}  // namespace

Result<std::shared_ptr<const KeyFile>> KeyFile::open(const std::filesystem::path& path) {
  auto text = read_key_file(path);
  if (!text) return text.error();
  return parse(std::move(*text), path.string());
}

Result<std::shared_ptr<const KeyFile>> KeyFile::parse(std::string text, std::string_view name) {
  if (const auto checked = check_key_text(text, name); !checked) return checked.error();
  const auto keys = std::make_shared<KeyFile>();
  keys->text_ = std::move(text);
  const std::string_view all = keys->text_;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\n', at), all.size());
    std::size_t length = end - at;
    if (length != 0 && all[end - 1] == '\r') --length;
    if (length > longest_key_bytes)
      return bad_key(name, keys->size(), "the key has " + std::to_string(length) + " bytes",
                     "keys have at most " + std::to_string(longest_key_bytes));
    keys->start_.push_back(at);
    keys->length_.push_back(static_cast<std::uint16_t>(length));
    keys->longest_ = std::max(keys->longest_, length);
    at = end + 1;
  }
  if (keys->size() == 0) return empty_file(name);
  auto sorted = sorted_by_key(*keys, name);
  if (!sorted) return sorted.error();
  keys->sorted_ = std::move(*sorted);
  return std::shared_ptr<const KeyFile>(keys);
}

std::optional<std::uint64_t> KeyFile::find(std::string_view key) const noexcept {
  return find_in(sorted_, *this, key);
}

Result<std::shared_ptr<const IntegerFile>> IntegerFile::open(const std::filesystem::path& path) {
  const auto content = read_key_file(path);
  if (!content) return content.error();
  return parse(*content, path.string());
}

Result<std::shared_ptr<const IntegerFile>> IntegerFile::parse(std::string_view content,
                                                              std::string_view name) {
  const auto keys = std::make_shared<IntegerFile>();
  if (is_sosd(content)) {
    keys->keys_.resize(content.size() / sizeof(std::uint64_t) - 1);
    std::memcpy(keys->keys_.data(), content.data() + sizeof(std::uint64_t),
                content.size() - sizeof(std::uint64_t));
  } else {
    if (const auto checked = check_key_text(content, name); !checked) return checked.error();
    for (std::size_t at = 0; at < content.size();) {
      const std::size_t end = std::min(content.find('\n', at), content.size());
      std::string_view line = content.substr(at, end - at);
      if (line.ends_with('\r')) line.remove_suffix(1);
      std::uint64_t key = 0;
      const auto [last, failure] = std::from_chars(line.data(), line.data() + line.size(), key);
      const bool whole = last == line.data() + line.size();
      if (line.empty())
        return bad_key(name, keys->size(), "the line is empty", "write one integer per line");
      if (failure == std::errc::result_out_of_range && whole)
        return bad_key(name, keys->size(), "the key does not fit in 64 bits",
                       "keys are 0 to 18446744073709551615");
      if (failure != std::errc{} || !whole)
        return bad_key(
            name, keys->size(),
            line.starts_with('-') ? "the key is negative" : "the key is no whole number in decimal",
            "keys are 0 to 18446744073709551615; or give --key-kind bytes");
      keys->keys_.push_back(key);
      at = end + 1;
    }
  }
  if (keys->size() == 0) return empty_file(name);
  auto sorted = sorted_by_key(*keys, name);
  if (!sorted) return sorted.error();
  keys->sorted_ = std::move(*sorted);
  return std::shared_ptr<const IntegerFile>(keys);
}

std::optional<std::uint64_t> IntegerFile::find(std::uint64_t key) const noexcept {
  return find_in(sorted_, *this, key);
}

Result<void> open_key_file(Workload& workload) {
  Keys& keys = workload.keys;
  if (!keys.from_file()) return {};
  std::uint64_t lines = 0;
  if (keys.form == Keys::Form::integers) {
    auto opened = IntegerFile::open(keys.file);
    if (!opened) return opened.error();
    keys.file_integers = std::move(*opened);
    lines = keys.file_integers->size();
  } else {
    auto opened = KeyFile::open(keys.file);
    if (!opened) return opened.error();
    keys.file_lines = std::move(*opened);
    lines = keys.file_lines->size();
  }
  if (workload.records == 0) workload.records = lines;
  const std::uint64_t inserts =
      apportion(workload.dealt_mix(), workload.operations)[Operation::insert];
  if (workload.records > lines || inserts > lines - workload.records)
    return Error{ErrorCode::bad_input,
                 "the key file has " + std::to_string(lines) + " keys, and " +
                     std::to_string(workload.records) + " records and " + std::to_string(inserts) +
                     " inserts need one each",
                 keys.file.string(), "load or insert fewer, or add lines"};
  return {};
}

}  // namespace perdure::workload
