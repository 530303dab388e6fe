/// Products of 8-bit integers, four at a time, where the processor has instructions for them
/// (AVX-512 VNNI): four times as many as products of floats.
#pragma once

#include "metricfast/simd/tile.hpp"

#if METRICFAST_ISA_LEVEL == 4 && (defined(__GNUC__) || defined(__clang__))
#define METRICFAST_INT8
#endif

METRICFAST_NAMESPACE_BEGIN

/// The shape of a tile of integer products, and of what it is made from: panels of `cols` points,
/// micro-panels of `rows` queries, both with `group` successive coordinates side by side.
struct Int8Tile {
    static constexpr int rows = 12;
    static constexpr int cols = 32;
    static constexpr int group = 4;

    alignas(64)
        std::int32_t values[rows][cols]; ///< of the rows that mask has, the sums less the bounds
    alignas(64) std::int32_t bounds[16]; ///< of the rows
    std::uint32_t mask[rows];            ///< of columns whose values are above 0
};

/// Whether int8_products() may be called.
inline bool has_int8() {
#ifdef METRICFAST_INT8
    static const bool has = __builtin_cpu_supports("avx512vnni") != 0;
    return has;
#else
    return false;
#endif
}

/// For each of 16 queries what a sum must exceed: base + error * e + norm * x, rounded down, with e
/// and x of the panel.
struct Int8Bounds {
    alignas(64) float base[16];
    alignas(64) float error[16];
    alignas(64) float norm[16];

    /// Sums begin between 0 and -largest_start and remain between these, also with a bound
    /// subtracted.
    static constexpr float never = 1.2e9f;
    static constexpr float always = -never;
    static constexpr std::int32_t largest_start = 1 << 29;
};

#ifdef METRICFAST_INT8

namespace detail {
/// sum[c] += <4 unsigned of b[c], 4 signed of a[c]>. In assembly, since the module's target need
/// not have the instruction, and compilers keep the sums in registers.
METRICFAST_INLINE inline void add_products(__m512i &sum, __m512i b, __m512i a) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(b), "v"(a));
}

/// What the sums of 16 queries must exceed.
METRICFAST_INLINE inline void integer_bounds(const Int8Bounds &bounds, float e, float x,
                                             std::int32_t *out) {
    __m512 limits = _mm512_load_ps(bounds.base);
    limits = _mm512_fmadd_ps(_mm512_load_ps(bounds.error), _mm512_set1_ps(e), limits);
    limits = _mm512_fmadd_ps(_mm512_load_ps(bounds.norm), _mm512_set1_ps(x), limits);
    limits = _mm512_max_ps(limits, _mm512_set1_ps(Int8Bounds::always));
    limits = _mm512_min_ps(limits, _mm512_set1_ps(Int8Bounds::never));
    constexpr int down = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
    _mm512_store_si512(out, _mm512_cvt_roundps_epi32(limits, down));
}
} // namespace detail

namespace detail {
/// start[c] - bounds[r] + sum_k a[r][k] b[k][c] for `Rows` rows of signed a and 32 columns of
/// unsigned b.
template <int Rows>
METRICFAST_INLINE inline void accumulate_products(Index groups, const std::int32_t *a,
                                                  const std::uint8_t *b, const std::int32_t *start,
                                                  const std::int32_t *bounds,
                                                  __m512i (&out)[Rows][2]) {
    __m512i sum[Rows][2];
    const __m512i s0 = _mm512_loadu_si512(start), s1 = _mm512_loadu_si512(start + 16);
    ::metricfast::unrolled<Rows>([&](auto r) METRICFAST_INLINE {
        const __m512i bound = _mm512_set1_epi32(bounds[r]);
        sum[r][0] = _mm512_sub_epi32(s0, bound);
        sum[r][1] = _mm512_sub_epi32(s1, bound);
    });
    for (Index g = 0; g < groups; ++g, a += Int8Tile::rows, b += 4 * Int8Tile::cols) {
        const __m512i b0 = _mm512_loadu_si512(b), b1 = _mm512_loadu_si512(b + 64);
        ::metricfast::unrolled<Rows>([&](auto r) METRICFAST_INLINE {
            const __m512i four = _mm512_set1_epi32(a[r]);
            add_products(sum[r][0], b0, four);
            add_products(sum[r][1], b1, four);
        });
    }
    ::metricfast::unrolled<Rows>([&](auto r) METRICFAST_INLINE {
        out[r][0] = sum[r][0];
        out[r][1] = sum[r][1];
    });
}
} // namespace detail

/// Sums of products of `Rows` queries and a panel, into the tile where any of them is above its
/// row's bound. Returns the rows of which any is, one bit each.
template <int Rows>
METRICFAST_NOINLINE unsigned
int8_products(Index groups, const std::int32_t *a, const std::uint8_t *b, const std::int32_t *start,
              const Int8Bounds &bounds, float e, float x, Int8Tile &tile) {
    detail::integer_bounds(bounds, e, x, tile.bounds);
    __m512i sum[Rows][2];
    detail::accumulate_products<Rows>(groups, a, b, start, tile.bounds, sum);
    __m512i most[2] = {sum[0][0], sum[0][1]};
    unrolled<Rows>([&](auto r) METRICFAST_INLINE {
        most[0] = _mm512_max_epi32(most[0], sum[r][0]);
        most[1] = _mm512_max_epi32(most[1], sum[r][1]);
    });
    const __m512i zero = _mm512_setzero_si512();
    if (_mm512_cmpgt_epi32_mask(_mm512_max_epi32(most[0], most[1]), zero) == 0)
        return 0;
    unsigned hit = 0;
    unrolled<Rows>([&](auto r) METRICFAST_INLINE {
        const unsigned low = _mm512_cmpgt_epi32_mask(sum[r][0], zero);
        const unsigned high = _mm512_cmpgt_epi32_mask(sum[r][1], zero);
        if ((low | high) != 0) {
            hit |= 1u << r;
            tile.mask[r] = low | high << 16;
            _mm512_store_si512(tile.values[r], sum[r][0]);
            _mm512_store_si512(tile.values[r] + 16, sum[r][1]);
        }
    });
    return hit;
}

/// Raises largest[r][c] to the sum of products of query r and column c less its bound.
template <int Rows>
METRICFAST_NOINLINE void int8_largest(Index groups, const std::int32_t *a, const std::uint8_t *b,
                                      const std::int32_t *start, const Int8Bounds &bounds, float e,
                                      float x, std::int32_t *largest) {
    alignas(64) std::int32_t bound[16];
    detail::integer_bounds(bounds, e, x, bound);
    __m512i sum[Rows][2];
    detail::accumulate_products<Rows>(groups, a, b, start, bound, sum);
    unrolled<Rows>([&](auto r) METRICFAST_INLINE {
        std::int32_t *row = largest + r * Int8Tile::cols;
        const __m512i low = _mm512_loadu_si512(row), high = _mm512_loadu_si512(row + 16);
        _mm512_storeu_si512(row, _mm512_max_epi32(low, sum[r][0]));
        _mm512_storeu_si512(row + 16, _mm512_max_epi32(high, sum[r][1]));
    });
}

#endif

METRICFAST_NAMESPACE_END
