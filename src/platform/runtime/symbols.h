// Symbols: which function of this program an address lies in, static ones included.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace perdure::platform::runtime {

/// "ns::Tree<int>::find(int) const" -> "ns::Tree<int>::find"; "operator()(int)" keeps its name, and
/// "(anonymous namespace)" is no list of arguments.
[[nodiscard]] std::string without_arguments(std::string name);

class Symbols {
 public:
  /// Reads the symbol table of the program's file at the first call.
  [[nodiscard]] static const Symbols& get();

  /// Demangled, without arguments of functions; "?" where no symbol covers the address.
  [[nodiscard]] std::string name_of(const void* address) const;

 private:
  struct Symbol {
    std::uint64_t begin;
    std::uint64_t end;
    std::string name;
  };

  Symbols();
  void read(const std::string& file, std::uint64_t base);

  std::vector<Symbol> symbols_;  ///< by begin
};

}  // namespace perdure::platform::runtime
