/// The distances that a search compares: Euclidean ones, or values of another metric.
///
/// A search under another metric excludes points by squared Euclidean distances of images, and
/// ranks the others by exact values. For x of the database and a query q, with images x' and q',
///   D = |q' - x'|^2 + h(x),
/// where h(x) is the height of x. D increases with the value, up to a margin for rounding:
///   cosine         1 - cos(q, x) = D / 2, with images of length 1 and no heights. A zero vector
///                  has the image 0 and the height 1.
///   inner product  2 t (-<q, x>) = D - R^2 - |q'|^2, with x' = x, q' = t q and
///                  h(x) = R^2 - |x|^2, where R is the largest |x| and t a power of two.
#pragma once

#include <memory>

#include "metricfast/core/work.hpp"
#include "metricfast/search/types.hpp"
#include "metricfast/simd/packing.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// Returns the smallest e of at least -1021 with |x| < 2^e for all coordinates x of a point, and 0
/// for a point of zeros. Throws unless they are finite.
inline int exponent_of(const Points &points, Index row) {
    return points.visit([&](auto v) {
        double largest = 0;
        bool finite = true;
        for (Index k = 0; k < v.cols; ++k) {
            const double x = std::abs(static_cast<double>(v.row(row)[k]));
            finite = finite && std::isfinite(x);
            largest = std::max(largest, x);
        }
        require(finite, "coordinates must be finite");
        int exponent = 0;
        std::frexp(largest, &exponent);
        return std::max(exponent, -1021);
    });
}

/// The size of a point: the e of exponent_of(), and |2^-e x|^2, summed in index order.
struct PointSize {
    int exponent = 0;
    double square = 0;

    PointSize() = default;
    PointSize(const Points &points, Index row) : exponent(exponent_of(points, row)) {
        const double scale = unit();
        points.visit([&](auto v) {
            for (Index k = 0; k < v.cols; ++k) {
                const double x = static_cast<double>(v.row(row)[k]) * scale;
                square += x * x;
            }
        });
    }

    double unit() const { return std::ldexp(1.0, -exponent); }
};

/// Images of points, in float or double.
class Images {
  public:
    Images(const Points &points, bool is_double) : is_double_(is_double) {
        if (is_double)
            double_.resize(points.rows(), points.cols());
        else
            single_.resize(points.rows(), points.cols());
    }

    Points points() const { return is_double_ ? Points(view(double_)) : Points(view(single_)); }
    std::size_t bytes() const {
        return sizeof(float) * static_cast<std::size_t>(single_.size()) +
               sizeof(double) * static_cast<std::size_t>(double_.size());
    }

    /// Sets a row to the row of `from`, multiplied by two factors.
    void set(const Points &from, Index row, double first, double second) {
        from.visit([&](auto v) {
            visit_row(row, [&](auto *out) {
                using T = std::remove_pointer_t<decltype(out)>;
                for (Index k = 0; k < v.cols; ++k)
                    out[k] = static_cast<T>(static_cast<double>(v.row(row)[k]) * first * second);
            });
        });
    }
    /// Replaces all rows by some rows of points of the same precision.
    void take(const Points &from, const std::vector<std::int64_t> &rows) {
        from.visit([&](auto v) {
            using T = std::remove_const_t<std::remove_pointer_t<decltype(v.data)>>;
            auto &to = matrix<T>();
            to.resize(static_cast<Index>(rows.size()), v.cols);
            for (std::size_t i = 0; i < rows.size(); ++i)
                std::copy_n(v.row(static_cast<Index>(rows[i])), v.cols,
                            to.row(static_cast<Index>(i)).data());
        });
    }
    /// Sets a row to a multiple of the first axis.
    void set_axis(Index row, double length) {
        visit_row(row, [&](auto *out) {
            using T = std::remove_pointer_t<decltype(out)>;
            std::fill_n(out, std::max(single_.cols(), double_.cols()), T(0));
            out[0] = static_cast<T>(length);
        });
    }

  private:
    template <class T> RowMatrix<T> &matrix() {
        if constexpr (std::is_same_v<T, double>)
            return double_;
        else
            return single_;
    }
    template <class F> void visit_row(Index row, F &&f) {
        if (is_double_)
            f(double_.row(row).data());
        else
            f(single_.row(row).data());
    }

    bool is_double_;
    RowMatrix<float> single_;
    RowMatrix<double> double_;
};

