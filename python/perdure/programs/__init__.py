"""The C++ programs: finding them, starting them, and what they are asked."""
