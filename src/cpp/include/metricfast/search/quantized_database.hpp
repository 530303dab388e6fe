/// Lower bounds of all squared distances from coordinates rounded to 8 bits.
///
/// Let m be the centroid of a cell, x = m + r a database point in it, and q = m + p a query. Both
/// are rounded: r to s u and p to t v, with vectors u and v of integers in [-127, 127]. Then
///   |<r, p> - s t <u, v>| <= |r - s u| |p| + |s u| |p - t v|,
/// and with the largest |r - s u| and |s u| of a panel, e and b, for all of its points
///   D - |p|^2 >= |r|^2 - 2 s t <u, v> - 2 (e |p| + b |p - t v|),
/// where |r|^2 stands for the sum with the point's height, if it has one in its space.
/// The products <u, v> are integers, so a tile is compared with integer bounds. Each cell has its
/// own steps s and t. If points are near their centroids, all errors are small.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>

#include "metricfast/core/large_pages.hpp"
#include "metricfast/search/cells.hpp"
#include "metricfast/search/rounding.hpp"
#include "metricfast/search/space.hpp"
#include "metricfast/search/types.hpp"
#include "metricfast/simd/int8.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// Rounds x > 0 up to a float.
inline float float_above(double x) {
    return static_cast<float>(x) * (1 + 1e-6f) + std::numeric_limits<float>::min();
}

} // namespace detail

/// Values that all panels of a cell share.
struct QuantizedCell {
    double step;   ///< t, of queries
    double unit;   ///< 2 s t
    double radius; ///< upper bound of the points' distances to the centroid
    double norm;   ///< |m|^2
};

/// A database in panels of 8-bit coordinates.
class QuantizedDatabase : public PanelLayout {
  public:
    static constexpr int cols = Int8Tile::cols;

    /// Returns whether the processor has the instructions, and quantization pays.
    static bool serves(const Points &points) {
        return has_int8() && points.cols() >= 20 && points.cols() <= 8192;
    }

    /// \param segments start indices of segments, which are searched separately.
    QuantizedDatabase(const Space &space, const Frame &frame,
                      const std::vector<std::int64_t> &order, std::vector<Index> segments,
                      const Control &control)
        : PanelLayout(cols, order, std::move(segments)), depth_(space.images().cols()) {
        make(space, frame, order, control);
    }

    /// \param cells cells of the single segment.
    QuantizedDatabase(const Space &space, const Frame &frame, const Cells &cells,
                      const Control &control)
        : PanelLayout(cols, cells.order, cells.starts), depth_(space.images().cols()),
          divided_(segments() > 1) {
        if (divided_) {
            centroids_.assign(static_cast<std::size_t>(segments() * padded()), 0.0);
            for (Index c = 0; c < segments(); ++c)
                std::copy_n(cells.centroids.row(c).data(), depth_, &centroids_[c * padded()]);
        }
        if (divided_ || !std::is_sorted(cells.order.begin(), cells.order.end())) {
            order_ = cells.order;
            starts_.assign(cells.starts.begin(), cells.starts.end());
        }
        make(space, frame, cells.order, control);
    }

    /// \param ready parts() of an equal database, which must outlive this one.
    QuantizedDatabase(const Space &space, const QuantizedParts &ready)
        : PanelLayout(cols, order_of(space.points(), ready), starts_of(ready)),
          depth_(space.points().cols()), divided_(segments() > 1), parts_(ready) {
        require(parts_.data.size() == positions() * 4 * groups() &&
                    parts_.start.size() == positions() && parts_.error.size() == panels() &&
                    parts_.norm.size() == panels() &&
                    parts_.cells.size() == segments() * (2 + depth_),
                "the quantized points do not fit the points");
        require(ordinary(), "the bounds of the quantized points are out of range");
        centroids_.assign(static_cast<std::size_t>(divided_ ? segments() * padded() : 0), 0.0);
        for (Index c = 0; divided_ && c < segments(); ++c)
            std::copy_n(&parts_.cells[c * (2 + depth_) + 2], depth_, &centroids_[c * padded()]);
        describe();
        measure_stretches(space);
    }
    QuantizedDatabase(const QuantizedDatabase &) = delete;
    QuantizedDatabase &operator=(const QuantizedDatabase &) = delete;