/// Calls f(row) for all rows, in blocks.
template <class F> void each_row(const Points &points, const Control &control, F &&f) {
    constexpr Index block = 256;
    const Index n = points.rows();
    const Control how = worth_it(control, 8.0 * static_cast<double>(n * points.cols()));
    parallel_blocks((n + block - 1) / block, how.silent(), [&](Index b, Worker &) {
        for (Index i = b * block; i < std::min(n, (b + 1) * block); ++i)
            f(i);
    });
}

} // namespace detail

/// The points of a database under a metric. Refers to the points, which must outlive it.
class Space {
  public:
    explicit Space(const Points &points, Metric metric = Metric::euclidean,
                   const Control &control = {})
        : metric_(metric), points_(points), images_(points) {
        if (metric == Metric::cosine)
            set_directions(control);
        if (metric == Metric::inner_product)
            set_lengths(control);
    }
    Space(const Space &) = delete;
    Space &operator=(const Space &) = delete;

    Metric metric() const { return metric_; }
    bool euclidean() const { return metric_ == Metric::euclidean; }
    const Points &points() const { return points_; }
    const Points &images() const { return images_; }
    /// A power of two that scales points to a size of about 1; 1 unless the metric is
    /// `inner_product`.
    double unit() const { return unit_; }
    /// The largest |x|, times unit(), under the metric `inner_product`.
    double length() const { return length_; }
    /// The height of a row, where coordinates of images are multiplied by `scale`.
    double height(std::int64_t row, double scale) const {
        return heights_.empty() ? 0 : heights_[row] * (scale / unit_) * (scale / unit_);
    }
    /// D of a point exceeds D of a point that is not nearer by no more than this.
    double margin(double scale) const { return margin_ * (scale / unit_) * (scale / unit_); }
    /// The size of each row, under the metric `cosine`.
    const std::vector<detail::PointSize> &sizes() const { return sizes_; }
    /// Rows of zeros, under the metric `cosine`.
    const std::vector<std::int64_t> &zeros() const { return zeros_; }
    /// Rows by ascending height. Under the metric `inner_product`, points of great length come
    /// first, which are near to most queries.
    std::vector<std::int64_t> by_height() const {
        std::vector<std::int64_t> order = identity_order(points_.rows());
        if (!heights_.empty())
            std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
                return heights_[a] < heights_[b];
            });
        return order;
    }
    /// The distance of settle() from a query of zeros.
    double from_zero(std::int64_t row) const {
        return metric_ == Metric::cosine && sizes_[row].square > 0 ? 1 : 0;
    }
    /// The frame of the images of the points and of some queries.
    Frame frame_with(const Points &queries) const {
        Frame frame = frame_of(images_, queries);
        if (!euclidean()) // lengths and heights have the magnitude of the frame
            frame.exact_scale = frame.scale;
        return frame;
    }
    /// Bytes in addition to the points.
    std::size_t bytes() const {
        return sizeof(double) * heights_.size() + sizeof(detail::PointSize) * sizes_.size() +
               (held_ ? held_->bytes() : 0);
    }

  private:
    /// Bound of the rounding errors of two values and the D of their images, for images of
    /// length 1.
    double rounding() const {
        return 32 * std::numeric_limits<double>::epsilon() *
               static_cast<double>(points_.cols() + 8);
    }

    void set_directions(const Control &control) {
        const auto n = static_cast<std::size_t>(points_.rows());
        held_ = std::make_unique<detail::Images>(points_, points_.is_double());
        sizes_.resize(n);
        detail::each_row(points_, control, [&](Index i) {
            sizes_[i] = detail::PointSize(points_, i);
            const double square = sizes_[i].square;
            held_->set(points_, i, sizes_[i].unit(), square > 0 ? 1 / std::sqrt(square) : 0);
        });
        for (std::size_t i = 0; i < n; ++i)
            if (sizes_[i].square == 0)
                zeros_.push_back(static_cast<std::int64_t>(i));
        heights_.resize(zeros_.empty() ? 0 : n);
        for (const std::int64_t row : zeros_)
            heights_[row] = 1;
        images_ = held_->points();
        margin_ = rounding();
        if (!points_.is_double())
            margin_ += 16 * static_cast<double>(std::numeric_limits<float>::epsilon());
    }

    void set_lengths(const Control &control) {
        unit_ = magnitude_scale(Extremes(points_).magnitude());
        heights_.resize(static_cast<std::size_t>(points_.rows()));
        detail::each_row(points_, control, [&](Index i) {
            points_.visit([&](auto v) {
                for (Index k = 0; k < v.cols; ++k) {
                    const double x = static_cast<double>(v.row(i)[k]) * unit_;
                    heights_[i] += x * x;
                }
            });
        });
        double most = 0;
        for (const double square : heights_)
            most = std::max(most, square);
        for (double &height : heights_)
            height = most - height;
        length_ = std::sqrt(most);
        // Images of queries may underflow.
        const double least = points_.is_double()
                                 ? std::numeric_limits<double>::denorm_min()
                                 : static_cast<double>(std::numeric_limits<float>::denorm_min());
        margin_ =
            rounding() * most + 8 * length_ * static_cast<double>(points_.cols()) * (least * unit_);
    }

    Metric metric_;
    Points points_, images_;
    std::unique_ptr<detail::Images> held_;
    std::vector<double> heights_; ///< times unit_^2; empty for zeros
    std::vector<detail::PointSize> sizes_;
    std::vector<std::int64_t> zeros_;
    double unit_ = 1, margin_ = 0, length_ = 0;
};

