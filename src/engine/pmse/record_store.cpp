// Pmse: the record store.
#include <cstring>

#include "engine/pmse/pmse.h"

namespace perdure::engine::pmse {

std::uint64_t& Pmse::bucket_of(std::uint64_t number) const noexcept {
  return pool_.at<std::uint64_t>(head_.buckets)[number % head_.bucket_count];
}

RecordNode* Pmse::find_record(std::uint64_t number) const {
  for (std::uint64_t at = bucket_of(number); at != null_offset; at = record_at(at)->next)
    if (record_at(at)->number == number) return record_at(at);
  return nullptr;
}

bool Pmse::add_record(PmdkTransaction& change, std::string_view document, std::uint64_t& number) {
  const std::uint64_t offset = change.allocate(sizeof(RecordNode) + document.size());
  if (offset == null_offset || !change.snapshot(&head_.records, 2 * sizeof head_.records))
    return false;
  number = head_.last_number + 1;
  std::uint64_t& bucket = bucket_of(number);
  if (!change.snapshot(&bucket, sizeof bucket)) return false;
  put_whole(record_at(offset), {.next = bucket, .number = number, .bytes = document.size()});
  std::memcpy(record_at(offset) + 1, document.data(), document.size());
  store(bucket, offset);
  store(head_.records, head_.records + 1);
  store(head_.last_number, number);
  return true;
}

bool Pmse::replace_record(PmdkTransaction& change, std::uint64_t number,
                          std::string_view document) {
  std::uint64_t* link = &bucket_of(number);
  while (record_at(*link)->number != number) link = &record_at(*link)->next;
  const std::uint64_t old = *link;
  const std::uint64_t offset = change.allocate(sizeof(RecordNode) + document.size());
  if (offset == null_offset || !change.snapshot(link, sizeof *link)) return false;
  put_whole(record_at(offset),
            {.next = record_at(old)->next, .number = number, .bytes = document.size()});
  std::memcpy(record_at(offset) + 1, document.data(), document.size());
  store(*link, offset);
  return change.free(old, sizeof(RecordNode) + record_at(old)->bytes);
}

bool Pmse::take_record(PmdkTransaction& change, std::uint64_t number) {
  std::uint64_t* link = &bucket_of(number);
  while (record_at(*link)->number != number) link = &record_at(*link)->next;
  const std::uint64_t old = *link;
  if (!change.snapshot(link, sizeof *link) ||
      !change.snapshot(&head_.records, sizeof head_.records))
    return false;
  store(*link, record_at(old)->next);
  store(head_.records, head_.records - 1);
  return change.free(old, sizeof(RecordNode) + record_at(old)->bytes);
}

}  // namespace perdure::engine::pmse
