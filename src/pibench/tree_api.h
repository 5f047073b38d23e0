// The binary interface between PiBench and its wrappers (x86-64, Itanium C++ ABI, libstdc++
// strings), written down from how the two call each other.
//
// A wrapper is a shared object that exports `create_tree`. The order of the virtual functions and
// the layout of the options are the interface; the names are not, but are kept.
//
//   options      byte 0       8           16 (32 B)            48         56         64
//                   | key_size | value_size | pool_path         | pool_size | num_threads |
//   virtual table  complete destructor, deleting destructor, find, insert, update, remove, scan
//
// Some forks append fields to the options: a host leaves zeroed room after them. Some forks put a
// `bulk_load` before `find`: their wrappers do not fit this interface.
#pragma once

#include <cstddef>
#include <string>

struct tree_options_t {
  std::size_t key_size = 8;
  std::size_t value_size = 8;
  std::string pool_path;  ///< nothing is there yet; empty: the wrapper's own default
  std::size_t pool_size = 0;
  std::size_t num_threads = 1;
};

static_assert(sizeof(std::string) == 32, "libstdc++'s string since GCC 5");
static_assert(sizeof(tree_options_t) == 64);
static_assert(offsetof(tree_options_t, pool_path) == 16);
static_assert(offsetof(tree_options_t, pool_size) == 48);

class tree_api {
 public:
  tree_api() = default;
  virtual ~tree_api() = default;
  tree_api(const tree_api&) = delete;
  tree_api& operator=(const tree_api&) = delete;

  // Keys and values are raw bytes in buffers that the host reuses after the call.

  /// True when the key is there; then its value was copied to `value_out`.
  virtual bool find(const char* key, std::size_t key_size, char* value_out) = 0;
  /// True when the key was absent and now has the value.
  virtual bool insert(const char* key, std::size_t key_size, const char* value,
                      std::size_t value_size) = 0;
  /// True when the key was present and now has the value.
  virtual bool update(const char* key, std::size_t key_size, const char* value,
                      std::size_t value_size) = 0;
  /// True when the key was present and is gone.
  virtual bool remove(const char* key, std::size_t key_size) = 0;
  /// Points `values_out` at up to `scan_size` records from `key` on, ascending, each a key followed
  /// by its value; the memory is the wrapper's and lasts until this thread's next call. Returns how
  /// many. Some wrappers never set `values_out`.
  virtual int scan(const char* key, std::size_t key_size, int scan_size, char*& values_out) = 0;
};

extern "C" tree_api* create_tree(const tree_options_t& options);
