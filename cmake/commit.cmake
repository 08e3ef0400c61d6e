# Writes OUTPUT, a source file with the commit of SOURCE that is built: cmake -DSOURCE=DIR -DOUTPUT=FILE -P
# commit.cmake. It runs in every build, and changes OUTPUT only if the commit has changed. So the commit is
# correct without a new configuration, and a new commit compiles only this file again.
cmake_minimum_required(VERSION 3.25)

find_program(git git)

# Sets the output of git as one line. It is empty if git fails.
function(ask_git result)
  set(answer "")
  if(git)
    execute_process(COMMAND ${git} -C ${SOURCE} ${ARGN} OUTPUT_VARIABLE answer ERROR_QUIET RESULT_VARIABLE status
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT status EQUAL 0)
      set(answer "")
    endif()
  endif()
  set(${result} "${answer}" PARENT_SCOPE)
endfunction()

# If the sources are copied into another project's checkout, git would return that project's commit, so there
# is no commit.
ask_git(prefix rev-parse --show-prefix)
ask_git(hash rev-parse HEAD)
if(NOT hash OR prefix)
  set(commit "unknown: not built from a git checkout")
else()
  ask_git(changes status --porcelain --untracked-files=no)
  set(commit "${hash}")
  if(changes)
    string(APPEND commit ", with changes")
  endif()
endif()

file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [=[
#include "cli/executable.hpp"

namespace penstock {

std::string_view built_commit() { return "@commit@"; }

}  // namespace penstock
]=])
