# Headers and a package for find_package(metricfast), in an install prefix or inside the Python package.

include(CMakePackageConfigHelpers)
set(config_dir share/cmake/metricfast)
set(config "${PROJECT_BINARY_DIR}/metricfast-config.cmake")
set(config_version "${PROJECT_BINARY_DIR}/metricfast-config-version.cmake")

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/metricfast-config.cmake.in" "${config}"
                              INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file("${config_version}" COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)

install(DIRECTORY "${PROJECT_SOURCE_DIR}/src/cpp/include/metricfast" DESTINATION include)
install(FILES "${PROJECT_SOURCE_DIR}/src/cpp/include/metricfast.h" DESTINATION include)
install(FILES "${config}" "${config_version}" DESTINATION ${config_dir})
install(TARGETS metricfast_headers EXPORT metricfast-targets)
if(METRICFAST_BUILD_LIBRARY)
    install(TARGETS metricfast EXPORT metricfast-library LIBRARY DESTINATION lib ${if_built}
                                                         RUNTIME DESTINATION lib ${if_built}
                                                         ARCHIVE DESTINATION lib ${if_built})
    install(EXPORT metricfast-library NAMESPACE metricfast:: DESTINATION ${config_dir})
endif()
install(EXPORT metricfast-targets NAMESPACE metricfast:: DESTINATION ${config_dir})
