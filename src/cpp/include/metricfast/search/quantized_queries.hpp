/// Queries that look for points of a database of 8-bit coordinates.
#pragma once

#include "metricfast/search/quantized_database.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Queries in micro-panels of 8-bit coordinates, with the distance limit of each query.
class QuantizedQueries {
  public:
    static constexpr int rows = Int8Tile::rows;

    /// Begins a block: queries ids[first .. first + count).
    void begin(const QuantizedDatabase &database, const Points &queries, const Frame &frame,
               const std::int64_t *ids, Index first, Index count) {
        count_ = count;
        groups_ = database.groups();
        cells_ = database.segments();
        cell_ = -1;
        points_ = &queries;
        frame_ = &frame;
        ids_ = ids + first;
        database_ = &database;
        queries_.assign(static_cast<std::size_t>(count), Query());
        bounds_.assign(static_cast<std::size_t>(micro_panels()), Int8Bounds());
        data_.assign(static_cast<std::size_t>(micro_panels() * groups_ * rows), 0);
        places_.clear();
        if (database.divided())
            place();
        else
            for (Index i = 0; i < count; ++i)
                round(i, database.cell(0).step, nullptr);
    }

    Index micro_panels() const { return (count_ + rows - 1) / rows; }
    /// |q|^2
    double norm(Index i) const { return queries_[i].whole; }

    /// Lowers the limit of a query on the squared distance D to `limit`, if that is smaller.
    void lower_limit(Index i, double limit) {
        queries_[i].limit = std::min(queries_[i].limit, limit);
        if (cell_ >= 0)
            bounds_[i / rows].base[i % rows] = base(i);
    }
    void stop(Index i) { lower_limit(i, -std::numeric_limits<double>::infinity()); }
    /// Finds points with a squared distance of at most `square`.
    bool reach(Index i, double square) {
        lower_limit(i, detail::quantized_limit(square, norm(i)));
        return true;
    }

    /// Returns a lower bound on the squared distance of the query to all points of a cell; 0 if
    /// there is one cell only.
    double cell_distance(Index i, Index c) const {
        return places_.empty() ? 0 : places_[i * cells_ + c];
    }

    /// Returns the approximate squared distance of the query to a centroid.
    double centroid_distance(Index i, Index c) const { // less |q|^2
        return database_->cell(c).norm - 2 * products_(i, c);
    }

    /// Enters a cell, whose points the bounds are for. False: no query looks that far.
    bool enter_cell(Index c) {
        cell_ = c;
        active_.assign(static_cast<std::size_t>(micro_panels()), 0);
        bool any = false;
        for (Index i = 0; i < micro_panels() * rows; ++i) {
            float &bound = bounds_[i / rows].base[i % rows] = Int8Bounds::never;
            if (i >= count_ || !(queries_[i].limit > cell_distance(i, c)))
                continue;
            if (database_->divided())
                round(i, database_->cell(c).step, database_->centroid(c));
            bound = base(i);
            active_[i / rows] = 1;
            any = true;
        }
        return any;
    }

    /// About D of a point of panel q, of the cell that was entered, whose products sum up so.
    float guess(Index i, std::int32_t sum) const {
        const Query &query = queries_[i];
        return static_cast<float>((query.offset - sum) * database_->cell(cell_).unit + query.norm);
    }

    /// Not above D of that point.
    float lower(Index i, Index q, std::int32_t sum) const {
        const Query &query = queries_[i];
        const QuantizedCell &cell = database_->cell(cell_);
        const double wrong = query.length * static_cast<double>(database_->error(q)) +
                             query.error * static_cast<double>(database_->norm(q));
        const double d = (query.offset - sum - wrong) * cell.unit + query.norm;
        // A cell of equal points and a few others has a tiny step, and errors of infinite steps.
        return std::isfinite(d) ? static_cast<float>(d - 1e-6 * std::abs(d))
                                : -std::numeric_limits<float>::infinity();
    }

    /// True if a point with this bound may be a neighbour.
    bool within_limit(Index i, float lower) const {
        return static_cast<double>(lower) < queries_[i].limit;
    }

