#include "workload/keys.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/assert.h"
#include "core/rng.h"
#include "workload/bijection.h"

namespace perdure::workload {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::size_t word_bytes = sizeof(std::uint64_t);
constexpr std::size_t digits = 20;  // of 2^64 - 1
/// Lookups of absent keys of a key set take as many as there are records, and so many at least.
constexpr std::uint64_t least_absent_ids = 65'536;
constexpr std::uint64_t pibench_multiplier = 11400714819323198393ULL;

static_assert(pibench_multiplier * inverse_of(pibench_multiplier) == 1);

void store_big_endian(std::uint64_t word, char* out) noexcept {
  word = __builtin_bswap64(word);
  std::memcpy(out, &word, word_bytes);
}
std::uint64_t load_big_endian(const char* in) noexcept {
  std::uint64_t word;
  std::memcpy(&word, in, word_bytes);
  return __builtin_bswap64(word);
}
static_assert(std::endian::native == std::endian::little, "words of values are little-endian");

/// Fills `out` with text that follows from `word`.
void fill_from(std::uint64_t word, char* out, std::size_t bytes) noexcept {
  while (bytes != 0) {
    word += golden_ratio;
    const std::uint64_t text = mix64(word);
    const std::size_t piece = std::min(bytes, word_bytes);
    std::memcpy(out, &text, piece);
    out += piece;
    bytes -= piece;
  }
}

bool follows_from(std::uint64_t word, std::string_view text) noexcept {
  while (!text.empty()) {
    word += golden_ratio;
    const std::uint64_t expected = mix64(word);
    const std::size_t piece = std::min(text.size(), word_bytes);
    if (std::memcmp(text.data(), &expected, piece) != 0) return false;
    text.remove_prefix(piece);
  }
  return true;
}

}  // namespace

KeySpace::KeySpace(const Workload& workload)
    : form_(workload.keys.form),
      key0_(mix64(workload.seed + golden_ratio)),
      key1_(mix64(key0_ + golden_ratio)),
      prefix_(workload.keys.prefix),
      min_bytes_(workload.keys.min_bytes),
      max_bytes_(workload.keys.max_bytes),
      geometric_(workload.keys.mean_bytes != 0),
      longest_(word_bytes),
      ids_(first_absent_id),
      absent_ids_(first_absent_id),
      integer_set_(make_integer_key_set(form_, workload.seed)),
      text_set_(make_text_key_set(form_, workload.seed)),
      file_(workload.keys.file_lines),
      integers_(workload.keys.file_integers) {
  if (text_set_) longest_ = text_set_->longest();
  const KeySet* set = integer_set_.get();
  if (text_set_) set = text_set_.get();
  if (set != nullptr) {
    ids_ = set->ids();
    absent_ids_ = std::min(set->absent_ids(), std::max(workload.records, least_absent_ids));
  }
  switch (form_) {
    case Keys::Form::prefixed:
      longest_ = prefix_.size() + digits;
      break;
    case Keys::Form::random:
      longest_ = max_bytes_;
      if (geometric_) {
        const auto excess = static_cast<double>(workload.keys.mean_bytes - min_bytes_);
        double power = excess / (excess + 1);  // of the ratio, to 2^i
        for (std::uint64_t& share : bit_share_) {
          share = static_cast<std::uint64_t>(power / (1 + power) * 0x1p64);
          power *= power;
        }
      }
      break;
    case Keys::Form::file:
      PERDURE_ASSERT(file_ != nullptr);  // open_key_file() comes first
      longest_ = std::min(file_->longest() + 1, longest_key_bytes);
      ids_ = absent_ids_ = file_->size();
      break;
    case Keys::Form::integers:
      PERDURE_ASSERT(integers_ != nullptr);  // open_key_file() comes first
      ids_ = integers_->size();
      break;
    default:
      break;
  }
}

std::uint64_t KeySpace::mixed(std::uint64_t id) const noexcept {
  return mix64(mix64(id + key0_) ^ key1_);
}

std::uint64_t KeySpace::unmixed(std::uint64_t word) const noexcept {
  return unmix64(unmix64(word) ^ key1_) - key0_;
}

std::uint64_t KeySpace::word(std::uint64_t id) const noexcept {
  PERDURE_ASSERT(!is_bytes(form_));
  if (integer_set_) return integer_set_->word(id);
  if (form_ == Keys::Form::mixed) return mixed(id);
  if (form_ == Keys::Form::integers) {
    if (id < ids_) return (*integers_)[id];
    std::uint64_t absent = mixed(id);
    while (integers_->find(absent)) ++absent;
    return absent;
  }
  return form_ == Keys::Form::golden ? (id + 1) * pibench_multiplier : id;
}

std::uint64_t KeySpace::id_of(std::uint64_t word) const noexcept {
  PERDURE_ASSERT(!is_bytes(form_));
  if (integer_set_) return integer_set_->id_of(word).value_or(no_id);
  if (form_ == Keys::Form::mixed) return unmixed(word);
  if (form_ == Keys::Form::integers) return integers_->find(word).value_or(first_absent_id);
  return form_ == Keys::Form::golden ? word * inverse_of(pibench_multiplier) - 1 : word;
}

