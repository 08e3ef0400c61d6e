# Runs the README's plain configure and build commands as on a machine that has only what scripts/demo.sh installs:
# cmake -DROOT=<source dir> -DSCRATCH=<dir> -P plain_build_test.cmake. The packages of tests and benchmarks, LibTorch,
# and CUDA are hidden. The build is planned as a whole, and of its sources one is compiled: the others are compiled with the
# same flags by whoever runs this test.
cmake_minimum_required(VERSION 3.25)

set(of_readme "cmake -S . -B build/mine -G Ninja -DCMAKE_BUILD_TYPE=Release && cmake --build build/mine")
file(READ ${ROOT}/README.md readme)
string(FIND "${readme}" "`${of_readme}`" place)
if(place EQUAL -1)
  message(FATAL_ERROR "README.md no longer says `${of_readme}`, which is what this test runs")
endif()

file(REMOVE_RECURSE ${SCRATCH})
file(MAKE_DIRECTORY ${SCRATCH})
string(REPLACE "-S ." "-S ${ROOT}" command "${of_readme}")
string(REPLACE "build/mine" "${SCRATCH}/mine" command "${command}")
string(REPLACE " && " ";" commands "${command}")
list(GET commands 0 configure)
list(GET commands 1 build)

# Runs a command line and returns what it says; ends the test when it fails.
function(run result)
  separate_arguments(command UNIX_COMMAND "${ARGN}")
  execute_process(COMMAND ${command} OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "`${ARGN}` fails on a machine without test packages:\n${said}")
  endif()
  set(${result} "${said}" PARENT_SCOPE)
endfunction()

set(hidden "-DPENSTOCK_WITH_TORCH=OFF -DPENSTOCK_WITH_CUDA=OFF")
foreach(package GTest rapidcheck benchmark)
  string(APPEND hidden " -DCMAKE_DISABLE_FIND_PACKAGE_${package}=ON")
endforeach()
run(said "${configure} ${hidden}")
foreach(line "Tests are left out: not found: GTest, rapidcheck" "Benchmarks are left out: not found: benchmark")
  string(FIND "${said}" "${line}" place)
  if(place EQUAL -1)
    message(SEND_ERROR "expected the line \"${line}\", found:\n${said}")
  endif()
endforeach()

run(plan "${build} -- -t commands")
if(NOT plan MATCHES " -o bin/penstock ")
  message(SEND_ERROR "the build does not make bin/penstock")
endif()
if(plan MATCHES "_tests|_bench|gtest")
  message(SEND_ERROR "the build makes tests or benchmarks")
endif()
run(said "${build} --target cli/CMakeFiles/penstock.dir/main.cpp.o")
