# `cmake --install`: the library, its public headers, the program, and a CMake package, so that another
# project writes find_package(perdure) and links perdure::perdure.

include(CMakePackageConfigHelpers)
set(perdure_package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/perdure")

install(TARGETS perdure EXPORT perdureTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library)
if(TARGET perdure-native)
  set_target_properties(perdure-native PROPERTIES
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS perdure-native RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT program)
endif()

# The crash explorer for structures of other projects, where it was built.
if(TARGET perdure_crash)
  install(TARGETS perdure_crash EXPORT perdureTargets
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library)
endif()
install(FILES cmake/PerdureCrashTest.cmake DESTINATION "${perdure_package_folder}"
  COMPONENT library)

# The contracts only: what a program or an index of another project includes.
foreach(folder core pm)
  install(DIRECTORY "src/${folder}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/perdure"
    COMPONENT library FILES_MATCHING PATTERN "*.h" PATTERN "toml.h" EXCLUDE
    PATTERN "test_*.h" EXCLUDE)
endforeach()
install(FILES src/pool/epoch.h src/pool/heap.h src/pool/options.h src/pool/pool.h src/pool/ptr.h
  src/pool/size_classes.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/perdure/pool" COMPONENT library)
install(FILES src/index/index.h src/index/media_layout.h src/index/registry.h
  src/index/writable_index.h
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/perdure/index" COMPONENT library)
install(FILES src/index/common/with_room.h
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/perdure/index/common" COMPONENT library)
install(FILES src/lockfree/base/durable_queue.h src/lockfree/base/durable_set.h
  src/lockfree/base/queue_registry.h
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/perdure/lockfree/base" COMPONENT library)
install(FILES src/engine/store/store_types.h
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/perdure/engine/store" COMPONENT library)
install(FILES src/engine/document/engine.h src/engine/document/errors.h
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/perdure/engine/document" COMPONENT library)

install(EXPORT perdureTargets NAMESPACE perdure:: DESTINATION "${perdure_package_folder}"
  COMPONENT library)
configure_package_config_file(cmake/perdureConfig.cmake.in
  "${PROJECT_BINARY_DIR}/perdureConfig.cmake" INSTALL_DESTINATION "${perdure_package_folder}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/perdureConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/perdureConfig.cmake"
  "${PROJECT_BINARY_DIR}/perdureConfigVersion.cmake" DESTINATION "${perdure_package_folder}"
  COMPONENT library)
install(DIRECTORY workloads platforms DESTINATION "${CMAKE_INSTALL_DATADIR}/perdure"
  COMPONENT program FILES_MATCHING PATTERN "*.toml")
install(FILES LICENSE README.md DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT library)

add_library(perdure::perdure ALIAS perdure)

# Installs into the build folder and builds another project against it.
if((PERDURE_TESTS OR PERDURE_SIM_TESTS) AND NOT PERDURE_SANITIZE)
  add_test(NAME package.another_project_finds_perdure COMMAND
    "${PROJECT_SOURCE_DIR}/tests/package/run.sh" "${PROJECT_BINARY_DIR}" "${CMAKE_CXX_COMPILER}")
  set_tests_properties(package.another_project_finds_perdure PROPERTIES TIMEOUT 300
    ENVIRONMENT PMEM_IS_PMEM_FORCE=1)
endif()
