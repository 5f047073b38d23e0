#include "driver/load.h"

#include <algorithm>

namespace perdure::driver {

SortedRecords<IntegerKeys>::SortedRecords(const workload::Workload& workload) {
  records_.reserve(workload.records);
  workload::LoadStream stream(workload, 0, 1);
  StepBuffer<IntegerKeys> buffer(workload);
  while (const std::size_t size = buffer.fill(stream))
    for (std::size_t i = 0; i < size; ++i)
      records_.push_back({buffer.data()[i].key, buffer.data()[i].value});
  std::ranges::sort(records_, {}, &IntegerRecord::key);
}

namespace {

/// The parts of a record's text, of which there may be no key.
std::string_view text_of_key(std::string_view key) noexcept { return key; }
std::string_view text_of_key(std::uint64_t) noexcept { return {}; }

}  // namespace

template <class Keys>
SortedTexts<Keys>::SortedTexts(const workload::Workload& workload) {
  // Lengths first, views last: the text moves while it grows.
  struct Place {
    typename Keys::Key key;  // of text, only the length is right
    std::size_t value_bytes;
  };
  std::vector<Place> places;
  places.reserve(workload.records);
  workload::LoadStream stream(workload, 0, 1);
  StepBuffer<Keys> buffer(workload);
  while (const std::size_t size = buffer.fill(stream))
    for (std::size_t i = 0; i < size; ++i) {
      const auto& step = buffer.data()[i];
      places.push_back({step.key, step.value.size()});
      text_.append(text_of_key(step.key)).append(step.value);
    }
  records_.reserve(places.size());
  std::string_view rest = text_;
  for (const Place& place : places) {
    const std::size_t key_bytes = text_of_key(place.key).size();
    Record& record = records_.emplace_back();
    if constexpr (has_text_keys<Keys>)
      record.key = rest.substr(0, key_bytes);
    else
      record.key = place.key;
    record.value = rest.substr(key_bytes, place.value_bytes);
    rest.remove_prefix(key_bytes + place.value_bytes);
  }
  // string_view compares as unsigned bytes, a prefix first: true byte order.
  std::ranges::sort(records_, {}, &Record::key);
}

template class SortedTexts<ByteKeys>;
template class SortedTexts<SlotKeys>;

}  // namespace perdure::driver
