# Sets of other libraries' headers that are precompiled: read once for all sources that use the set instead of once a
# source. Only headers that change with the machine's packages are in them, so that no edit here builds a set again.
#
# Sources include what they use all the same: scripts/tidy.sh reads them without any set, and so does every build with
# -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON.

# A compiler cache sees through precompiled headers only with this.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)

# Without optimization fmt's headers ask GCC for some of it and give it back; from a precompiled header __OPTIMIZE__ stays
# defined, and the intrinsics that Eigen uses do not compile then.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND (NOT CMAKE_BUILD_TYPE OR CMAKE_BUILD_TYPE STREQUAL "Debug"))
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()

# A set NAME of HEADERS, for `target_precompile_headers(TARGET REUSE_FROM NAME)`. The compiler refuses a set that was
# made with other flags: OPTIONS and the definitions that come with DEPENDS are those of the set's users.
function(penstock_precompiled_set name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;DEPENDS;OPTIONS")
  file(CONFIGURE OUTPUT ${name}.cpp CONTENT "// A target needs a source; the headers are what is compiled.\n")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_compile_options(${name} PRIVATE ${arg_OPTIONS})
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS})
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
endfunction()

# Where time is not what a source is for, in release builds too: flags, messages, tests. Not for rooms of a library: with
# those of messages and readers planning and sweeps took a tenth longer, perhaps since of an inline function that several
# objects hold the linker keeps any one.
set(penstock_light_optimization $<$<CONFIG:Release>:-O1>)
