# Sets of precompiled headers of other libraries. The compiler reads a set once for all sources that use it.
# The sets contain only headers of the machine's packages, so that an edit of this project does not build a
# set again.
#
# Sources must still include all headers that they use. scripts/tidy.sh and builds with
# -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON use no sets.

# A compiler cache works with precompiled headers only with this option.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)

# Without optimization, fmt's headers enable some optimization of GCC and then disable it. In a precompiled
# header, __OPTIMIZE__ remains defined after that, and the intrinsics that Eigen uses do not compile.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND (NOT CMAKE_BUILD_TYPE OR CMAKE_BUILD_TYPE STREQUAL "Debug"))
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()

# Defines a set NAME of HEADERS, for `target_precompile_headers(TARGET REUSE_FROM NAME)`. The compiler refuses
# a set that was compiled with other flags. So OPTIONS and DEPENDS must give the same flags as in the targets
# that use the set.
function(penstock_precompiled_set name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;DEPENDS;OPTIONS")
  file(CONFIGURE OUTPUT ${name}.cpp CONTENT "// A target needs a source; the headers are what is compiled.\n")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_compile_options(${name} PRIVATE ${arg_OPTIONS})
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS})
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
endfunction()

# Options for sources that need not be fast, also in release builds: those of flags, messages and tests. Folders of a
# library must not use them. When the folders of messages and readers used them, planning and sweeps took a tenth
# longer. The reason may be that the linker keeps any one copy of an inline function that several objects contain.
set(penstock_light_optimization $<$<CONFIG:Release>:-O1>)
