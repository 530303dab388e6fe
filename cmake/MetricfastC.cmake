# The library of metricfast.h: metricfast_c, which runs on any processor, and one metricfast_<level>
# beside it for each instruction set level, which it loads when it is first used.

set(c_sources "${PROJECT_SOURCE_DIR}/src/cpp/c")
set(c_levels ${metricfast_levels})
list(TRANSFORM c_levels REPLACE "(.+)" "\"\\1\"")
list(JOIN c_levels "," c_levels)

# A level shows one symbol, and the library those of the header: what a compiler instantiates for one
# instruction set must serve no other code of a process.
function(metricfast_show target symbols)
    set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
    if(APPLE)
        target_link_options(${target} PRIVATE "LINKER:-exported_symbol,_${symbols}" LINKER:-dead_strip)
    elseif(UNIX)
        set(script "${PROJECT_BINARY_DIR}/${target}.map")
        file(CONFIGURE OUTPUT "${script}" CONTENT "{ global: @symbols@; local: *; };\n" @ONLY)
        target_compile_options(${target} PRIVATE -ffunction-sections)
        target_link_options(${target} PRIVATE "LINKER:--version-script=${script}" LINKER:--gc-sections)
    endif()
endfunction()

foreach(level IN LISTS metricfast_levels)
    set(target metricfast_c_${level})
    add_library(${target} MODULE "${c_sources}/level.cpp")
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src/cpp")
    target_link_libraries(${target} PRIVATE metricfast metricfast_flags)
    target_compile_options(${target} PRIVATE ${metricfast_${level}_flags})
    set_target_properties(${target} PROPERTIES PREFIX libmetricfast_ OUTPUT_NAME ${level})
    metricfast_show(${target} metricfast_level_functions)
    install(TARGETS ${target} DESTINATION lib)
endforeach()

add_library(metricfast_c SHARED "${c_sources}/library.cpp")
add_library(metricfast::c ALIAS metricfast_c)
target_compile_features(metricfast_c PRIVATE cxx_std_17)
target_compile_definitions(metricfast_c PRIVATE METRICFAST_C_EXPORTS METRICFAST_LEVELS=${c_levels}
                                                METRICFAST_LEVEL_PREFIX="libmetricfast_"
                                                METRICFAST_LEVEL_SUFFIX="${CMAKE_SHARED_MODULE_SUFFIX}")
target_include_directories(
    metricfast_c PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src/cpp/include> $<INSTALL_INTERFACE:include>
                 PRIVATE "${PROJECT_SOURCE_DIR}/src/cpp")
target_link_libraries(metricfast_c PRIVATE ${CMAKE_DL_LIBS})
set_target_properties(metricfast_c PROPERTIES EXPORT_NAME c OUTPUT_NAME metricfast)
metricfast_show(metricfast_c "metricfast_*")
