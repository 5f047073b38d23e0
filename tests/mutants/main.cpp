#include "mutants/mutants.h"
#include "support/suite_main.h"

int main(int argc, char** argv) {
  return perdure::testing::suite_main(argc, argv, perdure::testing::register_mutants);
}
