# perdure_add_crash_test(target source... [BUDGET seconds] [ARGUMENTS flag...])
#
# Explores what a power cut may leave of your own persistent index. The sources register it
# (PERDURE_REGISTER_INDEX in index/registry.h) and define no main; they are compiled with the access
# hooks of g++ and linked with the explorer. Two things come of it:
#   - a program `target`, which takes the flags of `perdure crash`: with none it explores each
#     registered index under adr and eadr, with one thread and two;
#   - where testing is enabled (enable_testing, include(CTest)), a test of the same name that runs it
#     with `--budget BUDGET` (10 seconds for each combination if not given) and ARGUMENTS.
# It exits with 0 when nothing is wrong, 5 with a counterexample on stdout and a replay file in the
# working directory, 2 on wrong use. More by target_link_libraries(target PRIVATE ...) and the like:
# but code compiled elsewhere is not seen, so compile what writes to the pool as a source here.

function(perdure_add_crash_test target)
  cmake_parse_arguments(PARSE_ARGV 1 test "" "BUDGET" "ARGUMENTS")
  if(NOT test_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "perdure_add_crash_test(${target}): no source is given; name the files that "
      "hold and register the index")
  endif()
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    message(FATAL_ERROR "perdure_add_crash_test(${target}): ${CMAKE_CXX_COMPILER} cannot hook every "
      "access; configure with g++ (-DCMAKE_CXX_COMPILER=g++)")
  endif()
  if(NOT TARGET perdure::crash)
    message(FATAL_ERROR "perdure_add_crash_test(${target}): this perdure was installed without its "
      "crash explorer; build it with g++ and PERDURE_SIM=ON")
  endif()
  if(NOT test_BUDGET)
    set(test_BUDGET 10)
  endif()
  add_executable(${target} ${test_UNPARSED_ARGUMENTS})
  target_link_libraries(${target} PRIVATE perdure::crash)
  add_test(NAME ${target} COMMAND ${target} --quiet --budget ${test_BUDGET} ${test_ARGUMENTS})
endfunction()
