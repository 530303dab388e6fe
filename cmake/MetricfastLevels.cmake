# metricfast_<level>: the kernels compiled for one instruction set level, a library that is loaded when
# it is needed. Each shows one symbol: what a compiler instantiates for one instruction set must serve
# no other code of a process.

set(metricfast_cpp "${PROJECT_SOURCE_DIR}/src/cpp")
file(GLOB metricfast_lib CONFIGURE_DEPENDS "${metricfast_cpp}/lib/*.cpp")

# What areas include is a third of the time that they take to compile, so small ones are one unit. No
# process takes more than a gigabyte of memory.
foreach(area IN ITEMS lib/engine lib/embeddings lib/models lib/level c/level)
    set_source_files_properties("${metricfast_cpp}/${area}.cpp" PROPERTIES UNITY_GROUP small)
endforeach()

# Hides all symbols of a library but some.
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
    set(target metricfast_${level})
    add_library(${target} MODULE ${if_linked} ${metricfast_lib} "${metricfast_cpp}/c/level.cpp")
    target_include_directories(${target} PRIVATE "${metricfast_cpp}")
    target_link_libraries(${target} PRIVATE metricfast_headers metricfast_flags)
    target_compile_options(${target} PRIVATE ${metricfast_${level}_flags})
    set_target_properties(${target} PROPERTIES PREFIX libmetricfast_ OUTPUT_NAME ${level}
                                               UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    metricfast_show(${target} metricfast_level)
    install(TARGETS ${target} DESTINATION lib ${if_built})
endforeach()

# metricfast_dispatch: what finds and loads the level in use, for libraries that lie in the same folder
# as the levels, or in the one above.
function(metricfast_dispatch target folder)
    target_sources(${target} PRIVATE "${metricfast_cpp}/dispatch/loaded.cpp")
    target_compile_features(${target} PRIVATE cxx_std_17)
    target_include_directories(${target} PRIVATE "${metricfast_cpp}" "${metricfast_cpp}/include")
    target_compile_definitions(${target} PRIVATE METRICFAST_LEVEL_FOLDER="${folder}"
                                                 METRICFAST_LEVEL_PREFIX="libmetricfast_"
                                                 METRICFAST_LEVEL_SUFFIX="${CMAKE_SHARED_MODULE_SUFFIX}")
    target_link_libraries(${target} PRIVATE metricfast_flags ${CMAKE_DL_LIBS})
    foreach(level IN LISTS metricfast_levels)
        add_dependencies(${target} metricfast_${level})
    endforeach()
endfunction()
