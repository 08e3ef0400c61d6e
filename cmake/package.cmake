# Two Debian packages, which scripts/deb.sh makes and tries. `penstock` has the program, its man pages and completion
# scripts, and the library of scenarios. `libpenstock-dev` has the static libraries and headers for C++ programs.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/scenarios/library/ DESTINATION ${CMAKE_INSTALL_DATADIR}/penstock/library
        COMPONENT program)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/penstock COMPONENT program
        RENAME copyright)
install(FILES ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/penstock COMPONENT program)

# Otherwise cpack would first build all targets, including the tests.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL program development)
set(CPACK_COMPONENTS_GROUPING IGNORE)  # one package for each component
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGE_NAME penstock)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The maintainers of Penstock <penstock@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_OUTPUT_FILE_PREFIX ${PROJECT_BINARY_DIR}/packages)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME penstock)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
# The package depends on the packages with the shared libraries that the program needs.
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libpenstock-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
# cmake/penstockConfig.cmake.in always searches for the first packages. It searches for the others only for its
# components. nlohmann-json3-dev is not searched for: it has only headers, which penstock/export.hpp includes.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libexpected-dev, libfmt-dev, libyaml-cpp-dev, nlohmann-json3-dev, zlib1g-dev")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "libtbb-dev, libnlopt-cxx-dev, libpugixml-dev, libsqlite3-dev, libssl-dev")
include(CPack)