/// Queries in the space of a database. Refers to the points of both.
class Queries {
  public:
    /// Queries of a Euclidean space, which are their own images.
    explicit Queries(const Points &queries) : given_(queries), images_(queries) {}

    Queries(const Space &space, const Points &queries, const Control &control)
        : given_(queries), images_(queries) {
        if (space.euclidean())
            return;
        const bool products = space.metric() == Metric::inner_product;
        outer_ = products ? -std::ilogb(space.unit()) : 0;
        products_ = products;
        held_ = std::make_unique<detail::Images>(queries,
                                                 queries.is_double() || space.points().is_double());
        sizes_.resize(static_cast<std::size_t>(queries.rows()));
        detail::each_row(queries, control, [&](Index i) {
            const detail::PointSize size = sizes_[i] = detail::PointSize(queries, i);
            const double length = std::sqrt(size.square);
            if (length == 0 || (products && space.length() == 0))
                held_->set_axis(i, products ? space.length() / space.unit() : 1);
            else if (products) // at most the length of the longest point, at least its half
                held_->set(queries, i, size.unit(),
                           std::ldexp(1.0, std::ilogb(space.length() / length) + outer_));
            else
                held_->set(queries, i, size.unit(), 1 / length);
        });
        images_ = held_->points();
        for (Index i = 0; i < queries.rows(); ++i)
            if (sizes_[i].square == 0)
                zeros_.push_back(i);
    }

    Index rows() const { return given_.rows(); }
    Index cols() const { return given_.cols(); }
    const Points &images() const { return images_; }
    /// Queries of zeros, whose images are arbitrary; empty for a Euclidean space.
    const std::vector<Index> &zeros() const { return zeros_; }

    bool is_zero(Index query) const { return !sizes_.empty() && sizes_[query].square == 0; }
    /// The D of points at a distance, where coordinates of images are multiplied by `scale`.
    double reach(Index query, const Space &space, double distance, double scale) const {
        if (space.euclidean())
            return distance * scale * (distance * scale);
        if (!products_)
            return 2 * std::min(distance, 2.0) * scale * scale;
        const double length = std::sqrt(sizes_[query].square), most = space.length();
        if (most == 0)
            return distance >= 0 ? std::numeric_limits<double>::infinity() : 0;
        const double share = std::ldexp(distance, -sizes_[query].exponent - outer_) / length / most;
        const double own = std::ldexp(length, std::ilogb(most / length));
        const double square = own * own + most * most + 2 * own * most * std::min(share, 2.0);
        return std::max(0.0, square) * (scale / space.unit()) * (scale / space.unit());
    }

    /// Reads a query as settle() needs it.
    void read(Index query, std::vector<double> &row) const {
        row.resize(static_cast<std::size_t>(cols()));
        given_.read_row(query, row.data());
        if (!sizes_.empty())
            for (double &x : row)
                x *= sizes_[query].unit();
    }
    /// The sum of squares of a query that was read.
    double square(Index query) const { return sizes_[query].square; }
    /// The value of the metric, unless it is Euclidean, for a distance of settle().
    double value(Index query, double distance) const {
        return products_ ? std::ldexp(distance, sizes_[query].exponent + outer_) : distance;
    }

  private:
    Points given_, images_;
    std::unique_ptr<detail::Images> held_;
    std::vector<detail::PointSize> sizes_; ///< empty for a Euclidean space
    std::vector<Index> zeros_;
    bool products_ = false;
    int outer_ = 0; ///< exponent of the size of the points
};

METRICFAST_NAMESPACE_END
