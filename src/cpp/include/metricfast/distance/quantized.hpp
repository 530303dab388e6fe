/// Lower bounds of all squared distances from coordinates rounded to 8 bits.
///
/// A database point x, centred, is s u + (what rounding left), u of integers in [-127, 127]; a
/// query is q = s v + (what rounding left). Then
///   |<x, q> - s^2 <u, v>| <= |x - s u| |q| + |s u| |q - s v|,
/// and with the largest |x - s u| and |s u| of a panel, e and b, for all of its points
///   D - |q|^2 >= |x|^2 - 2 s^2 <u, v> - 2 (e |q| + b |q - s v|).
/// The products are integers, so that a tile is compared with integer bounds.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>

#include "metricfast/distance/rounding.hpp"
#include "metricfast/distance/types.hpp"
#include "metricfast/simd/int8.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// A float not below x > 0.
inline float float_above(double x) {
    return static_cast<float>(x) * (1 + 1e-6f) + std::numeric_limits<float>::min();
}

} // namespace detail

/// A database in panels of 8-bit coordinates.
class QuantizedDatabase : public PanelLayout {
  public:
    static constexpr int cols = Int8Tile::cols;

    /// Whether there are instructions for it, and it is worth while.
    static bool serves(const Points &points) {
        return has_int8() && points.cols() >= 20 && points.cols() <= 8192;
    }

    /// \param ready what parts() of an equal database were; refers to them. Null: makes them.
    QuantizedDatabase(const Points &points, const Frame &frame,
                      const std::vector<std::int64_t> &order, std::vector<Index> segments,
                      const Control &control, const QuantizedParts *ready = nullptr)
        : PanelLayout(cols, order, std::move(segments)), depth_(points.cols()) {
        const auto n = static_cast<std::size_t>(positions());
        if (ready != nullptr) {
            parts_ = *ready;
            require(parts_.data.size() == positions() * 4 * groups() &&
                        parts_.start.size() == positions() && parts_.error.size() == panels() &&
                        parts_.norm.size() == panels(),
                    "the quantized points do not fit the points");
            require(ordinary(), "the bounds of the quantized points are out of range");
            return;
        }
        parts_.step = step(points, frame, order);
        data_.resize(n * static_cast<std::size_t>(4 * groups()));
        start_.resize(n);
        error_.resize(static_cast<std::size_t>(panels()));
        norm_.resize(static_cast<std::size_t>(panels()));
        constexpr Index chunk = 16;
        parallel_blocks((panels() + chunk - 1) / chunk, control, [&](Index b, Worker &) {
            detail::Rounding point;
            for (Index q = b * chunk; q < std::min(panels(), (b + 1) * chunk); ++q)
                pack(points, frame, q, point);
        });
        const auto span = [](const auto &v) {
            return Span(v.data(), static_cast<Index>(v.size()));
        };
        parts_.data = span(data_);
        parts_.start = span(start_);
        parts_.error = span(error_);
        parts_.norm = span(norm_);
    }
    QuantizedDatabase(const QuantizedDatabase &) = delete;
    QuantizedDatabase &operator=(const QuantizedDatabase &) = delete;

    const QuantizedParts &parts() const { return parts_; }
    Index depth() const { return depth_; }
    Index groups() const { return (depth_ + 3) / 4; }
    double step() const { return parts_.step; }
    const std::uint8_t *panel(Index q) const {
        return parts_.data.data() + q * cols * 4 * groups();
    }
    /// What the products of a panel's points begin with.
    const std::int32_t *start(Index q) const { return parts_.start.data() + q * cols; }
    float error(Index q) const { return parts_.error[q]; }
    float norm(Index q) const { return parts_.norm[q]; }
    std::size_t bytes() const {
        return static_cast<std::size_t>(parts_.data.size() + 4 * parts_.start.size() +
                                        8 * parts_.error.size() + 8 * positions());
    }

  private:
    /// Whether numbers are as pack() makes them: sums that begin elsewhere would overflow.
    bool ordinary() const {
        const auto length = [](float x) { return x >= 0 && std::isfinite(x); };
        return parts_.step > 0 && std::isfinite(parts_.step) &&
               std::all_of(parts_.error.begin(), parts_.error.end(), length) &&
               std::all_of(parts_.norm.begin(), parts_.norm.end(), length) &&
               std::all_of(parts_.start.begin(), parts_.start.end(), [](std::int32_t start) {
                   return start <= 0 && start >= -Int8Bounds::largest_start;
               });
    }

