#include "workload/url_keys.h"

#include <charconv>
#include <string>

#include "core/rng.h"
#include "workload/bijection.h"
#include "workload/key_words.h"

namespace perdure::workload {
namespace {

constexpr std::uint64_t url_purpose = 0x55524c;
constexpr std::uint64_t url_hosts = 2048;
constexpr std::uint64_t url_sections = 24;
constexpr std::uint64_t url_topics = 48;
constexpr std::uint64_t url_years = 10;
constexpr std::uint64_t newest_year = 2024;
constexpr std::uint64_t most_page_words = 5;

std::string_view word_of(std::uint64_t mixed) noexcept {
  return plain_words[mixed % plain_words.size()];
}

}  // namespace

UrlKeys::UrlKeys(std::uint64_t seed) noexcept
    : key_(mix64(mix64(seed) ^ url_purpose)),
      hosts_(url_hosts, key_),
      host_ranks_(url_hosts, 1),
      section_ranks_(url_sections, 1),
      topic_ranks_(url_topics, 1),
      year_ranks_(url_years, 1) {}

std::size_t UrlKeys::write(std::uint64_t id, char* out) const noexcept {
  const SplitId split(id);
  Rng rng(key_, id);
  TextWriter text(out);
  const std::uint64_t host = hosts_(host_ranks_(rng));
  const std::uint64_t traits = mix64(host ^ key_);
  text.add(traits % 16 == 0 ? "http://" : "https://");
  if ((traits >> 4 & 1) != 0) text.add("www.");
  text.add(word_of(host));
  // Hosts with the same first word differ in the second.
  text.add(word_of(host / plain_words.size() + mix64(host % plain_words.size() ^ key_)));
  text.add((traits >> 5 & 1) != 0 ? ".example" : ".test");
  const std::uint64_t section = mix64(traits + section_ranks_(rng));
  text.add('/');
  text.add(word_of(section));
  if ((traits >> 6 & 3) != 0) {
    text.add('/');
    text.add(word_of(mix64(section + topic_ranks_(rng))));
  }
  if ((traits >> 8 & 1) != 0) {
    text.add('/');
    text.add_number(newest_year - year_ranks_(rng));
    text.add('/');
    text.add_number(1 + rng.below(12), 2);
  }
  char before = '/';
  for (std::uint64_t words = most_page_words - 2 + rng.below(3); words != 0; --words) {
    text.add(before);
    text.add(word_of(rng()));
    before = '-';
  }
  text.add('-');
  text.add_number(split.number * 2 + (split.absent ? 1 : 0));
  return text.size();
}

std::optional<std::uint64_t> UrlKeys::id_of(std::string_view key) const {
  const std::size_t dash = key.rfind('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const std::string_view digits = key.substr(dash + 1);
  std::uint64_t number = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (failure != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  const std::uint64_t id = SplitId(number / 2, number % 2 != 0).id();
  std::string expected(longest(), '\0');
  expected.resize(write(id, expected.data()));
  if (expected != key) return std::nullopt;
  return id;
}

std::size_t UrlKeys::longest() const noexcept {
  constexpr std::size_t word = longest_of(plain_words);
  constexpr std::size_t most_digits = 20;
  return std::string_view("https://www.").size() + 2 * word + std::string_view(".example").size() +
         2 * (1 + word) + std::string_view("/2024/12").size() + most_page_words * (1 + word) + 1 +
         most_digits;
}

}  // namespace perdure::workload