    const QuantizedParts &parts() const { return parts_; }
    Index depth() const { return depth_; }
    Index groups() const { return (depth_ + 3) / 4; }
    /// True if segments are cells of a single segment.
    bool divided() const { return divided_; }
    const std::uint8_t *panel(Index q) const {
        return parts_.data.data() + q * cols * 4 * groups();
    }
    /// Initial values of the products with a panel's points.
    const std::int32_t *start(Index q) const { return parts_.start.data() + q * cols; }
    float error(Index q) const { return parts_.error[q]; }
    float norm(Index q) const { return parts_.norm[q]; }
    /// The largest values of `stretch` panels.
    struct Stretch {
        std::int32_t start;
        float error, norm;
    };
    static constexpr Index stretch = 64;
    /// Empty unless the metric is `inner_product`.
    const std::vector<Stretch> &stretches() const { return stretches_; }
    const QuantizedCell &cell(Index c) const { return cells_[c]; }
    Index cell_of_panel(Index q) const { return panel_cells_[q]; }
    /// Null if it is zero; padded to whole registers.
    const double *centroid(Index c) const {
        return divided_ ? centroids_.data() + c * padded() : nullptr;
    }
    /// (segments, depth), if divided().
    View<const double> centroids() const {
        return {centroids_.data(), segments(), depth_, padded()};
    }
    std::size_t bytes() const {
        return static_cast<std::size_t>(parts_.data.size() + 4 * parts_.start.size() +
                                        8 * parts_.error.size() + 8 * positions() +
                                        8 * parts_.cells.size() + 8 * parts_.order.size());
    }

  private:
    Index padded() const { return (depth_ + 7) / 8 * 8; }
    /// Returns the step for a query. Most cells do not contain the query, so the step is longer.
    double query_step(double step) const { return divided_ ? 1.5 * step : step; }

    static std::vector<std::int64_t> order_of(const Points &points, const QuantizedParts &ready) {
        if (ready.order.size() == 0)
            return identity_order(points.rows());
        std::vector<std::int64_t> order(ready.order.begin(), ready.order.end());
        std::vector<char> seen(static_cast<std::size_t>(points.rows()), 0);
        require(static_cast<Index>(order.size()) == points.rows(),
                "the order of the quantized points does not fit the points");
        for (const std::int64_t row : order) {
            require(row >= 0 && row < points.rows() && !seen[row],
                    "the order of the quantized points is none");
            seen[row] = 1;
        }
        return order;
    }
    static std::vector<Index> starts_of(const QuantizedParts &ready) {
        if (ready.order.size() == 0)
            return {0};
        std::vector<Index> starts(ready.cell_starts.begin(), ready.cell_starts.end());
        bool ascend = !starts.empty() && starts[0] == 0 && starts.back() <= ready.order.size();
        for (std::size_t c = 1; c < starts.size(); ++c)
            ascend = ascend && starts[c - 1] <= starts[c];
        require(ascend, "the cells of the quantized points do not ascend");
        return starts;
    }

