# A function for each kind of target, so that the CMakeLists.txt of a folder is only a list of files.

# In a unity build, several sources are one source for the compiler. It then warns about classes that have
# members of a type in an anonymous namespace, because it treats such a source as a header.
add_compile_options($<$<AND:$<BOOL:${CMAKE_UNITY_BUILD}>,$<COMPILE_LANG_AND_ID:CXX,GNU>>:-Wno-subobject-linkage>)
# The compiler spends a tenth of its time on garbage collection. With this option, it begins only when it uses
# half a GiB.
add_compile_options($<$<AND:$<BOOL:${CMAKE_UNITY_BUILD}>,$<COMPILE_LANG_AND_ID:CXX,GNU>>:--param=ggc-min-heapsize=524288>)

# The libraries become a part of a shared library only as a whole. With this option, functions of one source may still
# be inlined into each other, so position-independent code is as fast as other code.
if(CMAKE_POSITION_INDEPENDENT_CODE)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fno-semantic-interposition>)
endif()

# Sets the `headers` that no source of the same name includes first. The other headers need no separate
# compilation, because scripts/tidy.sh reads their sources without precompiled headers and detects missing
# includes.
function(penstock_headers_without_source headers result)
  set(alone "")
  foreach(header ${headers})
    cmake_path(REPLACE_EXTENSION header LAST_ONLY cpp OUTPUT_VARIABLE source)
    set(first "")
    if(EXISTS ${source})
      file(STRINGS ${source} first REGEX "^#include" LIMIT_COUNT 1)
    endif()
    cmake_path(RELATIVE_PATH header BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE name)
    if(NOT first STREQUAL "#include \"${name}\"")
      list(APPEND alone ${header})
    endif()
  endforeach()
  set(${result} ${alone} PARENT_SCOPE)
endfunction()

# Defines the library of a folder. It has all sources of its ROOMS (folders in it, or "." for the folder itself), and
# SOURCES that the build makes. The headers of the rooms are public and are installed under include/penstock. The
# target all_verify_interface_header_sets compiles separately those headers that no source of the same name includes
# first. With HOT, a release build compiles eight sources at a time, independent of the preset. With 24 sources, the
# simulation of shared links took a fifth longer.
function(penstock_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "HOT" "" "ROOMS;SOURCES;DEPENDS;PRIVATE_DEPENDS")
  list(TRANSFORM arg_ROOMS APPEND /*.hpp OUTPUT_VARIABLE header_globs)
  list(TRANSFORM arg_ROOMS APPEND /*.cpp OUTPUT_VARIABLE source_globs)
  file(GLOB headers CONFIGURE_DEPENDS ${header_globs})
  file(GLOB sources CONFIGURE_DEPENDS ${source_globs})
  add_library(penstock_${name} ${sources} ${arg_SOURCES})
  add_library(penstock::${name} ALIAS penstock_${name})
  if(arg_HOT AND CMAKE_BUILD_TYPE STREQUAL "Release")
    set_target_properties(penstock_${name} PROPERTIES UNITY_BUILD_BATCH_SIZE 8)
  endif()
  penstock_headers_without_source("${headers}" alone)
  list(REMOVE_ITEM headers ${alone})
  target_sources(penstock_${name} PUBLIC
    FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${headers}
    FILE_SET alone TYPE HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${alone})
  target_include_directories(penstock_${name} PUBLIC $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/penstock>)
  target_compile_features(penstock_${name} PUBLIC cxx_std_20)
  target_link_libraries(penstock_${name} PUBLIC ${arg_DEPENDS} PRIVATE ${arg_PRIVATE_DEPENDS})
  target_precompile_headers(penstock_${name} REUSE_FROM penstock_core_headers)
  set_target_properties(penstock_${name} PROPERTIES EXPORT_NAME ${name} VERIFY_INTERFACE_HEADER_SETS ON
                        INTERFACE_HEADER_SETS_TO_VERIFY alone)
  install(TARGETS penstock_${name} EXPORT penstockTargets
          FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/penstock
          FILE_SET alone DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/penstock)
endfunction()

# Defines the test program of a folder of tests. Every TEST in it becomes a separate CTest test. A suite of TOGETHER
# becomes a single CTest test, because its tests share data that a process computes only once.
function(penstock_test_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS;PRECOMPILED;TOGETHER")
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_compile_options(${name} PRIVATE ${penstock_light_optimization})
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} GTest::gtest GTest::gmock GTest::gtest_main)
  target_precompile_headers(${name} REUSE_FROM ${arg_PRECOMPILED})
  list(TRANSFORM arg_TOGETHER APPEND ".*" OUTPUT_VARIABLE suites)
  list(JOIN suites ":" suites)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 TEST_FILTER "-${suites}" PROPERTIES LABELS ${name})
  foreach(suite ${arg_TOGETHER})
    add_test(NAME ${suite} COMMAND ${name} --gtest_filter=${suite}.*)
    set_tests_properties(${suite} PROPERTIES LABELS ${name})
  endforeach()
endfunction()
