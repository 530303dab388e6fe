# metricfast_flags: how this project compiles its own modules and tests. Users of metricfast::metricfast
# keep the flags that they chose.

add_library(metricfast_flags INTERFACE)
if(MSVC)
    target_compile_options(metricfast_flags INTERFACE /W3 /fp:precise /bigobj)
else()
    # Contraction stays off because the kernels spell out where a fused multiply-add belongs: the
    # rest then rounds alike at every instruction set level.
    target_compile_options(metricfast_flags INTERFACE -Wall -Wextra -fno-math-errno -fno-trapping-math
                                                      -ffp-contract=off)
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

# The instruction sets that the modules are built for, and the compiler flags of each.
set(metricfast_processor "${CMAKE_SYSTEM_PROCESSOR}")
if(CMAKE_OSX_ARCHITECTURES)
    set(metricfast_processor "${CMAKE_OSX_ARCHITECTURES}")
endif()
if(METRICFAST_NATIVE)
    set(metricfast_levels native)
    set(metricfast_native_flags -march=native)
elseif(NOT metricfast_processor MATCHES "^(x86_64|AMD64|amd64)$")
    set(metricfast_levels base)
elseif(MSVC)
    set(metricfast_levels v2 v3 v4)
    set(metricfast_v3_flags /arch:AVX2)
    set(metricfast_v4_flags /arch:AVX512)
else()
    set(metricfast_levels v2 v3 v4)
    set(metricfast_v2_flags -march=x86-64-v2)
    set(metricfast_v3_flags -march=x86-64-v3)
    set(metricfast_v4_flags -march=x86-64-v4 -mprefer-vector-width=512)
endif()
