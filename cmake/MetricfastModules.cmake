# _kernels: the Python extension module. It runs on any processor, and calls the level in use.

find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
find_package(pybind11 CONFIG REQUIRED)

# NO_EXTRAS: link-time optimisation would double the compile time and gains nothing here. One unit,
# since pybind11 is most of what each file would compile again.
file(GLOB bindings CONFIGURE_DEPENDS "${metricfast_cpp}/bindings/*.cpp")
pybind11_add_module(_kernels MODULE NO_EXTRAS ${bindings})
metricfast_dispatch(_kernels "lib")
target_compile_definitions(_kernels PRIVATE METRICFAST_EIGEN_VERSION="${Eigen3_VERSION}")
if(NOT MSVC)
    target_compile_options(_kernels PRIVATE -O1)
endif()
set_target_properties(_kernels PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
set_source_files_properties("${metricfast_cpp}/dispatch/loaded.cpp" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
install(TARGETS _kernels DESTINATION .)

# The bill of materials of the wheel: what is compiled in (PEP 770).
if(DEFINED SKBUILD_METADATA_DIR)
    configure_file("${PROJECT_SOURCE_DIR}/cmake/sbom.cdx.json.in" "${PROJECT_BINARY_DIR}/metricfast.cdx.json" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/metricfast.cdx.json" DESTINATION "${SKBUILD_METADATA_DIR}/sboms")
endif()
