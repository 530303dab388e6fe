/// Squared or plain Euclidean distances between all pairs of rows, block by block.
#pragma once

#include "metricfast/simd/packing.hpp"

METRICFAST_NAMESPACE_BEGIN

/// sum_k ((a_k - b_k) scale)^2 in double and in index order: what "exact" means in this library.
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
/// The product form |a|^2 + |b|^2 - 2ab of centred points is used where it keeps at least half of
/// the digits. Entries where it does not are computed again from the differences; where more than
/// one percent of some rows would be, these rows are computed from differences throughout. Either
/// way, equal points are equally far from a query.
/// Thread-safe once constructed; refers to the points, which must outlive it.
template <class T> class AllPairs {
  public:
    AllPairs(const Points &queries, const Points &database, const Control &control)
        : AllPairs(queries, database, Frame::of(database, queries), control) {}

    /// \param frame that of all points, where these are some of them.
    AllPairs(const Points &queries, const Points &database, Frame frame, const Control &control)
        : queries_(queries), database_(database), frame_(std::move(frame)), raw_(frame_),
          packed_(database, frame_, identity_order(database.rows()), {0}, control) {
        std::fill(raw_.centre.begin(), raw_.centre.end(), 0.0);
        raw_.scale = frame_.fine;
        norms_.resize(static_cast<std::size_t>(packed_.positions()));
        for (Index j = 0; j < packed_.positions(); ++j)
            norms_[j] = packed_.id(j) < 0 ? T(0) : static_cast<T>(packed_.norm(j));
        panels_in_cache_ = std::max<Index>(
            1, (Index(1) << 18) / (cols * std::max<Index>(1, packed_.depth()) * Index(sizeof(T))));
    }

    /// Rows that fill() should be given at a time.
    static constexpr Index block = 10 * TileShape<T>::rows;

    /// out(r, j) = distance from query first + r to database row j, for r < out.rows and j from
    /// `column` on; earlier columns may be written or not. `large`: nobody needs them in a cache.
    void fill(Index first, View<T> out, bool squared, Index column = 0, bool large = false) const {
        const Index limit = most_cancelled(out.rows, database_.rows() - column);
        if (fill_by_products(first, out, squared, limit, column, large) > limit)
            fill_by_differences(first, out, squared, column);
    }

    /// So many entries are computed again, of some rows; where more cancel, all are.
    static Index most_cancelled(Index rows, Index columns) { return 4 + rows * columns / 100; }

    /// How many entries cancelled: where these are above `limit`, nothing is finished.
    Index fill_by_products(Index first, View<T> out, bool squared, Index limit, Index column = 0,
                           bool large = false) const {
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
        by_differences(first, cancelled, out, Finish{squared, raw_.scale});
        return static_cast<Index>(cancelled.size());
    }

    void fill_by_differences(Index first, View<T> out, bool squared, Index column = 0) const {
        by_difference_tiles(first, column / cols * cols, out, Finish{squared, raw_.scale});
    }

  private:
    static constexpr Index cols = TileShape<T>::cols;
    static constexpr Index rows = TileShape<T>::rows;

    struct Finish {
        bool squared;
        double scale;
        T operator()(double d) const { return unscaled<T>(d, scale, squared); }
        /// What the product form multiplies with; infinite or zero in extreme units.
        T unit() const { return static_cast<T>(squared ? 1 / scale / scale : 1 / scale); }
        bool ordinary() const {
            return std::isfinite(unit()) && unit() >= std::numeric_limits<T>::min();
        }
    };

    /// A call of its own: what the caller keeps for later would push accumulators out of registers.
    METRICFAST_NOINLINE void products(const T *norms, const T *a, const T *b,
                                      Tile<T> &result) const {
        Tile<T> tile;
        tile.fill_rows(norms);
        tile.accumulate_dot(packed_.depth(), a, b);
        result = tile;
    }

    /// False, with `out` left unfinished, once more than `limit` entries have cancelled.
    bool by_products(const PackedQueries<T> &queries, Index begin, Index end, View<T> out,
                     bool large, const Finish &finish, Index limit,
                     std::vector<std::pair<Index, Index>> &cancelled) const {
        constexpr int W = Vec<T>::width;
        const T digits = std::sqrt(std::numeric_limits<T>::epsilon() / 2);
        const Vec<T> unit = Vec<T>::broadcast(finish.unit()), zero = Vec<T>::broadcast(T(0));
        const Vec<T> half = Vec<T>::broadcast(digits);
        // Below this, squares of coordinates may have vanished.
        const Vec<T> least =
            Vec<T>::broadcast(static_cast<T>(packed_.depth() + 8) * std::numeric_limits<T>::min() /
                              std::numeric_limits<T>::epsilon());
        alignas(64) T spilled[cols];
        for (Index m = 0; m < queries.micro_panels(); ++m)
            for (Index q = begin; q < end; ++q) {
                Tile<T> tile;
                const Index column = q * cols;
                const Vec<T> n0 = Vec<T>::load(&norms_[column]),
                             n1 = Vec<T>::load(&norms_[column + W]);
                products(&norms_[column], queries.micro_panel(m), packed_.panel(q), tile);
                const bool whole = column + cols <= out.cols && (m + 1) * rows <= out.rows;
                unrolled<TileShape<T>::rows>([&](auto r) METRICFAST_INLINE {
                    const Index i = m * rows + r;
                    const Vec<T> norm = Vec<T>::broadcast(static_cast<T>(queries.norm(i)));
                    Vec<T> d0 = max(tile.v[r][0] + norm, zero), d1 = max(tile.v[r][1] + norm, zero);
                    unsigned mask = less(d0, max((n0 + norm) * half, least)) |
                                    less(d1, max((n1 + norm) * half, least)) << W;
                    if (!finish.squared) {
                        d0 = sqrt(d0);
                        d1 = sqrt(d1);
                    }
                    d0 = d0 * unit;
                    d1 = d1 * unit;
                    if (whole && large && reinterpret_cast<std::uintptr_t>(out.row(i)) % 64 == 0) {
                        d0.stream(out.row(i) + column);
                        d1.stream(out.row(i) + column + W);
                    } else if (whole) {
                        d0.store(out.row(i) + column);
                        d1.store(out.row(i) + column + W);
                    } else if (i < out.rows) {
                        d0.store(spilled);
                        d1.store(spilled + W);
                        std::copy(spilled, spilled + std::min(cols, out.cols - column),
                                  out.row(i) + column);
                    }
                    for (; mask != 0; mask &= mask - 1) {
                        const Index j = column + lowest_bit(mask);
                        if (i < out.rows && j < out.cols)
                            cancelled.emplace_back(i, j);
                    }
                });
                if (static_cast<Index>(cancelled.size()) > limit)
                    return false;
            }
        return true;
    }

    void by_differences(Index first, const std::vector<std::pair<Index, Index>> &entries,
                        View<T> out, const Finish &finish) const {
        std::vector<double> query(static_cast<std::size_t>(packed_.depth()));
        Index read = -1;
        for (const auto &[i, j] : entries) {
            if (i != read)
                queries_.read_row(first + i, query.data());
            read = i;
            out.row(i)[j] =
                finish(exact_squared_distance(query.data(), database_, j, finish.scale));
        }
    }

    /// Columns from `begin` on of all rows of `out`, from differences of uncentred points in
    /// double.
    void by_difference_tiles(Index first, Index begin, View<T> out, const Finish &finish) const {
        using Shape = TileShape<double>;
        constexpr int W = Vec<double>::width;
        const Index depth = packed_.depth();
        const Index micro_panels = (out.rows + Shape::rows - 1) / Shape::rows;
        AlignedVector<double> a(static_cast<std::size_t>(micro_panels * Shape::rows * depth));
        AlignedVector<double> b(static_cast<std::size_t>(Shape::cols * depth));
        std::vector<double> point;
        for (Index m = 0; m < micro_panels; ++m)
            pack_panel<double>(queries_, raw_, nullptr, first + m * Shape::rows,
                               std::min<Index>(Shape::rows, out.rows - m * Shape::rows),
                               Shape::rows, 1.0, a.data() + m * Shape::rows * depth, nullptr,
                               point);
        alignas(64) double spilled[Shape::rows][Shape::cols];
        for (Index column = begin; column < database_.rows(); column += Shape::cols) {
            const Index count = std::min<Index>(Shape::cols, database_.rows() - column);
            pack_panel<double>(database_, raw_, nullptr, column, count, Shape::cols, 1.0, b.data(),
                               nullptr, point);
            for (Index m = 0; m < micro_panels; ++m) {
                Tile<double> tile;
                tile.fill(0.0);
                tile.accumulate_squared_difference(depth, a.data() + m * Shape::rows * depth,
                                                   b.data());
                unrolled<Shape::rows>([&](auto r) METRICFAST_INLINE {
                    tile.v[r][0].store(spilled[r]);
                    tile.v[r][1].store(spilled[r] + W);
                });
                for (Index r = 0; r < std::min<Index>(Shape::rows, out.rows - m * Shape::rows); ++r)
                    for (Index c = 0; c < count; ++c)
                        out.row(m * Shape::rows + r)[column + c] = finish(spilled[r][c]);
            }
        }
    }

    const Points &queries_;
    const Points &database_;
    Frame frame_;
    Frame raw_; ///< not centred: differences of raw coordinates do not cancel
    PackedDatabase<T> packed_;
    AlignedVector<T> norms_;
    Index panels_in_cache_;
};

/// out(i, j) = distance from query i to database row j (Euclidean, or its square).
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
    constexpr Index block = AllPairs<T>::block, cached = Index(1) << 25;
    const bool large = out.rows * out.cols * Index(sizeof(T)) > cached;
    parallel_blocks((out.rows + block - 1) / block, control, [&](Index b, Worker &) {
        const Index first = b * block, count = std::min(block, out.rows - first);
        pairs.fill(first, View<T>(out.row(first), count, out.cols, out.stride), squared, 0, large);
        end_streams();
    });
}

/// The same of a part of a database of `columns` points, whose frame is that of them all, so that
/// every entry is what pairwise_distances() makes of the whole.
/// \param cancelled for each AllPairs<T>::block queries, what is added up over the parts; where it
///   exceeds most_cancelled() in the end, their distances are of differences, in every part. Null:
///   all are.
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