    /// Limits the search distance of queries to an upper bound on the distance of the `count`-th
    /// nearest point in the panels [begin, end) of the current cell. The bound is slightly loose:
    /// it uses only the nearest point of each lane.
    /// \param space_margin Space::margin() in the frame.
    void sample_limits(const QuantizedDatabase &database, Index begin, Index end, Index count,
                       double space_margin) {
#ifdef METRICFAST_INT8
        constexpr Index cols = Int8Tile::cols;
        const Index sets = (2 * count + cols - 1) / cols;
        sampled_.resize(static_cast<std::size_t>(rows * cols * sets));
        std::vector<std::int32_t> &lanes = lanes_;
        lanes.resize(static_cast<std::size_t>(cols * sets));
        for (Index m = 0; m < micro_panels(); ++m) {
            if (!active_[m])
                continue;
            // The bound has the opposite sign here: the error bound is subtracted from the sums.
            Int8Bounds pessimistic = bounds_[m];
            for (Index r = 0; r < rows; ++r) {
                pessimistic.base[r] = 2;
                pessimistic.error[r] = -pessimistic.error[r];
                pessimistic.norm[r] = -pessimistic.norm[r];
            }
            std::fill(sampled_.begin(), sampled_.end(), std::numeric_limits<std::int32_t>::min());
            with_rows([&](auto r) {
                for (Index q = begin; q < end; ++q)
                    int8_largest<r>(groups_, data_.data() + m * groups_ * rows, database.panel(q),
                                    database.start(q), pessimistic, database.error(q),
                                    database.norm(q), &sampled_[q % sets * rows * cols]);
            });
            for (Index i = m * rows; i < std::min(count_, (m + 1) * rows); ++i) {
                for (Index s = 0; s < sets; ++s)
                    std::copy_n(&sampled_[(s * rows + i % rows) * cols], cols, &lanes[s * cols]);
                std::nth_element(lanes.begin(), lanes.begin() + count - 1, lanes.end(),
                                 std::greater<>());
                const std::int32_t sum = lanes[count - 1];
                // Below, sums may be of points so far away that their norms are cut off.
                if (sum <= -Int8Bounds::largest_start / 2)
                    continue;
                const QuantizedCell &cell = database.cell(cell_);
                const double least = static_cast<double>(sum) - 1e-6 * std::abs(sum) - 2;
                const Query &query = queries_[i];
                const double d = (query.offset - least) * cell.unit + query.norm;
                const double margin = detail::quantized_margin * (query.norm + query.whole);
                lower_limit(i, d + margin + space_margin);
            }
        }
#else
        (void)database, (void)begin, (void)end, (void)count, (void)space_margin;
#endif
    }

    /// Visits the panels [begin, end) and calls hit(query, position, sum) for all points that may
    /// be near enough.
    template <class Hit>
    void sweep(const QuantizedDatabase &database, Index begin, Index end, Hit &&hit) const {
#ifdef METRICFAST_INT8
        with_rows([&](auto r) { sweep_rows<r>(database, begin, end, hit); });
#else
        (void)database, (void)begin, (void)end, (void)hit;
#endif
    }

    /// Calls hit(query, position, sum) for all points of the panels [begin, end) that may be near
    /// enough, cell by cell.
    template <class Hit> void run(Index begin, Index end, Hit &&hit) {
        const QuantizedDatabase &all = *database_;
        if (begin == end)
            return;
        for (Index c = all.cell_of_panel(begin); c <= all.cell_of_panel(end - 1); ++c)
            if (enter_cell(c))
                sweep(all, std::max(begin, all.segment_begin(c)), std::min(end, all.segment_end(c)),
                      hit);
    }

  private:
    struct Query {
        double whole = 0;             ///< |q|^2
        double norm = 0;              ///< |p|^2
        double length = 0, error = 0; ///< |p| and |p - t v|, in steps t
        double offset = 0;            ///< correction for products of unsigned coordinates
        double limit = std::numeric_limits<double>::infinity();
    };

    /// Returns whether a stretch of the entered cell may hold a neighbour of any query: <u, v> is
    /// at most |u| |v|.
    METRICFAST_NOINLINE bool may_hold(const QuantizedDatabase::Stretch &stretch) const {
        const double norm = stretch.norm, error = stretch.error, start = stretch.start;
        for (Index i = 0; i < count_; ++i) {
            const Query &query = queries_[i];
            const double most = norm * (query.length + query.error) * (1 + 1e-9);
            const double wrong = error * query.length + norm * query.error;
            if (!(start + query.offset + most + wrong <= bounds_[i / rows].base[i % rows]))
                return true;
        }
        return false;
    }

    /// Rounds a query minus a centroid.
    void round(Index i, double step, const double *centroid) {
        point_.round(*points_, static_cast<Index>(ids_[i]), *frame_, step, centroid);
        std::int32_t *out = data_.data() + i / rows * groups_ * rows + i % rows;
        std::int64_t sum = 0;
        for (Index g = 0; g < groups_; ++g) {
            std::memcpy(out + g * rows, point_.integers().data() + 4 * g, 4);
            for (Index k = 4 * g; k < 4 * g + 4; ++k)
                sum += point_.integers()[k];
        }
        Query &query = queries_[i];
        query.whole = point_.norm;
        query.norm = point_.apart;
        query.length = std::sqrt(point_.apart) * (1 + 1e-9) / step;
        query.error = point_.error / step;
        query.offset = static_cast<double>(Int8Sums::offset * sum);
        Int8Bounds &b = bounds_[i / rows];
        b.error[i % rows] = -detail::float_above(query.length);
        b.norm[i % rows] = -detail::float_above(query.error);
    }

