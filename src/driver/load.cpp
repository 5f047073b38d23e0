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

template <class Keys>
SortedTexts<Keys>::SortedTexts(const workload::Workload& workload) {
  records_.reserve(workload.records);
  workload::LoadStream stream(workload, 0, 1);
  StepBuffer<Keys> buffer(workload);
  while (const std::size_t size = buffer.fill(stream)) {
    for (std::size_t i = 0; i < size; ++i)
      records_.push_back({buffer.data()[i].key, buffer.data()[i].value});
    texts_.push_back(buffer.take_text());
  }
  // string_view compares as unsigned bytes, a prefix first: true byte order.
  std::ranges::sort(records_, {}, &Record::key);
}

template class SortedTexts<ByteKeys>;
template class SortedTexts<SlotKeys>;

}  // namespace perdure::driver
