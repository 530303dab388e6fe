/// Rows with few coordinates that are not zero.
#pragma once

#include <algorithm>

#include "metricfast/core/work.hpp"
#include "metricfast/search/ranking.hpp"

METRICFAST_NAMESPACE_BEGIN

/// The coordinates of points that are not zero. Others do not change sums of products, and sums of
/// squared differences only where the other point is not zero.
class SparseRows {
  public:
    SparseRows(const Points &points, const Control &control) {
        constexpr Index share = 8; // with more coordinates, sums over all are faster
        const Index n = points.rows(), most = n * points.cols() / share;
        points.visit([&](auto v) {
            starts_.push_back(0);
            for (Index i = 0; i < n; ++i) {
                if (i % 1024 == 0 && control.keep_going && !control.keep_going())
                    throw Cancelled();
                for (Index k = 0; k < v.cols; ++k)
                    if (v.row(i)[k] != 0)
                        entries_.push_back(
                            {static_cast<std::int32_t>(k), static_cast<double>(v.row(i)[k])});
                if (static_cast<Index>(entries_.size()) > most) {
                    starts_.clear();
                    entries_ = {};
                    return;
                }
                starts_.push_back(entries_.size());
            }
        });
    }

    bool serves() const { return !starts_.empty(); }

    /// Sets the distances of points to a query, as set_distances() does.
    void set_distances(const double *query, Index depth, double scale, Neighbor *points,
                       std::size_t size) const {
        std::vector<Entry> own;
        for (Index k = 0; k < depth; ++k)
            if (query[k] != 0)
                own.push_back({static_cast<std::int32_t>(k), query[k]});
        const Entry *const end = own.data() + own.size();
        for (std::size_t i = 0; i < size; ++i) {
            const auto row = static_cast<std::size_t>(points[i].index);
            const Entry *a = own.data(), *b = entries_.data() + starts_[row],
                        *const last = entries_.data() + starts_[row + 1];
            double sum = 0;
            const auto add = [&](double difference) {
                const double d = difference * scale;
                sum += d * d;
            };
            while (a != end || b != last)
                if (b == last || (a != end && a->column < b->column))
                    add((a++)->value);
                else if (a == end || b->column < a->column)
                    add(-(b++)->value);
                else
                    add((a++)->value - (b++)->value);
            points[i].distance = sum;
        }
    }

  private:
    struct Entry {
        std::int32_t column;
        double value;
    };
    std::vector<std::size_t> starts_;
    std::vector<Entry> entries_;
};

METRICFAST_NAMESPACE_END
