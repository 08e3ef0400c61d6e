# Writes OUTPUT, a source that says which commit of SOURCE is built, and only when that has changed:
# cmake -DSOURCE=DIR -DOUTPUT=FILE -P commit.cmake. Runs in every build, so that a commit is right without configuring
# again and costs the compilation of this one source.
cmake_minimum_required(VERSION 3.25)

find_program(git git)

# What git answers, on one line; empty where it does not.
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

# A copy of the sources inside another project's checkout has no commit of its own.
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
#include "cli/version.hpp"

namespace penstock {

std::string_view built_commit() { return "@commit@"; }

}  // namespace penstock
]=])