    void make(const Space &space, const Frame &frame, const std::vector<std::int64_t> &order,
              const Control &control) {
        const Points &points = space.images();
        const auto n = static_cast<std::size_t>(positions());
        const auto all = [&](Index i) { return order[i]; };
        const double common = step(points, frame, static_cast<Index>(order.size()), all, nullptr);
        allocate(data_, n * static_cast<std::size_t>(4 * groups()));
        allocate(start_, n);
        norms_.assign(n, 0.0);
        error_.resize(static_cast<std::size_t>(panels()));
        norm_.resize(static_cast<std::size_t>(panels()));
        std::vector<double> steps(static_cast<std::size_t>(segments()), common);
        for (Index c = 0; divided_ && c < segments(); ++c) {
            const Index first = segment_begin(c) * cols;
            const Index size = starts_end(c, order) - starts_[c];
            const auto row_of_cell = [&](Index i) { return id(first + i); };
            steps[c] = step(points, frame, size, row_of_cell, centroid(c));
        }
        std::vector<float> apart(static_cast<std::size_t>(panels()));
        describe_panels();
        constexpr Index chunk = 16;
        const auto by_chunks = [&](auto &&of_panel) {
            parallel_blocks((panels() + chunk - 1) / chunk, control, [&](Index b, Worker &) {
                detail::Rounding point;
                for (Index q = b * chunk; q < std::min(panels(), (b + 1) * chunk); ++q)
                    of_panel(q, point);
            });
        };
        by_chunks([&](Index q, detail::Rounding &point) {
            const Index c = panel_cells_[q];
            pack(space, frame, q, steps[c], centroid(c), apart[q], point);
        });
        numbers_.assign(static_cast<std::size_t>(segments() * (2 + depth_)), 0.0);
        for (Index c = 0; c < segments(); ++c) {
            double *of_cell = &numbers_[c * (2 + depth_)];
            of_cell[0] = steps[c];
            for (Index q = segment_begin(c); q < segment_end(c); ++q)
                of_cell[1] = std::max(of_cell[1], static_cast<double>(apart[q]));
            if (divided_)
                std::copy_n(centroid(c), depth_, of_cell + 2);
        }
        const auto span = [](const auto &v) {
            return Span(v.data(), static_cast<Index>(v.size()));
        };
        parts_.cells = span(numbers_);
        describe();
        by_chunks([&](Index q, detail::Rounding &) { begin(q); });
        norms_ = {};
        parts_.data = span(data_);
        parts_.start = span(start_);
        parts_.error = span(error_);
        parts_.norm = span(norm_);
        parts_.order = span(order_);
        parts_.cell_starts = span(starts_);
        measure_stretches(space);
    }

    /// By ascending height, points are far from all queries from some stretch on.
    void measure_stretches(const Space &space) {
        if (space.metric() != Metric::inner_product)
            return;
        for (Index q = 0; q < panels(); ++q) {
            if (q % stretch == 0)
                stretches_.push_back({-Int8Bounds::largest_start, 0, 0});
            Stretch &s = stretches_.back();
            s.start = std::max(s.start, *std::max_element(start(q), start(q) + cols));
            s.error = std::max(s.error, error(q));
            s.norm = std::max(s.norm, norm(q));
        }
    }

    /// Resizes an empty vector, in large pages if it is large.
    template <class Vector> static void allocate(Vector &values, std::size_t size) {
        values.reserve(size);
        prefer_large_pages(values.data(), size * sizeof(values[0]));
        values.resize(size);
    }

    Index starts_end(Index c, const std::vector<std::int64_t> &order) const {
        return c + 1 < segments() ? static_cast<Index>(starts_[c + 1])
                                  : static_cast<Index>(order.size());
    }

    void describe_panels() {
        panel_cells_.resize(static_cast<std::size_t>(panels()));
        for (Index c = 0; c < segments(); ++c)
            for (Index q = segment_begin(c); q < segment_end(c); ++q)
                panel_cells_[q] = static_cast<std::int32_t>(c);
    }

    void describe() {
        describe_panels();
        cells_.clear();
        for (Index c = 0; c < segments(); ++c) {
            const double *of_cell = &parts_.cells[c * (2 + depth_)];
            double norm = 0;
            for (Index k = 0; k < depth_; ++k)
                norm += of_cell[2 + k] * of_cell[2 + k];
            const double of_queries = query_step(of_cell[0]);
            cells_.push_back({of_queries, 2 * of_cell[0] * of_queries, of_cell[1], norm});
        }
    }

    /// Returns whether values are within the ranges of make(): sums with other initial values could
    /// overflow. An error may be infinite, in steps of a cell of equal points.
    bool ordinary() const {
        const auto length = [](float x) { return x >= 0; };
        bool cells = true;
        for (Index c = 0; c < segments(); ++c)
            for (Index k = 0; k < 2 + depth_; ++k) {
                const double x = parts_.cells[c * (2 + depth_) + k];
                cells = cells && std::isfinite(x) && (k > 0 || x > 0) && (k > 1 || x >= 0);
            }
        return cells && std::all_of(parts_.error.begin(), parts_.error.end(), length) &&
               std::all_of(parts_.norm.begin(), parts_.norm.end(), length) &&
               std::all_of(parts_.start.begin(), parts_.start.end(), [](std::int32_t start) {
                   return start <= 0 && start >= -Int8Bounds::largest_start;
               });
    }

