# Proves that openings.cmake sees what it is there for: cmake -DROOT=<source dir> -DSCRATCH=<dir> -P openings_test.cmake
# runs it on a copy of the sources, clean and with one violation planted at a time.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${SCRATCH})
foreach(folder text topology schedules report scenarios sim backend cli bench)
  file(COPY ${ROOT}/${folder} DESTINATION ${SCRATCH}
       FILES_MATCHING PATTERN *.hpp PATTERN *.cpp PATTERN *.cu PATTERN README.md)
endforeach()

# Runs the check on the copy; fails unless it passes (`expected` empty) or complains of the file with those words.
function(expect expected what)
  execute_process(COMMAND ${CMAKE_COMMAND} -DROOT=${SCRATCH} -P ${CMAKE_CURRENT_LIST_DIR}/openings.cmake
                  RESULT_VARIABLE result ERROR_VARIABLE errors)
  string(REGEX REPLACE "[ \n]+" " " errors "${errors}")
  if(expected STREQUAL "" AND NOT result EQUAL 0)
    message(SEND_ERROR "${what}: expected no complaint, got ${errors}")
  elseif(NOT expected STREQUAL "" AND (result EQUAL 0 OR NOT errors MATCHES "${expected}"))
    message(SEND_ERROR "${what}: expected a complaint \"${expected}\", got '${errors}'")
  endif()
endfunction()

function(expect_source expected what content)
  file(WRITE ${SCRATCH}/sim/engines/planted.cpp "${content}")
  expect("${expected}" "${what}")
  file(REMOVE ${SCRATCH}/sim/engines/planted.cpp)
endfunction()

expect("" "the sources as they are")

string(REPEAT "word " 30 idea)
expect_source("planted.cpp: opens without" "no comment" "#include <vector>\n")
expect_source("planted.cpp: opens without" "the idea below the includes" "#include <vector>\n// ${idea}\n")
expect_source("planted.cpp: its opening is" "the file's name in words" "// The planted engine.\n#include <vector>\n")
expect_source("planted.cpp: opens without" "a frame around nothing" "// ------------------- //\n//\n//\n#include <vector>\n")
expect_source("" "an idea; with brackets [0, 1) and a semicolon" "// ${idea}; [0, 1)\n#include <vector>\n")

file(WRITE ${SCRATCH}/bench/gpu/planted.cpp "#include <vector>\n")
expect("planted.cpp: opens without" "a benchmark without a comment")
file(REMOVE ${SCRATCH}/bench/gpu/planted.cpp)

file(MAKE_DIRECTORY ${SCRATCH}/sim/planted)
file(WRITE ${SCRATCH}/sim/planted/header.hpp "#pragma once\n")
expect("sim/planted: has no README.md" "a room without a page")
file(REMOVE_RECURSE ${SCRATCH}/sim/planted)

file(REMOVE ${SCRATCH}/schedules/README.md)
expect("schedules: has no README.md" "a folder without a page")
