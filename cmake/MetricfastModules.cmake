# The Python extension modules: _cpu, which runs on any processor and tells what this one supports, and
# one _kernels_<level> from the same sources for each instruction set level.

find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
find_package(pybind11 CONFIG REQUIRED)
set(bindings "${PROJECT_SOURCE_DIR}/src/cpp/bindings")

set(metricfast_sources module bind_build bind_distance bind_neighbors bind_engine bind_inference
    bind_itml bind_psd_learners bind_scatter bind_scml bind_oasis
    bind_class_losses bind_label_losses bind_embeddings)
list(TRANSFORM metricfast_sources PREPEND "${bindings}/")
list(TRANSFORM metricfast_sources APPEND ".cpp")

# NO_EXTRAS: link-time optimisation would double the compile time and gains nothing here.
pybind11_add_module(_cpu MODULE NO_EXTRAS "${bindings}/cpu.cpp")
install(TARGETS _cpu DESTINATION .)

foreach(level IN LISTS metricfast_levels)
    set(module _kernels_${level})
    pybind11_add_module(${module} MODULE NO_EXTRAS ${metricfast_sources})
    target_link_libraries(${module} PRIVATE metricfast metricfast_flags)
    target_compile_options(${module} PRIVATE ${metricfast_${level}_flags})
    target_compile_definitions(${module} PRIVATE METRICFAST_MODULE_NAME=${module}
                                                 METRICFAST_MODULE_ISA="${level}"
                                                 METRICFAST_EIGEN_VERSION="${Eigen3_VERSION}")
    if(NOT METRICFAST_NATIVE)
        # As one translation unit: half the processor time in all, where a developer's build after a
        # change is better off with several.
        set_target_properties(${module} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
    endif()
    install(TARGETS ${module} DESTINATION .)
endforeach()