    /// So that 127 steps are as long as the longest coordinate of all but a few points, which are
    /// too few to spoil the bounds of many panels; judged by some of the points.
    static double step(const Points &points, const Frame &frame,
                       const std::vector<std::int64_t> &order) {
        const Index n = static_cast<Index>(order.size()), count = std::min<Index>(n, 4096);
        std::vector<double> longest(static_cast<std::size_t>(count));
        for (Index i = 0; i < count; ++i)
            longest[i] = points.visit([&](auto v) {
                const Index row = static_cast<Index>(order[i * n / count]);
                return detail::longest_coordinate(v.row(row), frame);
            });
        std::sort(longest.begin(), longest.end());
        const Index few = count / 2000 + (count > 64 ? 2 : 0);
        const double most = count > 0 ? longest[count - 1 - few] : 0;
        return std::max(most / 127, std::ldexp(1.0, -400)); // whose square does not vanish
    }

    void pack(const Points &points, const Frame &frame, Index q, detail::Rounding &point) {
        std::uint8_t *out = data_.data() + q * cols * 4 * groups();
        if (count(q) < cols)
            std::fill(out, out + cols * 4 * groups(), std::uint8_t(128));
        const Index size = count(q), fours = groups();
        double error = 0, norm = 0;
        for (Index lane = 0; lane < cols; ++lane) {
            // Padding is farther than most; what is not is told by its id.
            std::int32_t &begin = start_[q * cols + lane] = -Int8Bounds::largest_start;
            if (lane >= size)
                continue;
            point.round(points, static_cast<Index>(ids(q)[lane]), frame, parts_.step);
            const std::int8_t *const integers = point.integers().data();
            for (Index g = 0; g < fours; ++g) {
                std::uint32_t four;
                std::memcpy(&four, integers + 4 * g, 4);
                four ^= 0x80808080u; // adds 128 to each
                std::memcpy(out + (g * cols + lane) * 4, &four, 4);
            }
            const double half =
                point.norm * (1 - detail::quantized_margin) / (2 * parts_.step * parts_.step);
            if (half < static_cast<double>(Int8Bounds::largest_start))
                begin = -static_cast<std::int32_t>(half);
            error = std::max(error, point.error);
            norm = std::max(norm, point.rounded);
        }
        error_[q] = detail::float_above(error);
        norm_[q] = detail::float_above(norm);
    }

    Index depth_;
    QuantizedParts parts_;
    AlignedVector<std::uint8_t> data_; ///< here where they were made
    AlignedVector<std::int32_t> start_;
    std::vector<float> error_, norm_;
};

/// Queries in micro-panels of 8-bit coordinates, and up to which distance each of them looks.
class QuantizedQueries {
  public:
    static constexpr int rows = Int8Tile::rows;

    void pack(const Points &queries, const Frame &frame, const std::int64_t *ids, Index count,
              const QuantizedDatabase &database) {
        count_ = count;
        groups_ = database.groups();
        unit_ = 2 * database.step() * database.step();
        queries_.assign(static_cast<std::size_t>(count), Query());
        bounds_.resize(static_cast<std::size_t>(micro_panels()));
        data_.assign(static_cast<std::size_t>(micro_panels() * groups_ * rows), 0);
        for (Index i = 0; i < count; ++i) {
            point_.round(queries, static_cast<Index>(ids[i]), frame, database.step());
            std::int32_t *out = data_.data() + i / rows * groups_ * rows + i % rows;
            std::int64_t sum = 0;
            for (Index g = 0; g < groups_; ++g) {
                std::memcpy(out + g * rows, point_.integers().data() + 4 * g, 4);
                for (Index k = 4 * g; k < 4 * g + 4; ++k)
                    sum += point_.integers()[k];
            }
            queries_[i] = {point_.norm, std::sqrt(point_.norm), point_.error,
                           static_cast<double>(Int8Sums::offset * sum)};
        }
        for (Index i = 0; i < micro_panels() * rows; ++i) {
            Int8Bounds &b = bounds_[i / rows];
            const Query query = i < count ? queries_[i] : Query();
            b.error[i % rows] = -detail::float_above(2 * query.length / unit_);
            b.norm[i % rows] = -detail::float_above(2 * query.error / unit_);
            b.base[i % rows] = Int8Bounds::never;
        }
    }

