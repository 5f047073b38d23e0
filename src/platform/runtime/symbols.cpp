#include "platform/runtime/symbols.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

namespace perdure::platform::runtime {
namespace {

struct Free {
  void operator()(void* memory) const noexcept { std::free(memory); }
};

std::uint64_t own_base() noexcept {
  std::uint64_t base = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        *static_cast<std::uint64_t*>(out) = info->dlpi_addr;
        return 1;  // the program itself comes first
      },
      &base);
  return base;
}

}  // namespace

std::string without_arguments(std::string name) {
  int depth = 0;
  for (std::size_t i = name.size(); i-- > 0;) {
    if (name[i] == ')') ++depth;
    if (name[i] == '(' && --depth == 0) {
      if (i > 0 && !name.compare(i, 2, "()") && i + 2 < name.size() && name[i + 2] == '(') continue;
      constexpr const char anonymous[] = "(anonymous namespace)";
      if (name.compare(i, sizeof anonymous - 1, anonymous) == 0) continue;
      const std::size_t keep = i >= 8 && name.compare(i - 8, 8, "operator") == 0 ? i + 2 : i;
      if (keep != i) return name.substr(0, keep);
      return name.substr(0, i);
    }
  }
  return name;
}

const Symbols& Symbols::get() {
  static const Symbols symbols;
  return symbols;
}

Symbols::Symbols() { read("/proc/self/exe", own_base()); }

void Symbols::read(const std::string& path, std::uint64_t base) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)),
                                std::istreambuf_iterator<char>());
  const auto at = [&](std::uint64_t offset, std::uint64_t length) -> const char* {
    return offset <= bytes.size() && length <= bytes.size() - offset ? bytes.data() + offset
                                                                     : nullptr;
  };
  Elf64_Ehdr header;
  const char* start = at(0, sizeof header);
  if (start == nullptr || std::memcmp(start, ELFMAG, SELFMAG) != 0) return;
  std::memcpy(&header, start, sizeof header);
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  const char* table = at(header.e_shoff, sections.size() * sizeof(Elf64_Shdr));
  if (table == nullptr) return;
  std::memcpy(sections.data(), table, sections.size() * sizeof(Elf64_Shdr));
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const Elf64_Shdr& strings = sections[section.sh_link];
    const char* names = at(strings.sh_offset, strings.sh_size);
    const char* entries = at(section.sh_offset, section.sh_size);
    if (names == nullptr || entries == nullptr) continue;
    for (std::uint64_t i = 0; i < section.sh_size / sizeof(Elf64_Sym); ++i) {
      Elf64_Sym symbol;
      std::memcpy(&symbol, entries + i * sizeof symbol, sizeof symbol);
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_size == 0) continue;
      if (symbol.st_name >= strings.sh_size) continue;
      symbols_.push_back({base + symbol.st_value, base + symbol.st_value + symbol.st_size,
                          names + symbol.st_name});
    }
  }
  std::ranges::sort(symbols_, {}, &Symbol::begin);
}

std::string Symbols::name_of(const void* address) const {
  const auto at = reinterpret_cast<std::uint64_t>(address);
  auto found = std::ranges::upper_bound(symbols_, at, {}, &Symbol::begin);
  std::string name;
  if (found != symbols_.begin() && (--found, at < found->end)) name = found->name;
  if (Dl_info info; name.empty() && dladdr(address, &info) != 0 && info.dli_sname != nullptr)
    name = info.dli_sname;
  if (name.empty()) return "?";
  int failure = 0;
  const std::unique_ptr<char, Free> plain(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &failure));
  return plain ? without_arguments(plain.get()) : name;
}

}  // namespace perdure::platform::runtime
