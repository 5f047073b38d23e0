// Any bytes given as a workload file, a --mix, a --distribution, a --keys, a --scan-count, a count,
// a size or a key file are read or refused with one line that names a place and a remedy; what is
// read passes validation, reads back the same from its text, and drives streams.
//
//   workload_fuzz -max_total_time=60 -max_len=3000 $(mktemp -d) workloads/
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "core/units.h"
#include "workload/keys.h"
#include "workload/stream.h"
#include "workload/workload.h"

namespace {

using perdure::workload::Workload;

void expect(bool condition) {
  if (!condition) std::abort();
}

template <class T>
void expect_good_error(const perdure::Result<T>& result) {
  if (result.ok()) return;
  const std::string line = result.error().line();
  expect(!result.error().what.empty() && !result.error().where.empty());
  expect(!result.error().remedy.empty());
  static_cast<void>(line);
}

/// A few steps of one of three threads; few enough to be quick for any description.
void run(Workload workload) {
  if (workload.is_bytes()) {
    if (workload.keys.form == perdure::workload::Keys::Form::file) return;
    perdure::workload::BytesBlock block(workload, 16, 1 << 16);
    perdure::workload::OperationStream stream(workload, {.thread = 1, .threads = 3});
    for (int i = 0; i < 4 && stream.fill(block) != 0; ++i)
      for (const auto& step : block.steps()) expect(step.key.size() <= 2048);
    return;
  }
  std::vector<perdure::workload::IntegerStep> block(16);
  perdure::workload::OperationStream stream(workload, {.thread = 1, .threads = 3});
  for (int i = 0; i < 4; ++i) {
    const std::size_t steps = stream.fill(block);
    if (steps == 0) break;
    stream.settle(steps / 2);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace workload = perdure::workload;
  const std::string_view text(reinterpret_cast<const char*>(data), size);

  const auto parsed = workload::parse_workload(text, "fuzz.toml");
  expect_good_error(parsed);
  if (parsed.ok()) {
    expect(workload::validate(*parsed).ok());
    run(*parsed);
  } else {
    expect(parsed.error().line().find('\n') == std::string::npos);
    expect(parsed.error().where.starts_with("fuzz.toml:"));
  }

  const auto mix = workload::parse_mix(text);
  expect_good_error(mix);
  if (mix.ok()) {
    expect(mix->parts_per_billion.total() == workload::whole_share);
    expect(workload::parse_mix(workload::text_of(*mix)).value() == *mix);
    expect(workload::apportion(*mix, 1'000'003).total() == 1'000'003);
  }
  const auto distribution = workload::parse_distribution(text);
  expect_good_error(distribution);
  const auto keys = workload::parse_keys(text);
  expect_good_error(keys);
  if (distribution.ok() || keys.ok()) {
    Workload given;
    if (distribution.ok()) given.distribution = *distribution;
    if (keys.ok()) given.keys = *keys;
    expect(workload::validate(given).ok());
    run(given);
  }
  expect_good_error(workload::parse_scan_count(text));
  const auto count = perdure::parse_count(text, "--records");
  expect_good_error(count);
  if (count.ok())
    expect(perdure::parse_count(perdure::format_count(*count), "again").value() == *count);
  const auto bytes = perdure::parse_bytes(text, "--pool-bytes");
  expect_good_error(bytes);
  if (bytes.ok())
    expect(perdure::parse_bytes(perdure::format_bytes(*bytes), "again").value() == *bytes);

  const auto file = workload::KeyFile::parse(std::string(text), "keys.txt");
  expect_good_error(file);
  if (file.ok())
    for (std::uint64_t line = 0; line < (*file)->size(); ++line)
      expect((*file)->find((**file)[line]) == line);
  return 0;
}
