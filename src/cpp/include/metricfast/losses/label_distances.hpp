/// Distances between continuous labels, row by row.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "metricfast/losses/types.hpp"
#include "metricfast/simd/simd.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Distances of labels with one or more dimensions, or read from a matrix. Losses do not depend on
/// their unit, so each row is multiplied by a power of 2 that makes its largest distance about 1.
/// Distances count as ties if they differ by at most `ulps` units in the last place of the largest
/// label in each dimension, or of the given distances.
class LabelDistances {
  public:
    /// Database labels: distance from the anchor's, column.
    using Order = std::vector<std::pair<double, Index>>;

    explicit LabelDistances(const LabelPairs &labels)
        : LabelDistances(labels.metric == LabelMetric::precomputed
                             ? LabelDistances(labels.queries)
                             : LabelDistances(labels.metric, labels.queries, labels.database)) {}

    LabelDistances(LabelMetric metric, View<const double> queries, View<const double> database)
        : metric_(metric), queries_(queries), database_(database) {
        require(queries.cols == database.cols, "y and y_database differ in width");
        for (const auto &labels : {queries, database}) {
            require_finite(Points(labels), "labels must be finite");
            for (Index i = 0; i < labels.rows; ++i)
                for (Index c = 0; c < labels.cols; ++c)
                    rounding_ = std::max(rounding_, std::abs(labels.row(i)[c]));
        }
        rounding_ *= unit * static_cast<double>(queries.cols);
        columns_.setZero(database.rows + Vec<double>::width, database.cols);
        columns_.topRows(database.rows) = eigen(database);
    }
    /// \param distances (queries x database), finite and not negative.
    explicit LabelDistances(View<const double> distances) : given_(distances) {
        for (Index i = 0; i < distances.rows; ++i)
            require_weights(Weights(distances.row(i), distances.cols),
                            "distances between labels must be finite and not negative");
    }

    void check(Index queries, Index database) const {
        const bool fits = given_.data != nullptr
                              ? given_.rows == queries && given_.cols == database
                              : queries_.rows == queries && database_.rows == database;
        require(fits, "there must be labels for each query and each database point");
    }

    struct Filled {
        double rounding = 0; ///< error of a difference of two distances, before squaring
        double sum = 0;      ///< of all distances
    };

    /// Distances of anchor i to all database labels; the excluded one becomes 0. All are 0 if all
    /// labels are tied.
    Filled fill(Index i, Index excluded, std::vector<double> &out) const {
        using V = Vec<double>;
        const bool given = given_.data != nullptr;
        const Index m = given ? given_.cols : database_.rows;
        out.resize(static_cast<std::size_t>(m));
        if (given)
            std::copy(given_.row(i), given_.row(i) + m, out.begin());
        else
            add_up(queries_.row(i), out);
        if (excluded >= 0)
            out[excluded] = 0.0;
        const double largest = m > 0 ? Eigen::Map<Eigen::ArrayXd>(out.data(), m).maxCoeff() : 0.0;
        require(std::isfinite(largest), "distances between labels overflow: divide the labels");
        if (!(largest > 0))
            return {};
        const double scale = std::ldexp(1.0, std::min(-std::ilogb(largest), 1023));
        const bool squared = metric_ != LabelMetric::cityblock;
        const double rounding = given ? 0 : rounding_ * (squared ? std::sqrt(scale) : scale);
        const V factor = V::broadcast(scale);
        const V limit = V::broadcast(squared ? rounding * rounding : rounding);
        const bool roots = !given && metric_ == LabelMetric::euclidean;
        const double sum = detail::change_and_sum(out.data(), m, [&](V x, Index) METRICFAST_INLINE {
            x = x * factor;
            x = where_less(limit, x, x);
            if (roots)
                x = sqrt(x);
            return std::make_pair(x, x);
        });
        return {rounding, sum};
    }

    /// All database labels but the excluded one, nearest first; ties have the same distance, and
    /// are in the order of their columns.
    Order order(Index i, Index excluded) const {
        std::vector<double> distances;
        const double rounding = fill(i, excluded, distances).rounding;
        Order result;
        for (std::size_t j = 0; j < distances.size(); ++j)
            if (static_cast<Index>(j) != excluded)
                result.emplace_back(distances[j], static_cast<Index>(j));
        std::sort(result.begin(), result.end());
        for (auto begin = result.begin(), end = begin; begin != result.end(); begin = end) {
            double last = begin->first;
            for (end = begin + 1; end != result.end() && tied(last, end->first, rounding); ++end)
                last = std::exchange(end->first, begin->first);
            if (last != begin->first)
                std::sort(begin, end);
        }
        return result;
    }

  private:
    static constexpr double ulps = 8, unit = ulps * std::numeric_limits<double>::epsilon();

    /// Returns whether distances a <= b differ only by rounding.
    bool tied(double a, double b, double rounding) const {
        if (given_.data != nullptr)
            return b - a <= unit * b;
        if (metric_ != LabelMetric::sqeuclidean)
            return b - a <= rounding;
        return b - a <= 2 * rounding && b - a <= rounding * (std::sqrt(a) + std::sqrt(b));
    }

    /// Sums over the dimensions of labels.
    void add_up(const double *y, std::vector<double> &out) const {
        using V = Vec<double>;
        const bool absolute = metric_ == LabelMetric::cityblock;
        const V zero = V::broadcast(0);
        detail::for_registers(
            out.data(), static_cast<Index>(out.size()), [&](V, Index j) METRICFAST_INLINE {
                V sum = zero;
                for (Index c = 0; c < columns_.cols(); ++c) {
                    const V d = V::broadcast(y[c]) - V::load(columns_.col(c).data() + j);
                    sum = sum + (absolute ? max(d, zero - d) : d * d);
                }
                return sum;
            });
    }

    LabelMetric metric_ = LabelMetric::sqeuclidean;
    View<const double> queries_;
    View<const double> database_;
    View<const double> given_;
    Eigen::MatrixXd columns_; ///< a column for each label dimension, padded
    double rounding_ = 0;     ///< rounding error of plain distances
};

METRICFAST_NAMESPACE_END
