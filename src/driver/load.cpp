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

SortedRecords<ByteKeys>::SortedRecords(const workload::Workload& workload) {
  // Lengths first, views last: the text moves while it grows.
  struct Lengths {
    std::size_t key;
    std::size_t value;
  };
  std::vector<Lengths> lengths;
  lengths.reserve(workload.records);
  workload::LoadStream stream(workload, 0, 1);
  StepBuffer<ByteKeys> buffer(workload);
  while (const std::size_t size = buffer.fill(stream))
    for (std::size_t i = 0; i < size; ++i) {
      const workload::BytesStep& step = buffer.data()[i];
      lengths.push_back({step.key.size(), step.value.size()});
      text_.append(step.key).append(step.value);
    }
  records_.reserve(lengths.size());
  std::string_view rest = text_;
  for (const Lengths& length : lengths) {
    records_.push_back({rest.substr(0, length.key), rest.substr(length.key, length.value)});
    rest.remove_prefix(length.key + length.value);
  }
  // string_view compares as unsigned bytes, a prefix first: true byte order.
  std::ranges::sort(records_, {}, &BytesRecord::key);
}

}  // namespace perdure::driver
