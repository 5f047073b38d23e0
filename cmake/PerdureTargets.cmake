# How the folders of src/ become targets.
#
#   perdure_layer(NAME [LINK lib...])   src/NAME/*.cpp      -> object library perdure_NAME
#   perdure_platform_model()            src/platform/model -> object library perdure_platform
#   perdure_plugin(FOLDER)              one index folder    -> object library perdure_index_<name>,
#                                       of src/lockfree perdure_lockfree_<name>, and so on;
#                                       a CMakeLists.txt there may add to it (find_package, link)
#   perdure_libraries()                 all of them         -> libperdure.so
#
# A file *_test.cpp beside the source becomes part of the test program test_<layer or index>.
# Object libraries, because the registrations of a static library would be dropped.

include(GNUInstallDirs)

add_library(perdure_flags INTERFACE)
target_include_directories(perdure_flags INTERFACE "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>")
target_include_directories(perdure_flags SYSTEM INTERFACE
  "$<BUILD_INTERFACE:${TOMLPLUSPLUS_INCLUDE_DIR}>")
target_compile_options(perdure_flags INTERFACE -Wall -Wextra -Wconversion -Werror
  -fno-semantic-interposition $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>
  # g++ 12 warns of std::string + const char* at -O3 (GCC bug 105651), and of the same function's
  # lengths where it comes from a precompiled header
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<CONFIG:Release>>:-Wno-restrict>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow -Wno-array-bounds>)
if(CMAKE_UNITY_BUILD)  # which takes every file for a header
  target_compile_options(perdure_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()
if(PERDURE_CHECKED)
  target_compile_definitions(perdure_flags INTERFACE PERDURE_CHECKED)
endif()
if(PERDURE_SANITIZE STREQUAL "address")
  # A third of the compile time for what AddressSanitizer sees, or nothing here could show.
  target_compile_options(perdure_flags INTERFACE -fsanitize=address,undefined
    -fno-sanitize=null,vptr,object-size -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(perdure_flags INTERFACE -fsanitize=address,undefined)
elseif(PERDURE_SANITIZE STREQUAL "thread")
  target_compile_options(perdure_flags INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(perdure_flags INTERFACE -fsanitize=thread)
endif()

define_property(GLOBAL PROPERTY PERDURE_OBJECT_LIBRARIES)

# perdure_precompile(TARGET GROUP): a fifth of the time to compile is what the foreign headers take
# that nearly every source includes. Targets of a group have the same options of the compiler, so the
# first one's serve all. ccache needs -fpch-preprocess, and CCACHE_SLOPPINESS=pch_defines,time_macros.
# Not with clang: that build shows that each source includes what it needs.
function(perdure_precompile target group)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  get_property(first GLOBAL PROPERTY PERDURE_PRECOMPILED_${group})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    set(headers <algorithm> <array> <atomic> <charconv> <cstring> <filesystem> <fstream> <functional>
      <map> <memory> <mutex> <optional> <random> <span> <sstream> <string> <thread> <unordered_map>
      <vector> <immintrin.h> <nlohmann/json.hpp>)
    if(group MATCHES "tests|suites")
      list(APPEND headers <gmock/gmock.h> <gtest/gtest.h>)
    endif()
    target_precompile_headers(${target} PRIVATE ${headers})
    set_property(GLOBAL PROPERTY PERDURE_PRECOMPILED_${group} ${target})
  endif()
  target_compile_options(${target} PRIVATE -fpch-preprocess)
endfunction()

function(perdure_layer name)
  cmake_parse_arguments(layer "" "" "LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${name}/*.cpp")
  perdure_objects(perdure_${name} "${sources}" ${layer_LINK})
endfunction()

# The machine model: never compiled with access hooks, in either build. Tests: test_platform_model.
function(perdure_platform_model)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/platform/model/*.cpp"
    "${PROJECT_SOURCE_DIR}/src/platform/model/testing/*.cpp")
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "_test\\.cpp$")
  perdure_objects(perdure_platform "${sources}")
  perdure_objects(perdure_platform_model "${tests}")
endfunction()

function(perdure_plugin folder)
  get_filename_component(name "${folder}" NAME)
  set(name index_${name})
  foreach(layer lockfree engine)
    if(folder MATCHES "/src/${layer}/")
      string(REPLACE "index_" "${layer}_" name "${name}")
    endif()
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.cpp")
  if(sources)
    perdure_objects(perdure_${name} "${sources}")
  endif()
  if(EXISTS "${folder}/CMakeLists.txt")
    add_subdirectory("${folder}")
  endif()
endfunction()

# target, its sources (tests among them), the libraries it links
function(perdure_objects target sources)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz)\\.cpp$")
  if(sources)
    add_library(${target} OBJECT ${sources})
    target_link_libraries(${target} PUBLIC perdure_flags nlohmann_json::nlohmann_json
      PkgConfig::PMEM Threads::Threads ${ARGN})
    if(target MATCHES "^perdure_index_" AND sources MATCHES "/src/structure/")
      # pmemobj_direct looks at thread-local storage of libpmemobj: in a library, by a call each time,
      # unless the loader is told that both are there from the start. A program has it so anyway.
      target_compile_options(${target} PRIVATE -ftls-model=initial-exec)
      perdure_precompile(${target} structures)
    else()
      perdure_precompile(${target} code)
    endif()
    set_property(GLOBAL APPEND PROPERTY PERDURE_OBJECT_LIBRARIES ${target})
  endif()
  if(tests AND PERDURE_TESTS)
    string(REPLACE "perdure_" "test_" test_target ${target})
    set_property(GLOBAL APPEND PROPERTY PERDURE_TEST_TARGETS ${test_target})
    set_property(GLOBAL PROPERTY PERDURE_TEST_SOURCES_${test_target} ${tests})
  endif()
endfunction()

function(perdure_libraries)
  get_property(objects GLOBAL PROPERTY PERDURE_OBJECT_LIBRARIES)
  add_library(perdure SHARED)
  set_target_properties(perdure PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)
  target_link_libraries(perdure PRIVATE ${objects})
  target_include_directories(perdure PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/perdure>")
  target_compile_features(perdure PUBLIC cxx_std_20)
  if(PERDURE_TESTS)
    enable_testing()
    find_package(GTest REQUIRED)
    include(GoogleTest)
    get_property(tests GLOBAL PROPERTY PERDURE_TEST_TARGETS)
    list(REMOVE_ITEM tests ${PERDURE_LEAVE_OUT})
    foreach(test IN LISTS tests)
      get_property(sources GLOBAL PROPERTY PERDURE_TEST_SOURCES_${test})
      add_executable(${test} ${sources})
      set_target_properties(${test} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
      target_link_libraries(${test} PRIVATE perdure perdure_flags GTest::gtest GTest::gmock
        GTest::gtest_main nlohmann_json::nlohmann_json PkgConfig::PMEM)
      # What is tested is optimised, the tests are not: half the time to compile, none of it to run.
      target_compile_options(${test} PRIVATE -O0)
      perdure_precompile(${test} tests)
      gtest_discover_tests(${test} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
    endforeach()
  endif()
endfunction()
