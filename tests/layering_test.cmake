# Proves that layering.cmake sees what it is there for: cmake -DROOT=<source dir> -DSCRATCH=<dir> -P layering_test.cmake
# runs it on a copy of the sources, clean and with one forbidden include planted.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${SCRATCH})
foreach(folder topology schedules report scenarios sim backend)
  if(EXISTS ${ROOT}/${folder})
    file(COPY ${ROOT}/${folder} DESTINATION ${SCRATCH} FILES_MATCHING PATTERN *.hpp PATTERN *.cpp PATTERN *.cu)
  endif()
endforeach()

# Runs the check on the copy and fails unless its outcome is the one that is expected.
function(expect outcome what)
  execute_process(COMMAND ${CMAKE_COMMAND} -DROOT=${SCRATCH} -P ${CMAKE_CURRENT_LIST_DIR}/layering.cmake
                  RESULT_VARIABLE result ERROR_VARIABLE errors)
  if(outcome STREQUAL passes AND NOT result EQUAL 0)
    message(SEND_ERROR "${what}: expected no complaint, got ${errors}")
  elseif(outcome STREQUAL fails AND (result EQUAL 0 OR NOT errors MATCHES "planted"))
    message(SEND_ERROR "${what}: expected a complaint about the planted file, got '${errors}'")
  endif()
endfunction()

expect(passes "the sources as they are")

foreach(violation "schedules;sim/sweep.hpp" "topology;schedules/action.hpp" "report;topology/cluster.hpp"
                  "scenarios;sim/simulate.hpp" "sim;cli/flags.hpp" "schedules;action.hpp")
  list(GET violation 0 folder)
  list(GET violation 1 header)
  file(WRITE ${SCRATCH}/${folder}/planted.cpp "#include \"${header}\"\n")
  expect(fails "${folder}/ including ${header}")
  file(REMOVE ${SCRATCH}/${folder}/planted.cpp)
endforeach()
