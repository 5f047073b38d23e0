# perdure-sim: the sources of perdure-native compiled a second time, with the compiler's access hooks
# and without its race detector's library, and linked with our own runtime.
#
#   perdure_sim_code      OBJECT  everything but the simulator and the command line: hooked
#   perdure_sim_unhooked  OBJECT  what of it stands beside the measured program: not hooked
#   perdure_sim_cli       OBJECT  the command line: hooked, as it shares headers with the rest
#   perdure_sim_crash_cli OBJECT  its part that crash tests of other projects link, too
#   perdure_sim_runtime   OBJECT  src/platform, src/crash: not hooked
#   perdure_sim_flags     what a program or test needs to be hooked and linked with both
#   perdure_crash         STATIC  both and a main: what the installed package's
#                                 perdure_add_crash_test links
#
# Only g++ hooks every access (clang misses vector ones), and sanitized builds have no use for it.

option(PERDURE_SIM "Build perdure-sim (g++ only)" ON)
option(PERDURE_SIM_TESTS "Build the tests of the simulator and of the crash explorer" ${PERDURE_TESTS})

if(NOT PERDURE_SIM)
  return()
endif()
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR PERDURE_SANITIZE OR PERDURE_FUZZ)
  message(STATUS "perdure-sim is left out: it takes g++ and no sanitizer")
  return()
endif()

find_package(CLI11 REQUIRED)  # imported targets of other folders are not seen here
find_package(absl CONFIG REQUIRED)
find_path(BOOST_CONTEXT_INCLUDE_DIR boost/context/detail/fcontext.hpp REQUIRED)
find_library(BOOST_CONTEXT_LIBRARY boost_context REQUIRED)

# Instrumentation at compile time only. Volatile accesses get hooks of their own names; memory
# functions stay calls, so that the linker can route them through the runtime. The facade's functions
# are not cloned: a clone is a local symbol without a name at run time, so all its callers would look
# like one place (src/crash/callers.h).
set(perdure_sim_compile_options -fsanitize=thread --param tsan-distinguish-volatile=1 -fno-builtin
  -fno-omit-frame-pointer -fno-ipa-cp)
string(JOIN " " perdure_crash_compile_options ${perdure_sim_compile_options})
set(perdure_sim_wrapped memcpy memmove memset memcmp strlen memchr strcmp strncmp)
set(perdure_sim_link_options -rdynamic -Wl,--wrap=main)
foreach(function IN LISTS perdure_sim_wrapped)
  list(APPEND perdure_sim_link_options "-Wl,--wrap=${function}")
endforeach()