std::size_t KeySpace::random_length(std::uint64_t id) const noexcept {
  if (geometric_) {
    std::size_t excess = 0;
    std::uint64_t draw = id ^ key1_;
    for (std::size_t bit = 0; bit < bit_share_.size(); ++bit)
      if (mix64(draw += golden_ratio) < bit_share_[bit]) excess |= std::size_t{1} << bit;
    return std::min(min_bytes_ + excess, max_bytes_);
  }
  const std::uint64_t spread = max_bytes_ - min_bytes_ + 1;
  return min_bytes_ +
         static_cast<std::size_t>((static_cast<Wide>(mix64(id ^ key1_)) * spread) >> 64);
}

std::size_t KeySpace::write(std::uint64_t id, char* out) const noexcept {
  PERDURE_ASSERT(is_bytes(form_));
  if (text_set_) return text_set_->write(id, out);
  if (form_ == Keys::Form::prefixed) {
    std::memcpy(out, prefix_.data(), prefix_.size());
    std::uint64_t rest = mixed(id);
    for (std::size_t i = digits; i-- > 0; rest /= 10)
      out[prefix_.size() + i] = static_cast<char>('0' + rest % 10);
    return prefix_.size() + digits;
  }
  if (form_ == Keys::Form::random) {
    // The mixed id makes the key unique; it comes last, so that it does not decide the order.
    const std::size_t length = random_length(id);
    const std::uint64_t tail = mixed(id);
    fill_from(tail ^ key0_, out, length - word_bytes);
    store_big_endian(tail, out + length - word_bytes);
    return length;
  }
  const std::string_view line = (*file_)[id & (first_absent_id - 1)];
  std::memcpy(out, line.data(), line.size());
  if (id < first_absent_id) return line.size();
  // No line holds a line feed, so no line is this key.
  const std::size_t at = std::min(line.size(), longest_key_bytes - 1);
  out[at] = '\n';
  return at + 1;
}

std::optional<std::string_view> KeySpace::view(std::uint64_t id) const noexcept {
  if (form_ != Keys::Form::file || id >= file_->size()) return std::nullopt;
  return (*file_)[id];
}

std::optional<std::uint64_t> KeySpace::id_of(std::string_view key) const {
  PERDURE_ASSERT(is_bytes(form_));
  if (text_set_) return text_set_->id_of(key);
  if (form_ == Keys::Form::file) {
    if (key.find('\n') != std::string_view::npos) return first_absent_id;
    return file_->find(key);
  }
  if (form_ == Keys::Form::prefixed) {
    if (key.size() != prefix_.size() + digits || !key.starts_with(prefix_)) return std::nullopt;
    Wide word = 0;
    for (const char c : key.substr(prefix_.size())) {
      if (c < '0' || c > '9') return std::nullopt;
      word = word * 10 + static_cast<unsigned>(c - '0');
    }
    if (word >> 64 != 0) return std::nullopt;
    return unmixed(static_cast<std::uint64_t>(word));
  }
  if (key.size() < word_bytes) return std::nullopt;
  const std::uint64_t tail = load_big_endian(key.data() + key.size() - word_bytes);
  const std::uint64_t id = unmixed(tail);
  key.remove_suffix(word_bytes);
  if (key.size() + word_bytes != random_length(id) || !follows_from(tail ^ key0_, key))
    return std::nullopt;
  return id;
}

std::uint64_t KeySpace::absent_id(std::uint64_t random) const noexcept {
  if (absent_ids_ == first_absent_id) return random | first_absent_id;
  return first_absent_id | place_of(random, absent_ids_);
}

ValueCodec::ValueCodec(const Workload& workload) noexcept
    : key_(mix64(~workload.seed)), bytes_(workload.value_bytes) {}

std::uint64_t ValueCodec::pad(std::uint64_t id) const noexcept { return mix64(id + key_); }

void ValueCodec::write(std::uint64_t word, char* out) const noexcept {
  std::memcpy(out, &word, word_bytes);
  std::uint64_t piece = mix64(word + golden_ratio);
  for (std::size_t at = word_bytes; at < bytes_; at += word_bytes, piece += golden_ratio)
    std::memcpy(out + at, &piece, std::min(word_bytes, bytes_ - at));
}

std::optional<std::uint64_t> ValueCodec::word_of(std::string_view value) const noexcept {
  if (value.size() != bytes_) return std::nullopt;
  std::uint64_t word;
  std::memcpy(&word, value.data(), word_bytes);
  std::uint64_t piece = mix64(word + golden_ratio);
  for (std::size_t at = word_bytes; at < bytes_; at += word_bytes, piece += golden_ratio)
    if (std::memcmp(value.data() + at, &piece, std::min(word_bytes, bytes_ - at)) != 0)
      return std::nullopt;
  return word;
}

}  // namespace perdure::workload