    /// The step at which 127 steps equal the largest coordinate, except for a few points that are
    /// too few to affect many panels. Estimated from a sample.
    template <class Row>
    static double step(const Points &points, const Frame &frame, Index n, Row &&row,
                       const double *centroid) {
        const Index count = std::min<Index>(n, centroid == nullptr ? 4096 : 128);
        std::vector<double> longest(static_cast<std::size_t>(count));
        for (Index i = 0; i < count; ++i)
            longest[i] = points.visit([&](auto v) {
                const auto *x = v.row(static_cast<Index>(row(i * n / count)));
                return detail::longest_coordinate(x, frame, centroid);
            });
        std::sort(longest.begin(), longest.end());
        const Index outliers = count / 2000 + (count > 64 ? 2 : 0);
        const double most = count > 0 ? longest[count - 1 - outliers] : 0;
        return std::max(most / 127, std::ldexp(1.0, -400)); // its square does not underflow
    }

    void pack(const Space &space, const Frame &frame, Index q, double step, const double *centroid,
              float &apart, detail::Rounding &point) {
        std::uint8_t *out = data_.data() + q * cols * 4 * groups();
        if (count(q) < cols)
            std::fill(out, out + cols * 4 * groups(), std::uint8_t(128));
        const Index size = count(q), fours = groups();
        double error = 0, norm = 0, farthest = 0;
        for (Index lane = 0; lane < size; ++lane) {
            const auto row = static_cast<Index>(ids(q)[lane]);
            point.round(space.images(), row, frame, step, centroid);
            const std::int8_t *const integers = point.integers().data();
            for (Index g = 0; g < fours; ++g) {
                std::uint32_t four;
                std::memcpy(&four, integers + 4 * g, 4);
                four ^= 0x80808080u; // adds 128 to each byte
                std::memcpy(out + (g * cols + lane) * 4, &four, 4);
            }
            norms_[q * cols + lane] =
                (point.apart + space.height(row, frame.scale)) * (1 - detail::quantized_margin);
            error = std::max(error, point.error);
            norm = std::max(norm, point.rounded);
            farthest = std::max(farthest, point.apart);
        }
        error_[q] = detail::float_above(error / step);
        norm_[q] = detail::float_above(norm / step);
        apart = detail::float_above(std::sqrt(farthest) * (1 + 1e-9) + std::ldexp(1.0, -500));
    }

    /// Sets the initial values of the products with a panel's points.
    void begin(Index q) {
        const QuantizedCell &cell = cells_[panel_cells_[q]];
        for (Index lane = 0; lane < cols; ++lane) {
            // Padding gets a low initial value; if it still passes, its id excludes it.
            std::int32_t &begin = start_[q * cols + lane] = -Int8Bounds::largest_start;
            const double start = norms_[q * cols + lane] / cell.unit;
            if (lane < count(q) && start < static_cast<double>(Int8Bounds::largest_start))
                begin = -static_cast<std::int32_t>(start);
        }
    }

    Index depth_;
    bool divided_ = false;
    QuantizedParts parts_;
    std::vector<QuantizedCell> cells_;
    std::vector<std::int32_t> panel_cells_;
    std::vector<Stretch> stretches_;
    AlignedVector<double> centroids_;  ///< rows of padded() numbers
    AlignedVector<std::uint8_t> data_; ///< owned memory, like the following vectors
    AlignedVector<std::int32_t> start_;
    std::vector<float> error_, norm_;
    std::vector<double> norms_; ///< |r|^2, rounded down; only during construction
    std::vector<double> numbers_;
    std::vector<std::int64_t> order_, starts_;
};

METRICFAST_NAMESPACE_END
