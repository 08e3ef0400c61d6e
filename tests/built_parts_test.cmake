# Holds cli/built_parts.cpp.in to any text that CMake may find out: cmake -DROOT=<source dir> -DSCRATCH=<dir>
# -DCOMPILER=<C++ compiler> -P built_parts_test.cmake. Fills the template with texts that have broken command lines or
# string literals, compiles it, and compares what the program prints.
cmake_minimum_required(VERSION 3.25)

set(PROJECT_VERSION "1.2.3")
set(torch_part "left out: /a path/with blanks; and \"quotes\", it's said")
set(cuda_part "left out: C:\\new\\table ends in a backslash\\")
set(nccl_part "left out: $HOME, \${name}, $(command), `command`, %s, @cuda_part@, #if, //, ??/")

file(REMOVE_RECURSE ${SCRATCH})
configure_file(${ROOT}/cli/built_parts.cpp.in ${SCRATCH}/built_parts.cpp @ONLY)
file(WRITE ${SCRATCH}/main.cpp [=[
#include <cstdio>
#include "cli/executable.hpp"
int main() {
  const penstock::BuiltParts parts = penstock::built_parts();
  for (const std::string_view text : {parts.version, parts.torch, parts.cuda, parts.nccl})
    std::printf("%.*s\n", static_cast<int>(text.size()), text.data());
}
]=])
execute_process(COMMAND ${COMPILER} -std=c++20 -I${ROOT} built_parts.cpp main.cpp -o print
                WORKING_DIRECTORY ${SCRATCH} RESULT_VARIABLE status ERROR_VARIABLE said)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "the filled template does not compile:\n${said}")
endif()
execute_process(COMMAND ${SCRATCH}/print OUTPUT_VARIABLE found COMMAND_ERROR_IS_FATAL ANY)
set(expected "${PROJECT_VERSION}\n${torch_part}\n${cuda_part}\n${nccl_part}\n")
if(NOT found STREQUAL expected)
  message(FATAL_ERROR "expected:\n${expected}\nfound:\n${found}")
endif()
