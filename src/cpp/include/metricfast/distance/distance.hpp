/// Squared or plain Euclidean distances between all pairs of rows, block by block.
#pragma once

#include "metricfast/core/cache.hpp"
#include "metricfast/simd/packing.hpp"

METRICFAST_NAMESPACE_BEGIN

/// sum_k ((a_k - b_k) scale)^2 in double and in index order: the definition of "exact" in this
/// library.
inline double exact_squared_distance(const double *query, const Points &database, Index j,
                                     double scale) {
    return database.visit([&](auto v) {
        const auto *x = v.row(j);
        double sum = 0;
        for (Index k = 0; k < v.cols; ++k) {
            const double d = (query[k] - static_cast<double>(x[k])) * scale;
            sum += d * d;
        }
        return sum;
    });
}

/// Distances from blocks of queries to a whole database, in T.
///
/// Uses the product form |a|^2 + |b|^2 - 2ab of centred points if it is precise enough. Entries
/// that lose too many digits are recomputed from differences. Rows with too many such entries are
/// computed from differences altogether, and so are all rows of float points with few coordinates.
/// In all cases, equal points have equal distances from a query.
///
/// In float, distances and their squares have a relative error below 1e-6; in double, at least half
/// of the digits are right.
/// Thread-safe after construction; refers to the memory of the points' views.
template <class T> class AllPairs {
  public:
    AllPairs(const Points &queries, const Points &database, const Control &control)
        : AllPairs(queries, database, frame_of(database, queries), control) {}

    /// \param frame the frame of all points, if these are a part of them.
    AllPairs(const Points &queries, const Points &database, Frame frame, const Control &control)
        : queries_(queries), database_(database), frame_(std::move(frame)), raw_(frame_),
          packed_(database, frame_, identity_order(database.rows()), {0}, control) {
        std::fill(raw_.centre.begin(), raw_.centre.end(), 0.0);
        raw_.scale = frame_.exact_scale;
        norms_.resize(static_cast<std::size_t>(packed_.positions()));
        for (Index j = 0; j < packed_.positions(); ++j)
            norms_[j] = packed_.id(j) < 0 ? T(0) : static_cast<T>(packed_.norm(j));
        panels_in_cache_ = cached(cols * packed_.depth() * Index(sizeof(T)));
    }

    /// Recommended number of rows per call of fill().
    static constexpr Index block = 10 * TileShape<T>::rows;

    /// Computes out(r, j), the distance from query first + r to database row j, for r < out.rows
    /// and j >= column. It may overwrite earlier columns. \param large bypasses the cache.
    void fill(Index first, View<T> out, bool squared, Index column = 0, bool large = false) const {
        const Index limit = most_cancelled(out.rows, database_.rows() - column);
        if (fill_by_products(first, out, squared, limit, column, large) > limit)
            fill_by_differences(first, out, squared, column, large);
    }

    /// Maximum number of entries that are recomputed in some rows; above it, all entries are.
    static Index most_cancelled(Index rows, Index columns) {
        return 4 + rows * columns / (single ? 16 : 100);
    }

    /// Returns the number of cancelled entries; above `limit`, `out` is left unfinished.
    Index fill_by_products(Index first, View<T> out, bool squared, Index limit, Index column = 0,
                           bool large = false) const {
        constexpr Index narrow = 8; // coordinates
        if (single && packed_.depth() <= narrow) {
            fill_by_differences(first, out, squared, column, large);
            return 0;
        }
        const Finish finish{squared, frame_.scale};
        if (!finish.ordinary())
            return limit + 1;
        PackedQueries<T> queries(packed_.depth());
        queries.pack(queries_, frame_, nullptr, first, out.rows);
        std::vector<std::pair<Index, Index>> cancelled;
        for (Index begin = column / cols; begin < packed_.panels(); begin += panels_in_cache_)
            if (!by_products(queries, begin, std::min(begin + panels_in_cache_, packed_.panels()),
                             out, large, finish, limit, cancelled))
                return limit + 1;
        by_differences(first, cancelled, out, squared);
        return static_cast<Index>(cancelled.size());
    }

    void fill_by_differences(Index first, View<T> out, bool squared, Index column = 0,
                             bool large = false) const {
        if (single && !queries_.is_double() && !database_.is_double())
            by_difference_tiles<T>(first, column, out, squared, large);
        else
            by_difference_tiles<double>(first, column, out, squared, large);
    }

  private:
    static constexpr bool single = std::is_same_v<T, float>;
    static constexpr Index cols = TileShape<T>::cols;
    static constexpr Index rows = TileShape<T>::rows;

    struct Finish {
        bool squared;
        double scale;
        T operator()(double d) const { return unscaled<T>(d, scale, squared); }
        /// Factor of the product form; infinite or zero in extreme units.
        T unit() const { return static_cast<T>(squared ? 1 / scale / scale : 1 / scale); }
        bool ordinary() const {
            return std::isfinite(unit()) && unit() >= std::numeric_limits<T>::min();
        }
    };

    /// Terms of a partial sum in float; longer sums round more.
    static constexpr Index summed = 32;

    /// Sums of step(tile, depth, a, b) over all coordinates.
    template <class S, class Step>
    METRICFAST_INLINE static void sum_up(Index depth, const S *a, const S *b, Tile<S> &result,
                                         Step &&step) {
        using Shape = TileShape<S>;
        Tile<S> sum;
        sum.fill(S(0));
        const Index part = std::is_same_v<S, float> ? std::min(depth, summed) : depth;
        step(sum, part, a, b);
        for (Index k = part; k < depth; k += part) {
            Tile<S> more;
            more.fill(S(0));
            step(more, std::min(part, depth - k), a + k * Shape::rows, b + k * Shape::cols);
            sum.add(more);
        }
        result = sum;
    }

    /// Not inlined: the caller's variables would push accumulators out of registers.
    METRICFAST_NOINLINE void products(const T *a, const T *b, Tile<T> &result) const {
        sum_up<T>(packed_.depth(), a, b, result,
                  [](Tile<T> &tile, Index depth, const T *x, const T *y)
                      METRICFAST_INLINE { tile.accumulate_dot(depth, x, y); });
    }

    template <class S>
    METRICFAST_NOINLINE void squared_differences(const S *a, const S *b, Tile<S> &result) const {
        sum_up<S>(packed_.depth(), a, b, result,
                  [](Tile<S> &tile, Index depth, const S *x, const S *y)
                      METRICFAST_INLINE { tile.accumulate_squared_difference(depth, x, y); });
    }

    /// Writes two registers to row r from `column` on; values beyond `out` are dropped.
    METRICFAST_INLINE static void put(View<T> out, Index r, Index column, Vec<T> d0, Vec<T> d1,
                                      bool whole, bool large) {
        constexpr int W = Vec<T>::width;
        if (whole && large && reinterpret_cast<std::uintptr_t>(out.row(r)) % 64 == 0) {
            d0.stream(out.row(r) + column);
            d1.stream(out.row(r) + column + W);
        } else if (whole) {
            d0.store(out.row(r) + column);
            d1.store(out.row(r) + column + W);
        } else if (r < out.rows) {
            alignas(64) T spilled[cols];
            d0.store(spilled);
            d1.store(spilled + W);
            std::copy(spilled, spilled + std::min(cols, out.cols - column), out.row(r) + column);
        }
    }

    /// Records the entries of row r that are set in the mask, from `column` on, if they are in
    /// `out`.
    METRICFAST_INLINE static void note(View<T> out, Index r, Index column, unsigned mask,
                                       std::vector<std::pair<Index, Index>> &entries) {
        for (; mask != 0; mask &= mask - 1) {
            const Index j = column + lowest_bit(mask);
            if (r < out.rows && j < out.cols)
                entries.emplace_back(r, j);
        }
    }

    /// False, with `out` left unfinished, once more than `limit` entries have cancelled.
    bool by_products(const PackedQueries<T> &queries, Index begin, Index end, View<T> out,
                     bool large, const Finish &finish, Index limit,
                     std::vector<std::pair<Index, Index>> &cancelled) const {
        constexpr int W = Vec<T>::width;
        // The error of product sums is a few roundings of |a|^2 + |b|^2.
        const T digits = single ? T(0.34) : std::sqrt(std::numeric_limits<T>::epsilon() / 2);
        const Vec<T> unit = Vec<T>::broadcast(finish.unit()), zero = Vec<T>::broadcast(T(0));
        const Vec<T> share = Vec<T>::broadcast(digits);
        // Below this, squares of coordinates may have underflowed.
        const Vec<T> least =
            Vec<T>::broadcast(static_cast<T>(packed_.depth() + 8) * std::numeric_limits<T>::min() /
                              std::numeric_limits<T>::epsilon());
        for (Index m = 0; m < queries.micro_panels(); ++m)
            for (Index q = begin; q < end; ++q) {
                Tile<T> tile;
                const Index column = q * cols;
                const Vec<T> n0 = Vec<T>::load(&norms_[column]),
                             n1 = Vec<T>::load(&norms_[column + W]);
                products(queries.micro_panel(m), packed_.panel(q), tile);
                const bool whole = column + cols <= out.cols && (m + 1) * rows <= out.rows;
                unrolled<TileShape<T>::rows>([&](auto r) METRICFAST_INLINE {
                    const Index i = m * rows + r;
                    const Vec<T> norm = Vec<T>::broadcast(static_cast<T>(queries.norm(i)));
                    const Vec<T> both0 = n0 + norm, both1 = n1 + norm;
                    Vec<T> d0 = max(tile.v[r][0] + both0, zero),
                           d1 = max(tile.v[r][1] + both1, zero);
                    const unsigned mask = less(d0, max(both0 * share, least)) |
                                          less(d1, max(both1 * share, least)) << W;
                    if (!finish.squared) {
                        d0 = sqrt(d0);
                        d1 = sqrt(d1);
                    }
                    put(out, i, column, d0 * unit, d1 * unit, whole, large);
                    note(out, i, column, mask, cancelled);
                });
                if (static_cast<Index>(cancelled.size()) > limit)
                    return false;
            }
        return true;
    }

    void by_differences(Index first, const std::vector<std::pair<Index, Index>> &entries,
                        View<T> out, bool squared) const {
        const Finish finish{squared, raw_.scale};
        std::vector<double> query(static_cast<std::size_t>(packed_.depth()));
        Index read = -1;
        for (const auto &[i, j] : entries) {
            if (single && quick_difference(first + i, j, squared, out.row(i)[j]))
                continue;
            if (i != read)
                queries_.read_row(first + i, query.data());
            read = i;
            out.row(i)[j] =
                finish(exact_squared_distance(query.data(), database_, j, finish.scale));
        }
    }

    /// Computes a distance in the points' precision; false if precisions differ, or squares are
    /// extreme.
    bool quick_difference(Index i, Index j, bool squared, T &out) const {
        return queries_.visit([&](auto u) {
            return database_.visit([&](auto v) {
                if constexpr (!std::is_same_v<decltype(u), decltype(v)>) {
                    return false;
                } else {
                    const auto sum = squared_distance(u.row(i), v.row(j), u.cols);
                    using S = std::remove_const_t<decltype(sum)>;
                    const S most =
                        squared ? S(std::numeric_limits<T>::max()) : std::numeric_limits<S>::max();
                    if (!(sum > vanishing<S>() && sum < most))
                        return false;
                    out = static_cast<T>(squared ? sum : std::sqrt(sum));
                    return true;
                }
            });
        });
    }

    /// Below this, squares of differences may have underflowed.
    template <class S> S vanishing() const {
        return static_cast<S>(packed_.depth() + 1) * std::numeric_limits<S>::min() /
               std::numeric_limits<S>::epsilon();
    }

    /// Computes columns from `column` on, for all rows of `out`, from differences of uncentred
    /// points in S. In float the points are unscaled; in double they are scaled to the finest unit.
    template <class S>
    void by_difference_tiles(Index first, Index column, View<T> out, bool squared,
                             bool large) const {
        using Shape = TileShape<S>;
        const Index depth = packed_.depth();
        const Index micro_panels = (out.rows + Shape::rows - 1) / Shape::rows;
        const Index panels = (out.cols + Shape::cols - 1) / Shape::cols;
        Frame frame = raw_;
        if (std::is_same_v<S, float>)
            frame.scale = 1;
        AlignedVector<S> a(static_cast<std::size_t>(micro_panels * Shape::rows * depth));
        AlignedVector<S> b(static_cast<std::size_t>(panels_in_cache_ * Shape::cols * depth));
        std::vector<S> point;
        for (Index m = 0; m < micro_panels; ++m)
            pack_panel<S>(queries_, frame, nullptr, first + m * Shape::rows,
                          std::min<Index>(Shape::rows, out.rows - m * Shape::rows), Shape::rows,
                          S(1), a.data() + m * Shape::rows * depth, nullptr, point);
        std::vector<std::pair<Index, Index>> extreme;
        for (Index begin = column / Shape::cols; begin < panels; begin += panels_in_cache_) {
            const Index end = std::min(begin + panels_in_cache_, panels);
            for (Index q = begin; q < end; ++q)
                pack_panel<S>(database_, frame, nullptr, q * Shape::cols,
                              std::min<Index>(Shape::cols, out.cols - q * Shape::cols), Shape::cols,
                              S(1), b.data() + (q - begin) * Shape::cols * depth, nullptr, point);
            for (Index m = 0; m < micro_panels; ++m)
                for (Index q = begin; q < end; ++q) {
                    Tile<S> tile;
                    squared_differences<S>(a.data() + m * Shape::rows * depth,
                                           b.data() + (q - begin) * Shape::cols * depth, tile);
                    finish_differences(tile, m * Shape::rows, q * Shape::cols, out, squared, large,
                                       extreme);
                }
        }
        const Finish finish{squared, raw_.scale};
        std::vector<double> query(static_cast<std::size_t>(depth));
        for (const auto &[i, j] : extreme) {
            queries_.read_row(first + i, query.data());
            out.row(i)[j] =
                finish(exact_squared_distance(query.data(), database_, j, finish.scale));
        }
    }

    /// For unscaled points. Records entries that may have underflowed or overflowed.
    void finish_differences(const Tile<float> &tile, Index row, Index column, View<float> out,
                            bool squared, bool large,
                            std::vector<std::pair<Index, Index>> &extreme) const {
        using V = Vec<float>;
        const V least = V::broadcast(vanishing<float>());
        const V most = V::broadcast(std::numeric_limits<float>::max());
        const bool whole = column + cols <= out.cols && row + rows <= out.rows;
        unrolled<TileShape<float>::rows>([&](auto r) METRICFAST_INLINE {
            V d0 = tile.v[r][0], d1 = tile.v[r][1];
            const unsigned mask =
                less(d0, least) | less(most, d0) | (less(d1, least) | less(most, d1)) << V::width;
            if (!squared) {
                d0 = sqrt(d0);
                d1 = sqrt(d1);
            }
            put(out, row + r, column, d0, d1, whole, large);
            note(out, row + r, column, mask, extreme);
        });
    }

    /// In the finest unit, a power of two, so that scaling is exact.
    void finish_differences(const Tile<double> &tile, Index row, Index column, View<T> out,
                            bool squared, bool, std::vector<std::pair<Index, Index>> &) const {
        using V = Vec<double>;
        const V unit = V::broadcast(1 / raw_.scale);
        const Index count = std::min<Index>(TileShape<double>::cols, out.cols - column);
        unrolled<TileShape<double>::rows>([&](auto r) METRICFAST_INLINE {
            if (row + r >= out.rows)
                return;
            alignas(64) double d[TileShape<double>::cols];
            unrolled<2>([&](auto half) METRICFAST_INLINE {
                const V x = tile.v[r][half];
                (squared ? x * unit * unit : sqrt(x) * unit).store(d + half * V::width);
            });
            T *const to = out.row(row + r) + column;
            for (Index c = 0; c < count; ++c)
                to[c] = static_cast<T>(d[c]);
        });
    }

    Points queries_;
    Points database_;
    Frame frame_;
    Frame raw_; ///< not centred: differences of raw coordinates do not cancel
    PackedDatabase<T> packed_;
    AlignedVector<T> norms_;
    Index panels_in_cache_;
};

