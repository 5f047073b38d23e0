// Reads arbitrary bytes as records of a trace. Whatever they are: no crash, texts within the bytes,
// and every record that is read is taken whole.
//
// A record's checksum is mended first, or nothing behind it would ever be reached.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "engine/store/record.h"
#include "engine/trace/format.h"

namespace {

using perdure::engine::TracePart;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "trace_fuzz: %s\n", what);
  std::abort();
}

bool lies_in(std::string_view text, std::string_view bytes) {
  return text.empty() ||
         (text.data() >= bytes.data() && text.data() + text.size() <= bytes.data() + bytes.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string input(reinterpret_cast<const char*>(data), size);
  std::uint32_t version = 0;
  static_cast<void>(perdure::engine::read_header(input, version));
  perdure::engine::TraceOperation operation;
  perdure::engine::TraceEnd end;
  for (std::size_t at = 0; at < input.size();) {
    std::uint32_t length = 0;
    if (input.size() - at >= 8) std::memcpy(&length, input.data() + at + 4, sizeof length);
    if (input.size() - at >= 8 && length <= input.size() - at - 8) {
      const std::uint32_t crc =
          perdure::engine::extend_crc(0, std::string_view(input).substr(at + 4, 4 + length));
      std::memcpy(input.data() + at, &crc, sizeof crc);
    }
    const std::string_view rest = std::string_view(input).substr(at);
    std::size_t taken = 0;
    const TracePart part = perdure::engine::read_record(rest, operation, end, taken);
    if (part == TracePart::cut_off || part == TracePart::damaged) break;
    require(taken == std::size_t{8} + length, "a record is not taken whole");
    if (part == TracePart::operation) {
      require(lies_in(operation.key, rest) && lies_in(operation.second, rest),
              "a text lies elsewhere");
      for (const auto* const entries : {&operation.added, &operation.gone})
        for (const auto& entry : *entries)
          require(lies_in(entry.text, rest), "an entry lies elsewhere");
    }
    at += taken;
  }
  return 0;
}
