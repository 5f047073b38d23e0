// A shared object that is no PiBench wrapper: it exports another function.
extern "C" int unrelated() { return 1; }
