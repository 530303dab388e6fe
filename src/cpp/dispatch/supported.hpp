/// Detection of the x86-64 levels that the processor and the operating system support. Only files
/// compiled for any processor may include it: the check must not itself need a level.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#if defined(__x86_64__) || defined(_M_X64)
#define METRICFAST_X86_64
#ifdef _MSC_VER
#include <intrin.h>
#else
#include <cpuid.h>
#endif
#endif

namespace metricfast {

#ifdef METRICFAST_X86_64

struct Registers {
    std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

inline Registers cpuid(std::uint32_t leaf) {
    Registers r;
#ifdef _MSC_VER
    int v[4];
    __cpuid(v, static_cast<int>(leaf & 0x80000000u));
    if (static_cast<std::uint32_t>(v[0]) >= leaf) {
        __cpuidex(v, static_cast<int>(leaf), 0);
        r = {static_cast<std::uint32_t>(v[0]), static_cast<std::uint32_t>(v[1]),
             static_cast<std::uint32_t>(v[2]), static_cast<std::uint32_t>(v[3])};
    }
#else
    __get_cpuid_count(leaf, 0, &r.eax, &r.ebx, &r.ecx, &r.edx);
#endif
    return r;
}

/// Returns the register states that the operating system saves. Requires OSXSAVE.
inline std::uint64_t saved_states() {
#ifdef _MSC_VER
    return _xgetbv(0);
#else
    std::uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (static_cast<std::uint64_t>(high) << 32) | low;
#endif
}

inline bool all(std::uint64_t value, std::initializer_list<int> bits) {
    for (int bit : bits)
        if (((value >> bit) & 1) == 0)
            return false;
    return true;
}

/// Returns the supported levels, lowest first. The bits come from the level table of the x86-64
/// psABI.
inline std::vector<std::string> supported_levels() {
    const Registers basic = cpuid(1), features = cpuid(7), extended = cpuid(0x80000001u);
    // SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT; LAHF
    if (!all(basic.ecx, {0, 9, 13, 19, 20, 23}) || !all(extended.ecx, {0}))
        return {};
    // FMA, MOVBE, OSXSAVE, AVX, F16C; LZCNT; BMI1, AVX2, BMI2
    if (!all(basic.ecx, {12, 22, 27, 28, 29}) || !all(extended.ecx, {5}) ||
        !all(features.ebx, {3, 5, 8}))
        return {"v2"};
    const std::uint64_t saved = saved_states();
    if (!all(saved, {1, 2})) // xmm, ymm
        return {"v2"};
    // AVX512 F, DQ, CD, BW, VL; mask registers, zmm0-15, zmm16-31
    if (!all(features.ebx, {16, 17, 28, 30, 31}) || !all(saved, {5, 6, 7}))
        return {"v2", "v3"};
    return {"v2", "v3", "v4"};
}

#else

inline std::vector<std::string> supported_levels() { return {}; }

#endif

} // namespace metricfast