set(folders)
foreach(layer core pm pool index index/* structure/* lockfree/* engine/store engine/trace engine/pmse pibench workload probe driver crash/toys)
  file(GLOB found CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${layer}/*.cpp")
  list(APPEND folders ${found})
endforeach()
# Foreign libraries are not hooked, so their indexes are native only; so are programs' mains, tests,
# what is a library of its own, and the native half of the facade.
list(FILTER folders EXCLUDE REGEX "_(test|fuzz)\\.cpp$|/main\\.cpp$|/native_[a-z_]+\\.cpp$|_native\\.cpp$")
list(FILTER folders EXCLUDE REGEX "/index/(lmdb|rocksdb|tbbmap)/|/pibench/export_")

# In a unity build of a target of many folders, each unit holds the files of one folder.
function(perdure_group_by_folder target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  foreach(file IN LISTS ARGN)
    cmake_path(GET file PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/src")
    string(REPLACE "/" "_" folder "${folder}")
    if(NOT file MATCHES "target_simulated\\.cpp$")  # two files, each with a target class of that name
      set_source_files_properties("${file}" PROPERTIES UNITY_GROUP "${folder}")
    endif()
  endforeach()
endfunction()

# Tests among the sources of other folders link these instead of the native objects.
add_library(perdure_sim_flags INTERFACE)
target_link_libraries(perdure_sim_flags INTERFACE perdure_flags nlohmann_json::nlohmann_json
  PkgConfig::PMEM PkgConfig::ISAL Threads::Threads CLI11::CLI11 absl::btree gomp ${CMAKE_DL_LIBS})
target_compile_definitions(perdure_sim_flags INTERFACE PERDURE_SIM)
if(TOMLPLUSPLUS_INCLUDE_DIR)
  target_include_directories(perdure_sim_flags SYSTEM INTERFACE "${TOMLPLUSPLUS_INCLUDE_DIR}")
endif()

# Only a probe's kernels are the measured program. The code around them would access addresses that
# depend on the environment and the command line. A signal may come inside a hook, and its handler must
# not call another one.
set(unhooked probe/figures probe/measure probe/measure_accesses probe/measure_cached
  probe/measure_chains probe/measurement probe/outcome probe/tracks driver/probe_target_simulated
  driver/interrupt)
list(TRANSFORM unhooked REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/src/\\1.cpp")
list(REMOVE_ITEM folders ${unhooked})
add_library(perdure_sim_unhooked OBJECT ${unhooked})
perdure_group_by_folder(perdure_sim_unhooked ${unhooked})
target_link_libraries(perdure_sim_unhooked PUBLIC perdure_sim_flags)
target_compile_options(perdure_sim_unhooked PRIVATE -fno-omit-frame-pointer -fno-ipa-cp -fno-builtin -g1)

add_library(perdure_sim_code OBJECT ${folders}
  "${PROJECT_BINARY_DIR}/src/driver/build_info.cpp")
perdure_group_by_folder(perdure_sim_code ${folders})
set_source_files_properties("${PROJECT_BINARY_DIR}/src/driver/build_info.cpp"
  PROPERTIES GENERATED TRUE)
add_dependencies(perdure_sim_code perdure_build_info)
file(GLOB commands CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/cli/*.cpp")
list(FILTER commands EXCLUDE REGEX "(_test|main|_native)\\.cpp$")
set(crash_commands crash_command_simulated crash_flags_simulated flags values format report sudden_ends)
list(TRANSFORM crash_commands REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/src/cli/\\1.cpp")
list(REMOVE_ITEM commands ${crash_commands})
add_library(perdure_sim_cli OBJECT ${commands})
add_library(perdure_sim_crash_cli OBJECT ${crash_commands})
foreach(part cli crash_cli)
  set_target_properties(perdure_sim_${part} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  target_compile_options(perdure_sim_${part} PRIVATE -O1)
endforeach()
foreach(part code cli crash_cli)
  target_link_libraries(perdure_sim_${part} PUBLIC perdure_sim_flags)
  # -g1: the crash explorer names lines of source.
  target_compile_options(perdure_sim_${part} PRIVATE ${perdure_sim_compile_options} -g1)
endforeach()
perdure_precompile(perdure_sim_code sim_code)
perdure_precompile(perdure_sim_cli sim_cli)
perdure_precompile(perdure_sim_crash_cli sim_cli)

# -fno-weak: inline functions and templates of the runtime stay its own. Merged with the hooked ones
# of other objects, the linker would keep either copy: unseen accesses, or hooks within hooks.
file(GLOB runtime CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/platform/*/*.cpp"
  "${PROJECT_SOURCE_DIR}/src/crash/*.cpp")
list(FILTER runtime EXCLUDE REGEX "_test\\.cpp$")
add_library(perdure_sim_runtime OBJECT ${runtime})
perdure_group_by_folder(perdure_sim_runtime ${runtime})
target_link_libraries(perdure_sim_runtime PUBLIC perdure_sim_flags)
# g++ warns of every inline constant then, and has no name for that warning: -w. The same sources are
# compiled with all warnings where the tests are built.
# Three checks of memory functions make g++ 12 crash over those that the included header renames.
# Hooks that call nothing need no frame; one that ends in a call leaves it the caller's.
target_compile_options(perdure_sim_runtime PRIVATE -fno-weak -w -fno-omit-frame-pointer
  -momit-leaf-frame-pointer
  -Wno-free-nonheap-object -Wno-mismatched-dealloc -Wno-mismatched-new-delete
  "SHELL:-include ${PROJECT_SOURCE_DIR}/src/platform/runtime/own_memory_functions.h")
if(PERDURE_SIM_TESTS)
  set(strict ${runtime})
  list(FILTER strict INCLUDE REGEX "/runtime/|/crash/")
  add_library(perdure_sim_runtime_warnings OBJECT ${strict})
  perdure_group_by_folder(perdure_sim_runtime_warnings ${strict})
  target_link_libraries(perdure_sim_runtime_warnings PRIVATE perdure_sim_flags)
  target_compile_options(perdure_sim_runtime_warnings PRIVATE -fsyntax-only)
