// main of every suite.
#pragma once

namespace perdure::testing {

/// Sets the process up, calls `prepare`, does the work of a kill round's child when the arguments
/// say so, else runs the tests.
int suite_main(int argc, char** argv, void (*prepare)() = nullptr);

}  // namespace perdure::testing