    /// Computes lower bounds on the distances of queries from cells.
    void place() {
        const Index depth = database_->depth();
        framed_.resize(count_, depth);
        points_->visit([&](auto v) {
            for (Index i = 0; i < count_; ++i)
                for (Index k = 0; k < depth; ++k)
                    framed_(i, k) = frame_->apply(
                        static_cast<double>(v.row(static_cast<Index>(ids_[i]))[k]), k);
        });
        renew(products_, count_, cells_);
        detail::multiply_nt<double>(view(framed_), database_->centroids(), view(products_));
        const double rounding = detail::quantized_margin * (1 + static_cast<double>(depth) / 1000);
        places_.resize(static_cast<std::size_t>(count_ * cells_));
        for (Index i = 0; i < count_; ++i) {
            queries_[i].whole = framed_.row(i).squaredNorm();
            for (Index c = 0; c < cells_; ++c) {
                const QuantizedCell &cell = database_->cell(c);
                const double norms = queries_[i].whole + cell.norm;
                const double square = norms - 2 * products_(i, c) - 4 * rounding * norms;
                const double apart = std::sqrt(std::max(0.0, square)) * (1 - 1e-9);
                const double away = std::max(0.0, apart - cell.radius);
                places_[i * cells_ + c] = away * away * (1 - 1e-9);
            }
        }
    }

    /// The sum of products that a neighbour exceeds, without the panel's rounding errors.
    float base(Index i) const {
        const Query &query = queries_[i];
        if (query.limit == -std::numeric_limits<double>::infinity())
            return Int8Bounds::never;
        const double base = query.offset - (query.limit - query.norm) / database_->cell(cell_).unit;
        const double lower = base - 1e-6 * (std::abs(base) + std::abs(query.offset)) - 2;
        return static_cast<float>(
            std::min<double>(Int8Bounds::never, std::max<double>(Int8Bounds::always, lower)));
    }

#ifdef METRICFAST_INT8
    /// Calls f with how many rows of a micro-panel hold queries, at least.
    template <class F> void with_rows(F &&f) const {
        if (count_ == 1)
            f(std::integral_constant<int, 1>());
        else if (count_ <= 4)
            f(std::integral_constant<int, 4>());
        else
            f(std::integral_constant<int, rows>());
    }

    template <int Rows, class Hit>
    void sweep_rows(const QuantizedDatabase &database, Index begin, Index end, Hit &hit) const {
        Int8Tile tile;
        const auto &stretches = database.stretches();
        constexpr Index size = QuantizedDatabase::stretch;
        Index tested = stretches.empty() ? end : begin;
        for (Index q = begin; q < end; ++q) {
            if (q == tested) {
                tested = (q / size + 1) * size;
                if (!may_hold(stretches[q / size])) {
                    q = std::min(tested, end) - 1;
                    continue;
                }
            }
            const std::uint8_t *panel = database.panel(q);
            for (Index m = 0; m < micro_panels(); ++m) {
                if (!active_[m])
                    continue;
                unsigned some = int8_products<Rows>(groups_, data_.data() + m * groups_ * rows,
                                                    panel, database.start(q), bounds_[m],
                                                    database.error(q), database.norm(q), tile);
                some &= (1u << std::min<Index>(rows, count_ - m * rows)) - 1;
                for (; some != 0; some &= some - 1) {
                    const int r = lowest_bit(some);
                    for (unsigned mask = tile.mask[r]; mask != 0; mask &= mask - 1) {
                        const int c = lowest_bit(mask);
                        hit(m * rows + r, q * QuantizedDatabase::cols + c,
                            tile.values[r][c] + tile.bounds[r]);
                    }
                }
            }
        }
    }
#endif

    Index count_ = 0;
    Index groups_ = 0;
    Index cells_ = 0;
    Index cell_ = -1; ///< that was entered
    const QuantizedDatabase *database_ = nullptr;
    const Points *points_ = nullptr;
    const Frame *frame_ = nullptr;
    const std::int64_t *ids_ = nullptr;
    std::vector<Query> queries_;
    std::vector<double> places_; ///< away() of (queries, cells); empty if there are no centroids
    std::vector<char> active_;   ///< micro-panels with queries that search the cell
    RowMatrix<double> framed_, products_;
    AlignedVector<Int8Bounds> bounds_;
    AlignedVector<std::int32_t> data_;
    detail::Rounding point_;
    std::vector<std::int32_t> sampled_, lanes_;
};

METRICFAST_NAMESPACE_END