endif()
target_include_directories(perdure_sim_runtime SYSTEM PRIVATE "${BOOST_CONTEXT_INCLUDE_DIR}")

# A hooked program: its own sources, the code under simulation, and the runtime.
function(perdure_sim_executable name)
  add_executable(${name} ${ARGN})
  target_compile_options(${name} PRIVATE ${perdure_sim_compile_options} -g1)
  target_link_options(${name} PRIVATE ${perdure_sim_link_options})
  target_link_libraries(${name} PRIVATE perdure_sim_code perdure_sim_unhooked perdure_sim_runtime
    perdure_sim_flags "${BOOST_CONTEXT_LIBRARY}")
endfunction()

# The explorer for other projects: an archive, so that a crash test links only what it refers to and
# none of our indexes. Of objects, because linked targets would have to be installed, too.
add_library(perdure_crash_main OBJECT src/cli/crash_test_main.cpp)
target_link_libraries(perdure_crash_main PRIVATE perdure_sim_flags)
target_compile_options(perdure_crash_main PRIVATE ${perdure_sim_compile_options} -O1)
add_library(perdure_crash STATIC $<TARGET_OBJECTS:perdure_crash_main>
  $<TARGET_OBJECTS:perdure_sim_crash_cli> $<TARGET_OBJECTS:perdure_sim_code>
  $<TARGET_OBJECTS:perdure_sim_unhooked> $<TARGET_OBJECTS:perdure_sim_runtime>)
set_target_properties(perdure_crash PROPERTIES LINKER_LANGUAGE CXX EXPORT_NAME crash)
target_compile_features(perdure_crash INTERFACE cxx_std_20)
target_compile_definitions(perdure_crash INTERFACE PERDURE_SIM)
# -g1: a counterexample names lines of source. -O2: the line is that of the store, not one inside
# std::atomic, which only optimisation inlines.
target_compile_options(perdure_crash INTERFACE "SHELL:${perdure_crash_compile_options}" -g1 -O2
  -Wno-tsan)
target_link_options(perdure_crash INTERFACE ${perdure_sim_link_options})
target_include_directories(perdure_crash INTERFACE
  "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/perdure>")
target_link_libraries(perdure_crash INTERFACE Threads::Threads
  "$<INSTALL_INTERFACE:pmemobj;pmem2;pmem;memkind;boost_context;gomp;${CMAKE_DL_LIBS}>")

perdure_sim_executable(perdure-sim "${PROJECT_SOURCE_DIR}/src/cli/main.cpp")
target_link_libraries(perdure-sim PRIVATE perdure_sim_cli perdure_sim_crash_cli)
set_target_properties(perdure-sim PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/src/cli")
install(TARGETS perdure-sim RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT program)

if(PERDURE_SIM_TESTS)
  enable_testing()
  file(GLOB tests CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/platform/runtime/*_test.cpp")
  if(tests)
    find_package(GTest REQUIRED)
    include(GoogleTest)
    perdure_sim_executable(test_platform_runtime ${tests})
    target_link_libraries(test_platform_runtime PRIVATE GTest::gtest GTest::gmock GTest::gtest_main)
    gtest_discover_tests(test_platform_runtime DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
  endif()
  file(GLOB tests CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/crash/*_test.cpp")
  if(tests)
    perdure_sim_executable(test_crash ${tests})
    target_compile_options(test_crash PRIVATE -O1)  # half the time to compile
    target_link_libraries(test_crash PRIVATE GTest::gtest GTest::gmock GTest::gtest_main)
    gtest_discover_tests(test_crash DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
  endif()
  # The stack is no index: it is explored through a map that keeps its records there.
  perdure_sim_executable(explored_stack "${PROJECT_SOURCE_DIR}/tests/stack_map.cpp"
    "${PROJECT_SOURCE_DIR}/src/cli/main.cpp")
  target_link_libraries(explored_stack PRIVATE perdure_sim_cli perdure_sim_crash_cli)
  foreach(mode persist trans)
    foreach(domain adr eadr)
      add_test(NAME stack.${mode}_keeps_what_returned_through_power_cuts.${domain} COMMAND
        explored_stack crash --index stack_map_${mode} --key-kind integer --heap pmdk
        --domain ${domain} --budget 5 --quiet)
    endforeach()
  endforeach()
endif()
