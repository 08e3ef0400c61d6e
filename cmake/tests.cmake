# Searches for packages that only tests and benchmarks need. Prints a line for each part that is left out.
# Sets PENSTOCK_TESTS_FOUND and PENSTOCK_BENCH_FOUND.

set(unless_asked OFF)  # inside another project
if(PROJECT_IS_TOP_LEVEL)
  set(unless_asked AUTO)
endif()
set(PENSTOCK_BUILD_TESTS ${unless_asked} CACHE STRING "The tests: AUTO (where GoogleTest and rapidcheck are found), ON (required), OFF")
set(PENSTOCK_BUILD_BENCH ${unless_asked} CACHE STRING "The benchmarks: AUTO (where Google Benchmark is found), ON (required), OFF")
set_property(CACHE PENSTOCK_BUILD_TESTS PENSTOCK_BUILD_BENCH PROPERTY STRINGS AUTO ON OFF)

# Sets `result` to true if all PACKAGES are found. If one is missing and `option` requires it, the
# configuration ends with an error.
function(penstock_find_for option what result)
  set(${result} FALSE PARENT_SCOPE)
  if(${option} STREQUAL "OFF")
    return()
  endif()
  set(missing "")
  foreach(package ${ARGN})
    find_package(${package} QUIET GLOBAL)
    if(NOT ${package}_FOUND)
      list(APPEND missing ${package})
    endif()
  endforeach()
  list(JOIN missing ", " missing)
  if(NOT missing)
    set(${result} TRUE PARENT_SCOPE)
  elseif(${option} STREQUAL "AUTO")
    message(STATUS "${what} are left out: not found: ${missing}")
  else()
    message(FATAL_ERROR "${what}: not found: ${missing}; -D${option}=OFF builds without them")
  endif()
endfunction()

penstock_find_for(PENSTOCK_BUILD_TESTS "Tests" PENSTOCK_TESTS_FOUND GTest rapidcheck)
penstock_find_for(PENSTOCK_BUILD_BENCH "Benchmarks" PENSTOCK_BENCH_FOUND benchmark)
