/// Products of 8-bit integers, four at a time, if the processor has such instructions.
#pragma once

#include "metricfast/simd/int8_sums.hpp"
#include "metricfast/simd/tile.hpp"

METRICFAST_NAMESPACE_BEGIN

/// The shape of a tile of integer products, and of its operands: panels of `cols` points and
/// micro-panels of `rows` queries, both with `group` successive coordinates side by side.
struct Int8Tile {
    static constexpr int rows = 12;
    static constexpr int cols = 32;
    static constexpr int group = 4;

    alignas(64) std::int32_t values[rows][cols]; ///< sums minus bounds, if set in the mask
    alignas(64) std::int32_t bounds[16];         ///< bounds of the rows
    std::uint32_t mask[rows];                    ///< columns with values above 0
};

/// The bound that a sum must exceed, for each of 16 queries: base + error * e + norm * x, rounded
/// down, with e and x of the panel.
struct Int8Bounds {
    float base[16], error[16], norm[16];

    /// Sums start between 0 and -largest_start, and do not overflow, also after subtracting a
    /// bound.
    static constexpr float never = 1.2e9f;
    static constexpr float always = -never;
    static constexpr std::int32_t largest_start = 1 << 29;
};

#ifdef METRICFAST_INT8

namespace detail {
/// The bounds that the sums of 16 queries must exceed.
METRICFAST_INLINE inline void integer_bounds(const Int8Bounds &bounds, float e, float x,
                                             std::int32_t *out) {
    ::metricfast::unrolled<16 / Int8Sums::width>([&](auto i) METRICFAST_INLINE {
        constexpr int first = i * Int8Sums::width;
        Int8Sums::bounds(bounds.base + first, bounds.error + first, bounds.norm + first, e, x,
                         Int8Bounds::always, Int8Bounds::never)
            .store(out + first);
    });
}

/// start[c] - bounds[r] + sum_k a[r][k] b[k][c] for `Rows` rows of a and twice the columns of a
/// register.
template <int Rows>
METRICFAST_INLINE inline void accumulate_products(Index groups, const std::int32_t *a,
                                                  const std::uint8_t *b, const std::int32_t *start,
                                                  const std::int32_t *bounds,
                                                  Int8Sums (&out)[Rows][2]) {
    constexpr int width = Int8Sums::width;
    Int8Sums sum[Rows][2];
    const Int8Sums s0 = Int8Sums::load(start), s1 = Int8Sums::load(start + width);
    ::metricfast::unrolled<Rows>([&](auto r) METRICFAST_INLINE {
        const Int8Sums bound = Int8Sums::broadcast(bounds[r]);
        sum[r][0] = s0 - bound;
        sum[r][1] = s1 - bound;
    });
    for (Index g = 0; g < groups; ++g, a += Int8Tile::rows, b += 4 * Int8Tile::cols) {
        const Int8Sums b0 = Int8Sums::load_point(b), b1 = Int8Sums::load_point(b + 4 * width);
        ::metricfast::unrolled<Rows>([&](auto r) METRICFAST_INLINE {
            const Int8Sums four = Int8Sums::broadcast(a[r]);
            sum[r][0].add_products(b0, four);
            sum[r][1].add_products(b1, four);
        });
    }
    ::metricfast::unrolled<Rows>([&](auto r) METRICFAST_INLINE {
        out[r][0] = sum[r][0];
        out[r][1] = sum[r][1];
    });
}

/// Computes the sums of `Rows` queries and a panel in register-sized blocks, and calls each(first
/// row, first column, sums).
template <int Rows, class Each>
METRICFAST_INLINE inline void int8_blocks(Index groups, const std::int32_t *a,
                                          const std::uint8_t *b, const std::int32_t *start,
                                          const std::int32_t *bounds, Each &&each) {
    constexpr int most = Int8Sums::rows;
    ::metricfast::unrolled<(Rows + most - 1) / most>([&](auto i) METRICFAST_INLINE {
        constexpr int first = i * most, count = Rows - first < most ? Rows - first : most;
        for (int c = 0; c < Int8Tile::cols; c += 2 * Int8Sums::width) {
            Int8Sums sum[count][2];
            accumulate_products<count>(groups, a + first, b + 4 * c, start + c, bounds + first,
                                       sum);
            each(first, c, sum);
        }
    });
}
} // namespace detail

/// Products of `Rows` queries with a panel. Writes rows with any sum above the row's bound to the
/// tile, and returns a bit mask of these rows.
template <int Rows>
METRICFAST_NOINLINE unsigned
int8_products(Index groups, const std::int32_t *a, const std::uint8_t *b, const std::int32_t *start,
              const Int8Bounds &bounds, float e, float x, Int8Tile &tile) {
    detail::integer_bounds(bounds, e, x, tile.bounds);
    unsigned hit = 0;
    const auto collect = [&](int first, int c, auto &sum) METRICFAST_INLINE {
        constexpr int count = static_cast<int>(sizeof sum / sizeof sum[0]);
        Int8Sums most[2] = {sum[0][0], sum[0][1]};
        unrolled<count>([&](auto r) METRICFAST_INLINE {
            most[0] = max(most[0], sum[r][0]);
            most[1] = max(most[1], sum[r][1]);
        });
        if (max(most[0], most[1]).positive() == 0)
            return;
        unrolled<count>([&](auto r) METRICFAST_INLINE {
            const unsigned mask = sum[r][0].positive() | sum[r][1].positive() << Int8Sums::width;
            if (mask == 0)
                return;
            const int row = first + r;
            const bool known = c > 0 && (hit >> row & 1) != 0;
            tile.mask[row] = (known ? tile.mask[row] : 0) | mask << c;
            hit |= 1u << row;
            sum[r][0].store(tile.values[row] + c);
            sum[r][1].store(tile.values[row] + c + Int8Sums::width);
        });
    };
    detail::int8_blocks<Rows>(groups, a, b, start, tile.bounds, collect);
    return hit;
}

/// Raises largest[r][c] to the product of query r and column c minus its bound.
template <int Rows>
METRICFAST_NOINLINE void int8_largest(Index groups, const std::int32_t *a, const std::uint8_t *b,
                                      const std::int32_t *start, const Int8Bounds &bounds, float e,
                                      float x, std::int32_t *largest) {
    alignas(64) std::int32_t bound[16];
    detail::integer_bounds(bounds, e, x, bound);
    const auto raise = [&](int first, int c, auto &sum) METRICFAST_INLINE {
        constexpr int count = static_cast<int>(sizeof sum / sizeof sum[0]);
        unrolled<count>([&](auto r) METRICFAST_INLINE {
            std::int32_t *row = largest + (first + r) * Int8Tile::cols + c;
            max(Int8Sums::load(row), sum[r][0]).store(row);
            row += Int8Sums::width;
            max(Int8Sums::load(row), sum[r][1]).store(row);
        });
    };
    detail::int8_blocks<Rows>(groups, a, b, start, bound, raise);
}

#endif

METRICFAST_NAMESPACE_END
