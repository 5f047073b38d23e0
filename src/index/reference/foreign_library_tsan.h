// ThreadSanitizer's suppressions for a test program that runs RocksDB. Debian's library is not
// instrumented: the sanitizer sees its memory (through malloc, memcpy and the std::string functions
// it shares with us) but not its atomics, and takes every hand-over inside it for a race. Include
// this in one source file of such a program. Without the sanitizer nobody calls the function.
#pragma once

extern "C" {
const char* __tsan_default_suppressions();
const char* __tsan_default_suppressions() {
  return "called_from_lib:librocksdb.so\n"
         "race:librocksdb.so\n"
         "race:rocksdb::\n"
         "race:RocksDbIndex\n";
}
}
