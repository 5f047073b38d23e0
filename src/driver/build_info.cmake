# Run at every build: asks git for the commit and writes build_info.cpp when something changed, so
# that an unchanged tree compiles nothing. Without git, or outside a repository: "unknown".
# In: SOURCE, TEMPLATE, OUTPUT, PERDURE_VERSION, PERDURE_COMPILER, PERDURE_FLAGS, PERDURE_TYPE.

set(PERDURE_COMMIT "unknown")
set(PERDURE_DIRTY "false")
find_program(GIT git)
if(GIT AND EXISTS "${SOURCE}/.git")
  execute_process(COMMAND "${GIT}" rev-parse HEAD WORKING_DIRECTORY "${SOURCE}"
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed)
    set(PERDURE_COMMIT "${commit}")
    # No optional locks: a build must not get in the way of a git command that runs beside it.
    execute_process(COMMAND "${GIT}" --no-optional-locks status --porcelain
      WORKING_DIRECTORY "${SOURCE}" OUTPUT_VARIABLE changes ERROR_QUIET)
    if(changes)
      set(PERDURE_DIRTY "true")
    endif()
  endif()
endif()
configure_file("${TEMPLATE}" "${OUTPUT}" @ONLY)
