# Holds cmake/commit.cmake to what `penstock --version` promises: cmake -DROOT=<source dir> -DSCRATCH=<dir> -P
# commit_test.cmake makes a small checkout and asks after each thing that may happen to it.
cmake_minimum_required(VERSION 3.25)

find_program(git git)
if(NOT git)
  message(FATAL_ERROR "expected git, which this test makes a checkout with")
endif()
file(REMOVE_RECURSE ${SCRATCH})
file(MAKE_DIRECTORY ${SCRATCH}/checkout/vendored)
set(source ${SCRATCH}/checkout)
set(output ${SCRATCH}/commit.cpp)

function(in_checkout)
  execute_process(COMMAND ${git} -C ${source} -c user.name=test -c user.email=test@example.com -c commit.gpgsign=false ${ARGN}
                  COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
endfunction()

function(commit_text text result)
  file(WRITE ${source}/file "${text}")
  in_checkout(add file)
  in_checkout(commit -q -m "${text}")
  execute_process(COMMAND ${git} -C ${source} rev-parse HEAD OUTPUT_VARIABLE hash OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(${result} ${hash} PARENT_SCOPE)
endfunction()

# Expects that a build of `folder` says `commit`.
function(expect folder commit when)
  execute_process(COMMAND ${CMAKE_COMMAND} -DSOURCE=${folder} -DOUTPUT=${output} -P ${ROOT}/cmake/commit.cmake
                  COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${output} text)
  string(FIND "${text}" "\"${commit}\"" place)
  if(place EQUAL -1)
    message(SEND_ERROR "${when}: expected \"${commit}\", found ${text}")
  endif()
endfunction()

# The scratch folder may lie in a checkout: git looks no further up than this.
set(ENV{GIT_CEILING_DIRECTORIES} ${SCRATCH})
set(none "unknown: not built from a git checkout")
expect(${source} "${none}" "outside git")
in_checkout(init -q)
expect(${source} "${none}" "before the first commit")
commit_text(first first)
expect(${source} ${first} "after a commit")
expect(${source}/vendored "${none}" "in a folder of another project's checkout")
commit_text(second second)
expect(${source} ${second} "after a further commit")

file(TIMESTAMP ${output} before "%s")
execute_process(COMMAND ${CMAKE_COMMAND} -E sleep 1.1)
expect(${source} ${second} "when nothing has changed")
file(TIMESTAMP ${output} after "%s")
if(NOT after EQUAL before)
  message(SEND_ERROR "the source is written again, and so compiled again, although nothing has changed")
endif()

file(WRITE ${source}/file edited)
expect(${source} "${second}, with changes" "after an edit")
