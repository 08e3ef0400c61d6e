# Proves that trust_page.cmake sees what it is there for: cmake -DROOT=<source dir> -DSCRATCH=<dir> -P trust_page_test.cmake
cmake_minimum_required(VERSION 3.25)

# Runs the check on a page with that row; fails unless it passes (`expected` empty) or complains with those words.
function(expect expected row)
  file(WRITE ${SCRATCH}/page.md "${row}\n")
  execute_process(COMMAND ${CMAKE_COMMAND} -DROOT=${ROOT} -DPAGE=${SCRATCH}/page.md -P ${CMAKE_CURRENT_LIST_DIR}/trust_page.cmake
                  RESULT_VARIABLE result ERROR_VARIABLE errors)
  string(REGEX REPLACE "[ \n]+" " " errors "${errors}")
  if(expected STREQUAL "" AND NOT result EQUAL 0)
    message(SEND_ERROR "${row}: expected no complaint, got ${errors}")
  elseif(NOT expected STREQUAL "" AND (result EQUAL 0 OR NOT errors MATCHES "${expected}"))
    message(SEND_ERROR "${row}: expected a complaint \"${expected}\", got '${errors}'")
  endif()
endfunction()

expect("" "| heads | end quietly | `outputs.txt`, `scripts/fuzz.sh` |")
expect("" "| tests | have names | `LaunchOrder.NoScheduleOfTheTableHangs` |")
expect("there is no test LaunchOrder.IsForgotten" "| tests | have names | `LaunchOrder.IsForgotten` |")
expect("there is no transcript inputs.txt" "| heads | end quietly | `inputs.txt` |")
expect("there is no scripts/fuss.sh" "| bytes | are read | `scripts/fuss.sh` |")
expect("no test shows this row" "| words | are `nan` | by nobody |")
expect("has no rows" "nothing")
