"""The C++ programs: finding them, starting them, and reading what they print."""
