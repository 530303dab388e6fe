/// A register of sums of products of 8-bit integers, if the processor has such instructions:
/// AVX-512 VNNI, AVX-VNNI, or the dot products of ARM. They do four times as many products as
/// floats.
#pragma once

#include <cstdint>

#include "metricfast/simd/simd.hpp"

#if defined(__GNUC__) || defined(__clang__)
#if METRICFAST_ISA_LEVEL >= 3
#define METRICFAST_INT8
#if METRICFAST_ISA_LEVEL == 3
#include <cpuid.h>
#endif
#elif defined(__aarch64__) && !defined(__AARCH64EB__) &&                                           \
    (defined(__ARM_FEATURE_DOTPROD) || !defined(__clang__))
#define METRICFAST_INT8
#include <arm_neon.h>
#ifdef __linux__
#include <sys/auxv.h>
#endif
#endif
#endif

METRICFAST_NAMESPACE_BEGIN

/// Returns whether the processor has these instructions. Modules are compiled for processors that
/// may lack them.
inline bool has_int8() {
#if !defined(METRICFAST_INT8)
    return false;
#elif METRICFAST_ISA_LEVEL == 4
    static const bool has = __builtin_cpu_supports("avx512vnni") != 0;
    return has;
#elif METRICFAST_ISA_LEVEL == 3
    static const bool has = [] {
        unsigned a = 0, b = 0, c = 0, d = 0;
        return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1) != 0;
    }();
    return has;
#elif defined(__linux__) && !defined(__ARM_FEATURE_DOTPROD)
    static const bool has = (getauxval(AT_HWCAP) >> 20 & 1) != 0;
    return has;
#elif defined(__APPLE__) || defined(__ARM_FEATURE_DOTPROD)
    return true;
#else
    return false;
#endif
}

/// `width` sums of products of 4 bytes of a point (each plus 128) and 4 bytes of a query.
///
/// 2 * `rows` of them stay in registers together with their operands. The sums exceed the products
/// by `offset` times the sum of the query's bytes. The instructions are inline assembly, because
/// the compilation target may lack them; so compilers keep the sums in registers.
struct Int8Sums {
#if !defined(METRICFAST_INT8)
    static constexpr int offset = 128;
#elif METRICFAST_ISA_LEVEL == 4
    static constexpr int width = 16, rows = 12, offset = 128;
    __m512i v;

