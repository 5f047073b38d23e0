// Answers as text, a line each, so that two runs of the same operations can be compared word for
// word: "lookup 17 ok 4711", "scan 17 ok 17=4711 18=5", at the end "record 17 4711". Byte strings
// are in hexadecimal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "workload/mix.h"

namespace perdure::driver {

inline void append_word(std::string& to, std::uint64_t word) { to += std::to_string(word); }
inline void append_word(std::string& to, std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  for (const char byte : bytes) {
    to += digits[static_cast<unsigned char>(byte) >> 4];
    to += digits[static_cast<unsigned char>(byte) & 15];
  }
}

/// `value`: what a lookup found; counts when `answer` is "ok".
template <class Key, class Value, class Scan>
void append_answer(std::string& to, workload::Operation operation, const Key& key,
                   std::string_view answer, const Value& value, const Scan& scan) {
  using workload::Operation;
  to += workload::name_of(operation);
  to += ' ';
  append_word(to, key);
  to += ' ';
  to += answer;
  if (operation == Operation::scan) {
    for (std::size_t i = 0; i < scan.size(); ++i) {
      to += ' ';
      append_word(to, scan[i].key);
      to += '=';
      append_word(to, scan[i].value);
    }
  } else if (answer == "ok" &&
             (operation == Operation::lookup || operation == Operation::lookup_negative)) {
    to += ' ';
    append_word(to, value);
  }
  to += '\n';
}

template <class Key, class Value>
void append_record(std::string& to, const Key& key, const Value& value) {
  to += "record ";
  append_word(to, key);
  to += ' ';
  append_word(to, value);
  to += '\n';
}

}  // namespace perdure::driver
