// Tells the sanitizers what is not ours: libpmemobj keeps a few words per opened pool for ever, and
// sets up its mutexes anew in memory it has recycled. Read by the sanitizers' run-time libraries
// from the test program; without a sanitizer nobody calls these.
// Races are suppressed where the report's own stack is in libpmemobj; its locks still order our
// accesses.

extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions();

extern "C" const char* __lsan_default_suppressions() { return "leak:libpmemobj\n"; }
extern "C" const char* __tsan_default_suppressions() {
  return "race:libpmemobj\nmutex:libpmemobj\n";
}
