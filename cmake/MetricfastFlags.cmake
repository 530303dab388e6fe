# metricfast_flags: how this project compiles its own modules and tests. Users of metricfast::headers
# keep the flags that they chose.

add_library(metricfast_flags INTERFACE)
if(MSVC)
    target_compile_options(metricfast_flags INTERFACE /W3 /fp:precise /bigobj)
else()
    target_compile_options(metricfast_flags INTERFACE -Wall -Wextra -fno-math-errno -fno-trapping-math)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(metricfast_flags INTERFACE -Wpedantic -Wconversion -Wshadow)
endif()
# The scratch of Eigen's products comes from malloc, which can fail: where the system has no memory
# for the stack to grow, it ends the process.
target_compile_definitions(metricfast_flags INTERFACE EIGEN_STACK_ALLOCATION_LIMIT=0)
if(METRICFAST_SANITIZE)
    set(sanitize -fsanitize=${METRICFAST_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_compile_options(metricfast_flags INTERFACE ${sanitize})
    target_link_options(metricfast_flags INTERFACE ${sanitize})
endif()

# The instruction sets that can be compiled for, best last, and the compiler flags of each.
set(metricfast_processor "${CMAKE_SYSTEM_PROCESSOR}")
if(CMAKE_OSX_ARCHITECTURES)
    set(metricfast_processor "${CMAKE_OSX_ARCHITECTURES}")
endif()
if(NOT metricfast_processor MATCHES "^(x86_64|AMD64|amd64)$")
    set(metricfast_all_levels base)
elseif(MSVC)
    set(metricfast_all_levels v2 v3 v4)
    set(metricfast_v3_flags /arch:AVX2)
    set(metricfast_v4_flags /arch:AVX512)
else()
    set(metricfast_all_levels v2 v3 v4)
    set(metricfast_v2_flags -march=x86-64-v2)
    set(metricfast_v3_flags -march=x86-64-v3)
    set(metricfast_v4_flags -march=x86-64-v4 -mprefer-vector-width=512)
endif()

# Sets `variable` to the best level that this machine runs. The program asks as the library does when
# it is loaded.
function(metricfast_detect_level variable)
    if(metricfast_all_levels STREQUAL "base")
        set(${variable} base PARENT_SCOPE)
        return()
    endif()
    if(CMAKE_CROSSCOMPILING)
        message(FATAL_ERROR "METRICFAST_LEVELS is \"auto\", but the compiler builds for another machine. "
                            "Name levels of ${metricfast_all_levels}.")
    endif()
    set(program "${PROJECT_BINARY_DIR}/detect_level")
    try_run(status compiled "${program}" "${PROJECT_SOURCE_DIR}/cmake/detect_level.cpp"
            CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${PROJECT_SOURCE_DIR}/src/cpp"
            CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON
            COMPILE_OUTPUT_VARIABLE errors RUN_OUTPUT_VARIABLE level)
    if(NOT compiled OR NOT status EQUAL 0)
        message(FATAL_ERROR "METRICFAST_LEVELS is \"auto\", but this processor has none of the levels "
                            "${metricfast_all_levels}, or the program that asks failed:\n${errors}")
    endif()
    set(${variable} "${level}" PARENT_SCOPE)
endfunction()

# metricfast_levels: those to build.
set(metricfast_levels ${metricfast_all_levels})
if(METRICFAST_LEVELS STREQUAL "auto")
    metricfast_detect_level(metricfast_levels)
elseif(METRICFAST_LEVELS)
    foreach(level IN LISTS METRICFAST_LEVELS)
        if(NOT level IN_LIST metricfast_all_levels)
            message(FATAL_ERROR "METRICFAST_LEVELS has \"${level}\", which is none of ${metricfast_all_levels}")
        endif()
    endforeach()
    foreach(level IN LISTS metricfast_all_levels)
        if(NOT level IN_LIST METRICFAST_LEVELS)
            list(REMOVE_ITEM metricfast_levels ${level})
        endif()
    endforeach()
endif()