    Index micro_panels() const { return (count_ + rows - 1) / rows; }
    /// |q|^2
    double norm(Index i) const { return queries_[i].norm; }

    /// From now on the query looks for points whose D - |q|^2 may be below `reach`.
    void look(Index i, double reach) {
        const double base = queries_[i].offset - reach / unit_;
        const double lower = base - 1e-6 * (std::abs(base) + std::abs(queries_[i].offset)) - 2;
        bounds_[i / rows].base[i % rows] = static_cast<float>(
            std::min<double>(Int8Bounds::never, std::max<double>(Int8Bounds::always, lower)));
    }
    void look_no_more(Index i) { bounds_[i / rows].base[i % rows] = Int8Bounds::never; }

    /// Whether a point of panel q whose products sum up so may be near enough.
    bool looks(Index i, const QuantizedDatabase &database, Index q, std::int32_t sum) const {
        const Int8Bounds &b = bounds_[i / rows];
        const Index r = i % rows;
        return static_cast<float>(sum) >=
               b.base[r] + b.error[r] * database.error(q) + b.norm[r] * database.norm(q);
    }

    /// Lets queries look no farther than the `count`-th nearest of what is in the panels
    /// [begin, end), for certain, and not much farther: of the points that share a lane, the
    /// nearest counts.
    void scout(const QuantizedDatabase &database, Index begin, Index end, Index count) {
#ifdef METRICFAST_INT8
        constexpr Index cols = Int8Tile::cols;
        const Index sets = (2 * count + cols - 1) / cols;
        scouted_.resize(static_cast<std::size_t>(rows * cols * sets));
        std::vector<std::int32_t> &lanes = lanes_;
        lanes.resize(static_cast<std::size_t>(cols * sets));
        for (Index m = 0; m < micro_panels(); ++m) {
            // The bound's sign is turned: sums are lessened by what they may err.
            Int8Bounds pessimistic = bounds_[m];
            for (Index r = 0; r < rows; ++r) {
                pessimistic.base[r] = 2;
                pessimistic.error[r] = -pessimistic.error[r];
                pessimistic.norm[r] = -pessimistic.norm[r];
            }
            std::fill(scouted_.begin(), scouted_.end(), std::numeric_limits<std::int32_t>::min());
            with_rows([&](auto r) {
                for (Index q = begin; q < end; ++q)
                    int8_largest<r>(groups_, data_.data() + m * groups_ * rows, database.panel(q),
                                    database.start(q), pessimistic, database.error(q),
                                    database.norm(q), &scouted_[q % sets * rows * cols]);
            });
            for (Index i = m * rows; i < std::min(count_, (m + 1) * rows); ++i) {
                for (Index s = 0; s < sets; ++s)
                    std::copy_n(&scouted_[(s * rows + i % rows) * cols], cols, &lanes[s * cols]);
                std::nth_element(lanes.begin(), lanes.begin() + count - 1, lanes.end(),
                                 std::greater<>());
                const std::int32_t sum = lanes[count - 1];
                // Below, sums may be of points so far away that their norms are cut off.
                float &base = bounds_[m].base[i % rows];
                if (sum > -Int8Bounds::largest_start / 2 && base < Int8Bounds::never)
                    base = std::max(base, static_cast<float>(sum) -
                                              1e-6f * std::abs(static_cast<float>(sum)) - 2);
            }
        }
#else
        (void)database, (void)begin, (void)end, (void)count;
#endif
    }

    /// Visits the panels [begin, end): hit(query, position, sum) for all that may be near enough.
    template <class Hit>
    void sweep(const QuantizedDatabase &database, Index begin, Index end, Hit &&hit) const {
#ifdef METRICFAST_INT8
        with_rows([&](auto r) { sweep_rows<r>(database, begin, end, hit); });
#else
        (void)database, (void)begin, (void)end, (void)hit;
#endif
    }

  private:
    struct Query {
        double norm = 0, length = 0, error = 0;
        double offset = 0; ///< what makes the products of unsigned coordinates larger
    };

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
        for (Index q = begin; q < end; ++q) {
            const std::uint8_t *panel = database.panel(q);
            for (Index m = 0; m < micro_panels(); ++m) {
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
    double unit_ = 1;
    std::vector<Query> queries_;
    AlignedVector<Int8Bounds> bounds_;
    AlignedVector<std::int32_t> data_;
    detail::Rounding point_;
    std::vector<std::int32_t> scouted_, lanes_;
};

METRICFAST_NAMESPACE_END
