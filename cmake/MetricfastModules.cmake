# The Python extension modules: _cpu, which runs on any processor and tells what this one supports, and
# one _kernels_<level> from the same sources for each instruction set level.

find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
find_package(pybind11 CONFIG REQUIRED)
set(bindings "${PROJECT_SOURCE_DIR}/src/cpp/bindings")

# The files of a unit are compiled as one, since what they share is instantiated once then. Units are
# as large as a compiler of 2 GB may be.
set(metricfast_units engine search losses learners)
set(metricfast_engine bind_engine bind_itml bind_oasis bind_psd_learners)
set(metricfast_search bind_distance bind_database bind_neighbors bind_inference)
set(metricfast_losses bind_losses)
set(metricfast_learners module bind_build bind_embeddings bind_scatter bind_scml)
foreach(unit IN LISTS metricfast_units)
    list(TRANSFORM metricfast_${unit} REPLACE "(.+)" "${bindings}/\\1.cpp")
    set_source_files_properties(${metricfast_${unit}} PROPERTIES UNITY_GROUP ${unit})
    list(APPEND metricfast_sources ${metricfast_${unit}})
endforeach()

# NO_EXTRAS: link-time optimisation would double the compile time and gains nothing here.
pybind11_add_module(_cpu MODULE NO_EXTRAS "${bindings}/cpu.cpp")
target_include_directories(_cpu PRIVATE "${PROJECT_SOURCE_DIR}/src/cpp")
install(TARGETS _cpu DESTINATION .)

foreach(level IN LISTS metricfast_levels)
    set(module _kernels_${level})
    pybind11_add_module(${module} MODULE NO_EXTRAS ${metricfast_sources})
    target_link_libraries(${module} PRIVATE metricfast metricfast_flags)
    target_compile_options(${module} PRIVATE ${metricfast_${level}_flags})
    target_compile_definitions(${module} PRIVATE METRICFAST_MODULE_NAME=${module}
                                                 METRICFAST_MODULE_ISA="${level}"
                                                 METRICFAST_EIGEN_VERSION="${Eigen3_VERSION}")
    if(NOT SKBUILD_STATE STREQUAL "editable")
        # Half the processor time in all. An editable build compiles one file at a time: after a
        # change that is less.
        set_target_properties(${module} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    endif()
    install(TARGETS ${module} DESTINATION .)
endforeach()
