# One helper a kind of target, so that every folder's CMakeLists.txt is a list of files.

# HEADERS are the public ones: installed under include/penstock, and each is compiled alone by the
# target all_verify_interface_header_sets.
function(penstock_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;SOURCES;DEPENDS;PRIVATE_DEPENDS")
  add_library(penstock_${name} ${arg_SOURCES})
  add_library(penstock::${name} ALIAS penstock_${name})
  target_sources(penstock_${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${arg_HEADERS})
  target_include_directories(penstock_${name} PUBLIC $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/penstock>)
  target_compile_features(penstock_${name} PUBLIC cxx_std_20)
  target_link_libraries(penstock_${name} PUBLIC ${arg_DEPENDS} PRIVATE ${arg_PRIVATE_DEPENDS})
  set_target_properties(penstock_${name} PROPERTIES EXPORT_NAME ${name} VERIFY_INTERFACE_HEADER_SETS ON)
  install(TARGETS penstock_${name} EXPORT penstockTargets
          FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/penstock)
endfunction()

# One test program a folder of tests; every TEST in it becomes a CTest test of its own.
function(penstock_test_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS")
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_compile_definitions(${name} PRIVATE PENSTOCK_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} GTest::gtest GTest::gmock GTest::gtest_main)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS ${name})
endfunction()
