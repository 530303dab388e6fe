/// Distances between continuous labels, row by row.
#pragma once

#include <algorithm>
#include <cmath>

#include "metricfast/types.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Of labels with one or more dimensions, or read from a matrix. Losses that use them do not
/// change with their unit, so each row is divided by its largest.
class LabelDistances {
  public:
    enum class Metric { sqeuclidean, euclidean, cityblock };

    LabelDistances(Metric metric, View<const double> queries, View<const double> database)
        : metric_(metric), queries_(queries), database_(database) {
        require(queries.cols == database.cols, "y and y_database differ in width");
    }
    /// \param distances (queries x database), from 0 on.
    explicit LabelDistances(View<const double> distances) : given_(distances) {}

    void check(Index queries, Index database) const {
        const bool fits = given_.data != nullptr
                              ? given_.rows == queries && given_.cols == database
                              : queries_.rows == queries && database_.rows == database;
        require(fits, "there must be labels for each query and each database point");
    }

    /// Distances of anchor i to all database labels; the excluded one becomes 0. All are 0 where
    /// all labels are tied.
    void fill(Index i, Index excluded, std::vector<double> &out) const {
        const Index m = given_.data != nullptr ? given_.cols : database_.rows;
        out.assign(static_cast<std::size_t>(m), 0.0);
        if (given_.data != nullptr)
            std::copy(given_.row(i), given_.row(i) + m, out.begin());
        else
            for (Index c = 0; c < queries_.cols; ++c)
                add(c, queries_.row(i)[c], out);
        if (excluded >= 0)
            out[excluded] = 0.0;
        Eigen::Map<Eigen::ArrayXd> t(out.data(), m);
        const double largest = t.maxCoeff();
        require(std::isfinite(largest), "distances between labels overflow: divide the labels");
        if (largest > 0)
            t /= largest;
        if (given_.data == nullptr && metric_ == Metric::euclidean)
            t = t.sqrt();
    }

  private:
    void add(Index c, double y, std::vector<double> &out) const {
        const double *labels = database_.data + c;
        const Index m = database_.rows, stride = database_.stride;
        if (metric_ == Metric::cityblock)
            for (Index j = 0; j < m; ++j)
                out[j] += std::abs(y - labels[j * stride]);
        else
            for (Index j = 0; j < m; ++j) {
                const double d = y - labels[j * stride];
                out[j] += d * d;
            }
    }

    Metric metric_ = Metric::sqeuclidean;
    View<const double> queries_;
    View<const double> database_;
    View<const double> given_;
};

METRICFAST_NAMESPACE_END
