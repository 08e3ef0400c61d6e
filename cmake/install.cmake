# find_package(penstock) for projects that use the libraries.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/penstock)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/penstockConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/penstockConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/penstockConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/penstockConfig.cmake ${PROJECT_BINARY_DIR}/penstockConfigVersion.cmake
        DESTINATION ${package_dir})
install(EXPORT penstockTargets NAMESPACE penstock:: DESTINATION ${package_dir})