/// Computes out(i, j), the Euclidean distance from query i to database row j, or its square.
/// \param out (queries.rows x database.rows), written; may not overlap the inputs. Distances that
///   overflow T are infinite.
template <class T>
void pairwise_distances(const Points &queries, const Points &database, bool squared, View<T> out,
                        const Control &control = {}) {
    require(queries.cols() == database.cols(),
            "pairwise_distances: queries and database differ in width");
    require(out.rows == queries.rows() && out.cols == database.rows(),
            "pairwise_distances: out must be (n_queries, n_database)");
    if (out.rows == 0 || out.cols == 0)
        return;
    const AllPairs<T> pairs(queries, database, control);
    constexpr Index block = AllPairs<T>::block, last_level = Index(1) << 25; // bytes of cache
    const bool large = out.rows * out.cols * Index(sizeof(T)) > last_level;
    parallel_blocks((out.rows + block - 1) / block, control, [&](Index b, Worker &) {
        const Index first = b * block, count = std::min(block, out.rows - first);
        pairs.fill(first, View<T>(out.row(first), count, out.cols, out.stride), squared, 0, large);
        end_streams();
    });
}

/// Computes the distances to a part of the database, which has `columns` points. The frame belongs
/// to the whole database, so every entry is equal to the one from pairwise_distances().
/// \param cancelled for each AllPairs<T>::block queries, the number of cancelled entries, summed
///   over the parts. If it exceeds most_cancelled() in the end, all parts of these queries are
///   computed from differences. Null: all are computed from differences.
template <class T>
void pairwise_distances_of_part(const Points &queries, const Points &part, const Frame &frame,
                                Index columns, bool squared, View<T> out,
                                Span<std::int64_t> cancelled, const Control &control = {}) {
    require(queries.cols() == part.cols() &&
                static_cast<Index>(frame.centre.size()) == part.cols() &&
                out.rows == queries.rows() && out.cols == part.rows(),
            "pairwise_distances: shapes of a part do not fit");
    constexpr Index block = AllPairs<T>::block;
    const Index blocks = (out.rows + block - 1) / block;
    require(cancelled == nullptr || cancelled.size() == blocks,
            "pairwise_distances: cancelled must have one entry a block");
    const AllPairs<T> pairs(queries, part, frame, control);
    parallel_blocks(blocks, control, [&](Index b, Worker &) {
        const Index first = b * block, count = std::min(block, out.rows - first);
        const View<T> rows(out.row(first), count, out.cols, out.stride);
        const Index limit = AllPairs<T>::most_cancelled(count, columns);
        if (cancelled == nullptr)
            pairs.fill_by_differences(first, rows, squared);
        else if (cancelled[b] <= limit)
            cancelled[b] += pairs.fill_by_products(first, rows, squared, limit);
        end_streams();
    });
}

METRICFAST_NAMESPACE_END
