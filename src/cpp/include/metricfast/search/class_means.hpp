/// Means of classes, to order classes by their distance from queries.
#pragma once

#include <algorithm>

#include "metricfast/simd/packing.hpp"

METRICFAST_NAMESPACE_BEGIN

class ClassMeans {
  public:
    ClassMeans() = default;
    /// \param labels of the points, in [0, classes).
    ClassMeans(const Points &points, const Frame &frame, Codes labels, Index classes)
        : frame_(frame), means_(RowMatrix<double>::Zero(classes, points.cols())) {
        std::vector<double> counts(static_cast<std::size_t>(classes), 0.0);
        for (Index i = 0; i < points.rows(); ++i) {
            add(points, i, means_, static_cast<Index>(labels[i]));
            ++counts[labels[i]];
        }
        for (Index s = 0; s < classes; ++s)
            means_.row(s) /= std::max(1.0, counts[s]);
    }

    /// The classes, ordered by the distance of their mean from the mean of some queries.
    std::vector<Index> near_to_far(const Points &queries, const std::int64_t *ids,
                                   Index count) const {
        RowMatrix<double> mean = RowMatrix<double>::Zero(1, queries.cols());
        for (Index i = 0; i < count; ++i)
            add(queries, static_cast<Index>(ids[i]), mean, 0);
        mean /= static_cast<double>(count);
        std::vector<std::pair<double, Index>> found;
        for (Index s = 0; s < means_.rows(); ++s)
            found.emplace_back((means_.row(s) - mean.row(0)).squaredNorm(), s);
        std::sort(found.begin(), found.end());
        std::vector<Index> result;
        for (const auto &entry : found)
            result.push_back(entry.second);
        return result;
    }

  private:
    void add(const Points &points, Index i, RowMatrix<double> &sums, Index s) const {
        points.visit([&](auto v) {
            for (Index c = 0; c < v.cols; ++c)
                sums(s, c) += frame_.apply(static_cast<double>(v.row(i)[c]), c);
        });
    }

    Frame frame_;
    RowMatrix<double> means_;
};

METRICFAST_NAMESPACE_END
