/// Exact distances of a few points to a query, and selection of the nearest.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "metricfast/search/candidates.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Sets the exact distances of points to a query, interleaving the sums of several points.
/// \tparam Point has an `index` into the database and a `distance`.
template <class Point>
void set_distances(const double *query, const Points &database, double scale, Point *points,
                   std::size_t size) {
    database.visit([&](auto v) {
        constexpr std::size_t lanes = 4;
        for (std::size_t i = 0; i < size; ++i)
            prefetch(v.row(static_cast<Index>(points[i].index)), v.cols);
        for (std::size_t first = 0; first < size; first += lanes) {
            const std::size_t count = std::min(lanes, size - first);
            const decltype(v.row(0)) rows[lanes] = {
                v.row(static_cast<Index>(points[first].index)),
                v.row(static_cast<Index>(points[first + (count > 1 ? 1 : 0)].index)),
                v.row(static_cast<Index>(points[first + (count > 2 ? 2 : 0)].index)),
                v.row(static_cast<Index>(points[first + (count > 3 ? 3 : 0)].index))};
            double sums[lanes] = {};
            for (Index k = 0; k < v.cols; ++k)
                for (std::size_t l = 0; l < lanes; ++l) {
                    const double d = (query[k] - static_cast<double>(rows[l][k])) * scale;
                    sums[l] += d * d;
                }
            for (std::size_t l = 0; l < count; ++l)
                points[first + l].distance = sums[l];
        }
    });
}

/// Approximate squared distances: summed in any order, and in float for float points.
class RoughDistances {
  public:
    RoughDistances(const Points &queries, const Points &database, double scale)
        : queries_(queries), database_(database), scale_(scale) {
        const bool single = !queries.is_double() && !database.is_double();
        const auto u = single ? static_cast<double>(std::numeric_limits<float>::epsilon())
                              : std::numeric_limits<double>::epsilon();
        const auto least =
            single ? static_cast<double>(std::numeric_limits<float>::min()) * scale * scale
                   : std::numeric_limits<double>::min();
        relative_ = 4 * static_cast<double>(database.cols() + 16) * u;
        absolute_ = 4 * static_cast<double>(database.cols() + 16) * least;
    }

    double operator()(Index query, std::int64_t row) const {
        return queries_.visit([&](auto q) {
            return database_.visit([&](auto v) {
                const auto *a = q.row(query);
                const auto *b = v.row(static_cast<Index>(row));
                if constexpr (std::is_same_v<decltype(a), const float *> &&
                              std::is_same_v<decltype(a), decltype(b)>)
                    return static_cast<double>(squared_distance(a, b, v.cols)) * scale_ * scale_;
                else
                    return in_double(a, b, v.cols);
            });
        });
    }

    void fetch(std::int64_t row) const {
        database_.visit([&](auto v) { prefetch(v.row(static_cast<Index>(row)), v.cols); });
    }

    /// Upper bound of the exact distance of points with a rough distance of at most d.
    double above(double d) const { return d * (1 + relative_) + absolute_; }

  private:
    template <class A, class B> double in_double(const A *a, const B *b, Index count) const {
        constexpr Index lanes = 16;
        double sums[lanes] = {};
        Index k = 0;
        const auto add = [&](Index l) {
            const double d =
                (static_cast<double>(a[k + l]) - static_cast<double>(b[k + l])) * scale_;
            sums[l] += d * d;
        };
        for (; k + lanes <= count; k += lanes)
            for (Index l = 0; l < lanes; ++l)
                add(l);
        for (Index l = 0; k + l < count; ++l)
            add(l);
        double sum = 0;
        for (const double part : sums)
            sum += part;
        return sum;
    }

    Points queries_;
    Points database_;
    double scale_;
    double relative_, absolute_;
};

/// Radix sort of many neighbours by the bits of their distances.
/// \param other reusable memory.
inline void sort_neighbors(std::vector<Neighbor> &neighbors, std::vector<Neighbor> &other) {
    constexpr int bits = 11, digits = 6; // without the sign bit
    constexpr std::size_t values = std::size_t(1) << bits;
    if (neighbors.size() < 256) {
        std::sort(neighbors.begin(), neighbors.end());
        return;
    }
    const auto key = [](const Neighbor &n) {
        std::uint64_t whole;
        std::memcpy(&whole, &n.distance, sizeof whole);
        return whole;
    };
    std::vector<std::array<std::uint32_t, values>> counts(digits);
    for (auto &count : counts)
        count.fill(0);
    for (const Neighbor &n : neighbors)
        for (int digit = 0; digit < digits; ++digit)
            ++counts[digit][key(n) >> (bits * digit) & (values - 1)];
    other.resize(neighbors.size());
    for (int digit = 0; digit < digits; ++digit) {
        auto &count = counts[digit];
        if (count[key(neighbors[0]) >> (bits * digit) & (values - 1)] == neighbors.size())
            continue;
        std::uint32_t before = 0;
        for (std::uint32_t &one : count)
            before += std::exchange(one, before);
        for (const Neighbor &n : neighbors)
            other[count[key(n) >> (bits * digit) & (values - 1)]++] = n;
        neighbors.swap(other);
    }
    // The sort is stable.
    for (auto first = neighbors.begin(); first != neighbors.end();) {
        auto last = first + 1;
        while (last != neighbors.end() && last->distance == first->distance)
            ++last;
        std::sort(first, last);
        first = last;
    }
}

/// Keeps the k nearest, in order.
inline void keep_nearest(std::vector<Neighbor> &neighbors, Index k) {
    if (static_cast<Index>(neighbors.size()) > k) {
        std::nth_element(neighbors.begin(), neighbors.begin() + k, neighbors.end());
        neighbors.resize(static_cast<std::size_t>(k));
    }
    std::sort(neighbors.begin(), neighbors.end());
}

/// Keeps the k nearest of some points, in order, after replacing their distances by exact ones.
/// \param row reusable memory.
inline void rank_nearest(const Points &queries, Index query, const Points &database, double scale,
                         Index k, std::vector<double> &row, std::vector<Neighbor> &points) {
    if (static_cast<Index>(points.size()) > k + 2) {
        const RoughDistances rough(queries, database, scale);
        constexpr std::size_t ahead = 8;
        for (std::size_t i = 0; i < points.size(); ++i) {
            if (i + ahead < points.size())
                rough.fetch(points[i + ahead].index);
            points[i].distance = rough(query, points[i].index);
        }
        std::nth_element(points.begin(), points.begin() + k - 1, points.end());
        const double last =
            rough.above(rough.above(points[static_cast<std::size_t>(k - 1)].distance));
        points.erase(std::remove_if(points.begin() + k, points.end(),
                                    [&](const Neighbor &p) { return p.distance > last; }),
                     points.end());
    }
    row.resize(static_cast<std::size_t>(queries.cols()));
    queries.read_row(query, row.data());
    set_distances(row.data(), database, scale, points.data(), points.size());
    keep_nearest(points, k);
}

METRICFAST_NAMESPACE_END
