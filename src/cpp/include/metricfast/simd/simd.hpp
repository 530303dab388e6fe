/// A register of T, and the operations that kernels need, for each instruction set.
#pragma once

#include "metricfast/core/config.hpp" // before intrinsics, because of its pragmas

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#if defined(__SSE2__) || defined(_M_X64)
#include <immintrin.h>
#endif

#include "metricfast/core/types.hpp"

METRICFAST_NAMESPACE_BEGIN

#if defined(_MSC_VER)
#define METRICFAST_INLINE [[msvc::forceinline]]
#define METRICFAST_NOINLINE __declspec(noinline)
#else
#define METRICFAST_INLINE __attribute__((always_inline))
#define METRICFAST_NOINLINE __attribute__((noinline))
#endif

namespace detail {
template <class F, int... I>
METRICFAST_INLINE inline void unrolled(F &f, std::integer_sequence<int, I...>) {
    (f(std::integral_constant<int, I>{}), ...);
}
} // namespace detail

/// Calls f(0), ..., f(N-1) with compile-time arguments. Arrays indexed by them stay in registers.
template <int N, class F> METRICFAST_INLINE inline void unrolled(F &&f) {
    detail::unrolled(f, std::make_integer_sequence<int, N>{});
}

/// Portable fallback: 16 bytes, which the compiler may vectorise.
template <class T> struct Vec {
    static constexpr int width = 16 / sizeof(T);
    static constexpr int registers = 32;
    T v[width];

    static Vec load(const T *p) {
        return map([p](int i) { return p[i]; });
    }
    static Vec broadcast(T x) {
        return map([x](int) { return x; });
    }
    void store(T *p) const {
        for (int i = 0; i < width; ++i)
            p[i] = v[i];
    }
    /// Stores to a multiple of 64 bytes, bypassing the caches if possible; end_streams() makes the
    /// result visible to other threads.
    void stream(T *p) const { store(p); }
    friend Vec operator+(Vec a, Vec b) {
        return map([&](int i) { return a.v[i] + b.v[i]; });
    }
    friend Vec operator-(Vec a, Vec b) {
        return map([&](int i) { return a.v[i] - b.v[i]; });
    }
    friend Vec operator*(Vec a, Vec b) {
        return map([&](int i) { return a.v[i] * b.v[i]; });
    }
    friend Vec operator/(Vec a, Vec b) {
        return map([&](int i) { return a.v[i] / b.v[i]; });
    }
    friend Vec fma(Vec a, Vec b, Vec c) {
        return map([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
    }
    friend Vec max(Vec a, Vec b) {
        return map([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
    }
    friend Vec min(Vec a, Vec b) {
        return map([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
    }
    friend Vec sqrt(Vec a) {
        return map([&](int i) { return std::sqrt(a.v[i]); });
    }
    /// x where a == b, else 0.
    friend Vec where_equal(Vec a, Vec b, Vec x) {
        return map([&](int i) { return a.v[i] == b.v[i] ? x.v[i] : T(0); });
    }
    /// x where a < b, else 0.
    friend Vec where_less(Vec a, Vec b, Vec x) {
        return map([&](int i) { return a.v[i] < b.v[i] ? x.v[i] : T(0); });
    }
    /// Bit i is set if a[i] < b[i].
    friend unsigned less(Vec a, Vec b) {
        unsigned mask = 0;
        for (int i = 0; i < width; ++i)
            mask |= static_cast<unsigned>(a.v[i] < b.v[i]) << i;
        return mask;
    }

  private:
    template <class F> static Vec map(F f) {
        Vec r;
        for (int i = 0; i < width; ++i)
            r.v[i] = f(i);
        return r;
    }
};

#define METRICFAST_VEC(T, REG, OP, SUFFIX, WIDTH, REGISTERS, FMA, LESS, EQUAL, WHERE_LESS)         \
    template <> struct Vec<T> {                                                                    \
        static constexpr int width = WIDTH;                                                        \
        static constexpr int registers = REGISTERS;                                                \
        REG v;                                                                                     \
        static Vec load(const T *p) { return {OP##_loadu_##SUFFIX(p)}; }                           \
        static Vec broadcast(T x) { return {OP##_set1_##SUFFIX(x)}; }                              \
        void store(T *p) const { OP##_storeu_##SUFFIX(p, v); }                                     \
        void stream(T *p) const { OP##_stream_##SUFFIX(p, v); }                                    \
        friend Vec operator+(Vec a, Vec b) { return {OP##_add_##SUFFIX(a.v, b.v)}; }               \
        friend Vec operator-(Vec a, Vec b) { return {OP##_sub_##SUFFIX(a.v, b.v)}; }               \
        friend Vec operator*(Vec a, Vec b) { return {OP##_mul_##SUFFIX(a.v, b.v)}; }               \
        friend Vec operator/(Vec a, Vec b) { return {OP##_div_##SUFFIX(a.v, b.v)}; }               \
        friend Vec fma(Vec a, Vec b, Vec c) { return {FMA}; }                                      \
        friend Vec max(Vec a, Vec b) { return {OP##_max_##SUFFIX(a.v, b.v)}; }                     \
        friend Vec min(Vec a, Vec b) { return {OP##_min_##SUFFIX(a.v, b.v)}; }                     \
        friend Vec sqrt(Vec a) { return {OP##_sqrt_##SUFFIX(a.v)}; }                               \
        friend unsigned less(Vec a, Vec b) { return static_cast<unsigned>(LESS); }                 \
        friend Vec where_equal(Vec a, Vec b, Vec x) { return {EQUAL}; }                            \
        friend Vec where_less(Vec a, Vec b, Vec x) { return {WHERE_LESS}; }                        \
    };

#if METRICFAST_ISA_LEVEL == 4
METRICFAST_VEC(float, __m512, _mm512, ps, 16, 32, _mm512_fmadd_ps(a.v, b.v, c.v),
               _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ),
               _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ), x.v),
               _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), x.v))
METRICFAST_VEC(double, __m512d, _mm512, pd, 8, 32, _mm512_fmadd_pd(a.v, b.v, c.v),
               _mm512_cmp_pd_mask(a.v, b.v, _CMP_LT_OQ),
               _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(a.v, b.v, _CMP_EQ_OQ), x.v),
               _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(a.v, b.v, _CMP_LT_OQ), x.v))
#elif METRICFAST_ISA_LEVEL == 3
METRICFAST_VEC(float, __m256, _mm256, ps, 8, 16, _mm256_fmadd_ps(a.v, b.v, c.v),
               _mm256_movemask_ps(_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)),
               _mm256_and_ps(_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ), x.v),
               _mm256_and_ps(_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ), x.v))
METRICFAST_VEC(double, __m256d, _mm256, pd, 4, 16, _mm256_fmadd_pd(a.v, b.v, c.v),
               _mm256_movemask_pd(_mm256_cmp_pd(a.v, b.v, _CMP_LT_OQ)),
               _mm256_and_pd(_mm256_cmp_pd(a.v, b.v, _CMP_EQ_OQ), x.v),
               _mm256_and_pd(_mm256_cmp_pd(a.v, b.v, _CMP_LT_OQ), x.v))
#elif defined(__SSE2__) || defined(_M_X64)
METRICFAST_VEC(float, __m128, _mm, ps, 4, 16, _mm_add_ps(_mm_mul_ps(a.v, b.v), c.v),
               _mm_movemask_ps(_mm_cmplt_ps(a.v, b.v)), _mm_and_ps(_mm_cmpeq_ps(a.v, b.v), x.v),
               _mm_and_ps(_mm_cmplt_ps(a.v, b.v), x.v))
METRICFAST_VEC(double, __m128d, _mm, pd, 2, 16, _mm_add_pd(_mm_mul_pd(a.v, b.v), c.v),
               _mm_movemask_pd(_mm_cmplt_pd(a.v, b.v)), _mm_and_pd(_mm_cmpeq_pd(a.v, b.v), x.v),
               _mm_and_pd(_mm_cmplt_pd(a.v, b.v), x.v))
#endif
#undef METRICFAST_VEC

/// A register of doubles, loaded from double or float.
inline Vec<double> widened(const double *p) { return Vec<double>::load(p); }
inline Vec<double> widened(const float *p) {
#if METRICFAST_ISA_LEVEL == 4
    return {_mm512_cvtps_pd(_mm256_loadu_ps(p))};
#elif METRICFAST_ISA_LEVEL == 3
    return {_mm256_cvtps_pd(_mm_loadu_ps(p))};
#else
    double lanes[Vec<double>::width];
    for (int i = 0; i < Vec<double>::width; ++i)
        lanes[i] = static_cast<double>(p[i]);
    return Vec<double>::load(lanes);
#endif
}

/// Stores a register of doubles as floats.
inline void store(Vec<double> x, float *p) {
#if METRICFAST_ISA_LEVEL == 4
    _mm256_storeu_ps(p, _mm512_cvtpd_ps(x.v));
#elif METRICFAST_ISA_LEVEL == 3
    _mm_storeu_ps(p, _mm256_cvtpd_ps(x.v));
#else
    double lanes[Vec<double>::width];
    x.store(lanes);
    std::transform(lanes, lanes + Vec<double>::width, p,
                   [](double lane) { return static_cast<float>(lane); });
#endif
}
template <class T> void store(Vec<T> x, T *p) { x.store(p); }

inline void end_streams() {
#if METRICFAST_ISA_LEVEL >= 3 || defined(__SSE2__) || defined(_M_X64)
    _mm_sfence();
#endif
}

template <class T> double horizontal_sum(Vec<T> a) {
    T lanes[Vec<T>::width];
    a.store(lanes);
    double sums[Vec<T>::width];
    std::copy(lanes, lanes + Vec<T>::width, sums);
    for (int n = Vec<T>::width / 2; n > 0; n /= 2)
        for (int i = 0; i < n; ++i)
            sums[i] += sums[i + n];
    return sums[0];
}

/// Calls step(j) for each full register of a row, and rest(j) for each remaining column. In
/// between, `flush` is called regularly to move partial sums from T to double.
template <class T, class Step, class Flush, class Rest>
METRICFAST_INLINE inline void in_stretches(Index count, Step &&step, Flush &&flush, Rest &&rest) {
    constexpr int W = Vec<T>::width;
    constexpr Index stretch = 64 * W;
    Index j = 0;
    while (j + W <= count) {
        for (const Index end = std::min(count, j + stretch); j + W <= end; j += W)
            step(j);
        flush();
    }
    for (; j < count; ++j)
        rest(j);
}

namespace detail {

/// Replaces values by change(register, first column). The last values are padded with `rest` to a
/// full register, so that equal numbers give equal results at any position.
template <class T, class F>
METRICFAST_INLINE inline void for_registers(T *values, Index count, F &&change, T rest = T(0)) {
    constexpr int W = Vec<T>::width;
    Index j = 0;
    for (; j + W <= count; j += W)
        change(Vec<T>::load(values + j), j).store(values + j);
    if (j < count) {
        T last[W];
        std::fill(std::copy(values + j, values + count, last), last + W, rest);
        change(Vec<T>::load(last), j).store(last);
        std::copy(last, last + (count - j), values + j);
    }
}

/// values := the first of step(register, its first column); returns the sum of the second ones.
template <class T, class Step>
METRICFAST_INLINE inline double change_and_sum(T *values, Index count, Step &&step) {
    constexpr Index stretch = 64 * Vec<T>::width; // columns that are summed in T
    double sum = 0;
    for (Index first = 0; first < count; first += stretch) {
        Vec<T> part = Vec<T>::broadcast(T(0));
        for_registers(values + first, std::min(stretch, count - first),
                      [&](Vec<T> value, Index j) METRICFAST_INLINE {
                          const auto [changed, more] = step(value, first + j);
                          part = part + more;
                          return changed;
                      });
        sum += horizontal_sum(part);
    }
    return sum;
}

} // namespace detail

template <class T> double sum_of(const T *values, Index count) {
    const Vec<T> zero = Vec<T>::broadcast(T(0));
    Vec<T> part = zero;
    double sum = 0;
    in_stretches<T>(
        count, [&](Index j) { part = part + Vec<T>::load(values + j); },
        [&] { sum += horizontal_sum(part), part = zero; },
        [&](Index j) { sum += static_cast<double>(values[j]); });
    return sum;
}

/// Sum of (a_k - b_k)^2 over `count` elements, in several partial sums.
template <class T> T squared_distance(const T *a, const T *b, Index count) {
    constexpr int W = Vec<T>::width;
    Vec<T> sum0 = Vec<T>::broadcast(T(0)), sum1 = sum0;
    Index k = 0;
    for (; k + 2 * W <= count; k += 2 * W) {
        const Vec<T> d0 = Vec<T>::load(a + k) - Vec<T>::load(b + k);
        const Vec<T> d1 = Vec<T>::load(a + k + W) - Vec<T>::load(b + k + W);
        sum0 = fma(d0, d0, sum0);
        sum1 = fma(d1, d1, sum1);
    }
    for (; k + W <= count; k += W) {
        const Vec<T> d = Vec<T>::load(a + k) - Vec<T>::load(b + k);
        sum0 = fma(d, d, sum0);
    }
    double sum = horizontal_sum(sum0 + sum1);
    for (; k < count; ++k)
        sum += static_cast<double>((a[k] - b[k]) * (a[k] - b[k]));
    return static_cast<T>(sum);
}

/// Replaces values by their square roots, correctly rounded at any alignment, so equal numbers have
/// equal roots.
template <class T> void square_roots(T *values, Index count) {
    constexpr int W = Vec<T>::width;
    Index k = 0;
    for (; k + W <= count; k += W)
        sqrt(Vec<T>::load(values + k)).store(values + k);
    for (; k < count; ++k)
        values[k] = std::sqrt(values[k]);
}

/// Prefetches `count` elements from p on; never faults.
template <class T> void prefetch(const T *p, Index count) {
#if defined(__GNUC__) || defined(__clang__)
    for (Index i = 0; i < count; i += static_cast<Index>(64 / sizeof(T)))
        __builtin_prefetch(p + i, 0, 2);
#else
    (void)p, (void)count;
#endif
}

/// Index of the lowest set bit of a non-zero mask.
inline int lowest_bit(unsigned mask) {
#if defined(__GNUC__) || defined(__clang__)
    return __builtin_ctz(mask);
#else
    int i = 0;
    while (!((mask >> i) & 1u))
        ++i;
    return i;
#endif
}

/// Number of set bits of a mask.
inline int set_bits(unsigned mask) {
#if defined(__GNUC__) || defined(__clang__)
    return __builtin_popcount(mask);
#else
    int count = 0;
    for (; mask != 0; mask &= mask - 1)
        ++count;
    return count;
#endif
}

METRICFAST_NAMESPACE_END