    static Int8Sums load(const void *p) { return {_mm512_loadu_si512(p)}; }
    static Int8Sums load_point(const std::uint8_t *p) { return load(p); }
    static Int8Sums broadcast(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
    void store(std::int32_t *p) const { _mm512_storeu_si512(p, v); }
    friend Int8Sums operator-(Int8Sums a, Int8Sums b) { return {_mm512_sub_epi32(a.v, b.v)}; }
    friend Int8Sums max(Int8Sums a, Int8Sums b) { return {_mm512_max_epi32(a.v, b.v)}; }
    void add_products(Int8Sums point, Int8Sums query) {
        __asm__("vpdpbusd %2, %1, %0" : "+v"(v) : "v"(point.v), "v"(query.v));
    }
    /// Bit i is set if sum i is above 0.
    unsigned positive() const { return _mm512_cmpgt_epi32_mask(v, _mm512_setzero_si512()); }
    /// base + error e + norm x, between lowest and highest, rounded down.
    static Int8Sums bounds(const float *base, const float *error, const float *norm, float e,
                           float x, float lowest, float highest) {
        __m512 y = _mm512_loadu_ps(base);
        y = _mm512_fmadd_ps(_mm512_loadu_ps(error), _mm512_set1_ps(e), y);
        y = _mm512_fmadd_ps(_mm512_loadu_ps(norm), _mm512_set1_ps(x), y);
        y = _mm512_min_ps(_mm512_max_ps(y, _mm512_set1_ps(lowest)), _mm512_set1_ps(highest));
        return {_mm512_cvt_roundps_epi32(y, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
    }
#elif METRICFAST_ISA_LEVEL == 3
    static constexpr int width = 8, rows = 6, offset = 128;
    __m256i v;

    static Int8Sums load(const void *p) {
        return {_mm256_loadu_si256(static_cast<const __m256i *>(p))};
    }
    static Int8Sums load_point(const std::uint8_t *p) { return load(p); }
    static Int8Sums broadcast(std::int32_t x) { return {_mm256_set1_epi32(x)}; }
    void store(std::int32_t *p) const { _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), v); }
    friend Int8Sums operator-(Int8Sums a, Int8Sums b) { return {_mm256_sub_epi32(a.v, b.v)}; }
    friend Int8Sums max(Int8Sums a, Int8Sums b) { return {_mm256_max_epi32(a.v, b.v)}; }
    void add_products(Int8Sums point, Int8Sums query) {
        __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(v) : "x"(point.v), "x"(query.v));
    }
    unsigned positive() const {
        const __m256i above = _mm256_cmpgt_epi32(v, _mm256_setzero_si256());
        return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(above)));
    }
    static Int8Sums bounds(const float *base, const float *error, const float *norm, float e,
                           float x, float lowest, float highest) {
        __m256 y = _mm256_loadu_ps(base);
        y = _mm256_fmadd_ps(_mm256_loadu_ps(error), _mm256_set1_ps(e), y);
        y = _mm256_fmadd_ps(_mm256_loadu_ps(norm), _mm256_set1_ps(x), y);
        y = _mm256_min_ps(_mm256_max_ps(y, _mm256_set1_ps(lowest)), _mm256_set1_ps(highest));
        return {_mm256_cvtps_epi32(_mm256_floor_ps(y))};
    }
#else
    static constexpr int width = 4, rows = 12, offset = 0; // both operands are signed here
    int32x4_t v;

    static Int8Sums load(const void *p) {
        return {vld1q_s32(static_cast<const std::int32_t *>(p))};
    }
    static Int8Sums load_point(const std::uint8_t *p) {
        return {vreinterpretq_s32_u8(veorq_u8(vld1q_u8(p), vdupq_n_u8(128)))};
    }
    static Int8Sums broadcast(std::int32_t x) { return {vdupq_n_s32(x)}; }
    void store(std::int32_t *p) const { vst1q_s32(p, v); }
    friend Int8Sums operator-(Int8Sums a, Int8Sums b) { return {vsubq_s32(a.v, b.v)}; }
    friend Int8Sums max(Int8Sums a, Int8Sums b) { return {vmaxq_s32(a.v, b.v)}; }
    void add_products(Int8Sums point, Int8Sums query) {
#ifdef __ARM_FEATURE_DOTPROD
        const int8x16_t b = vreinterpretq_s8_s32(point.v), a = vreinterpretq_s8_s32(query.v);
        v = vdotq_s32(v, b, a);
#else
        __asm__(".arch armv8.2-a+dotprod\n\tsdot %0.4s, %1.16b, %2.16b"
                : "+w"(v)
                : "w"(point.v), "w"(query.v));
#endif
    }
    unsigned positive() const {
        const uint32x4_t bits = {1, 2, 4, 8};
        return vaddvq_u32(vandq_u32(vcgtq_s32(v, vdupq_n_s32(0)), bits));
    }
    static Int8Sums bounds(const float *base, const float *error, const float *norm, float e,
                           float x, float lowest, float highest) {
        float32x4_t y = vfmaq_n_f32(vld1q_f32(base), vld1q_f32(error), e);
        y = vfmaq_n_f32(y, vld1q_f32(norm), x);
        y = vminq_f32(vmaxq_f32(y, vdupq_n_f32(lowest)), vdupq_n_f32(highest));
        return {vcvtmq_s32_f32(y)};
    }
#endif
};

METRICFAST_NAMESPACE_END
