# The compiled library, of library.hpp for C++ and metricfast.h for C. It runs on any processor, and
# calls the level in use.

add_library(metricfast SHARED ${if_linked} "${metricfast_cpp}/c/library.cpp")
add_library(metricfast::metricfast ALIAS metricfast)
metricfast_dispatch(metricfast ".")
target_compile_definitions(metricfast PRIVATE METRICFAST_EXPORTS)
target_compile_features(metricfast PUBLIC cxx_std_17)
target_include_directories(
    metricfast ${system} PUBLIC $<BUILD_INTERFACE:${metricfast_cpp}/include> $<INSTALL_INTERFACE:include>)
# Levels lie beside the library: for programs of a build tree too.
foreach(level IN LISTS metricfast_levels)
    set_target_properties(metricfast_${level} PROPERTIES
                          LIBRARY_OUTPUT_DIRECTORY "$<TARGET_FILE_DIR:metricfast>")
endforeach()
metricfast_show(metricfast "metricfast_*")
