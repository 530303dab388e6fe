/// Exact distances of a few points to a query, and selection of the nearest.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "metricfast/search/candidates.hpp"
#include "metricfast/search/space.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Sets the distances of points to sums over coordinates, in index order, interleaving several.
/// \tparam Point has an `index` into the database and a `distance`.
/// \param term (query coordinate, database coordinate) -> summand.
template <class Point, class Term>
void set_sums(const double *query, const Points &database, Point *points, std::size_t size,
              Term &&term) {
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
                for (std::size_t l = 0; l < lanes; ++l)
                    sums[l] += term(query[k], static_cast<double>(rows[l][k]));
            for (std::size_t l = 0; l < count; ++l)
                points[first + l].distance = sums[l];
        }
    });
}

/// Sets the exact squared distances of points to a query.
template <class Point>
void set_distances(const double *query, const Points &database, double scale, Point *points,
                   std::size_t size) {
    set_sums(query, database, points, size, [scale](double q, double x) METRICFAST_INLINE {
        const double d = (q - x) * scale;
        return d * d;
    });
}

/// Sets the exact distances of points to a query: squared and scaled Euclidean ones, or those that
/// Queries::value() converts.
/// \param row the query, as Queries::read() returns it.
template <class Point>
void settle(const Queries &queries, Index query, const double *row, const Space &space,
            double scale, Point *points, std::size_t size) {
    if (space.euclidean())
        return set_distances(row, space.points(), scale, points, size);
    const bool cosine = space.metric() == Metric::cosine;
    const auto add_products = [&](Point *from, std::size_t count, double unit) {
        set_sums(row, space.points(), from, count,
                 [unit](double q, double x) METRICFAST_INLINE { return q * (x * unit); });
    };
    add_products(points, size, space.unit());
    for (std::size_t i = 0; i < size; ++i) {
        double &distance = points[i].distance;
        if (!cosine) {
            distance = 0.0 - distance;
            continue;
        }
        constexpr int ordinary = 900; // products of coordinates do not overflow or underflow
        const detail::PointSize &size_of_point = space.sizes()[points[i].index];
        if (std::abs(size_of_point.exponent) > ordinary)
            add_products(points + i, 1, size_of_point.unit());
        else
            distance *= size_of_point.unit();
        const double own = queries.square(query), other = size_of_point.square;
        const double lengths = std::sqrt(own * other);
        distance = lengths > 0 ? std::max(0.0, std::min(2.0, (lengths - distance) / lengths))
                               : (own == other ? 0 : 1);
    }
}

/// Approximate squared distances: summed in any order, and in float for float points.
class RoughDistances {
  public:
    RoughDistances(const Queries &queries, const Space &space, double scale)
        : queries_(queries.images()), database_(space.images()), space_(space), scale_(scale) {
        const Points &database = database_;
        const bool single = !queries_.is_double() && !database.is_double();
        const auto u = single ? static_cast<double>(std::numeric_limits<float>::epsilon())
                              : std::numeric_limits<double>::epsilon();
        const auto least =
            single ? static_cast<double>(std::numeric_limits<float>::min()) * scale * scale
                   : std::numeric_limits<double>::min();
        relative_ = 4 * static_cast<double>(database.cols() + 16) * u;
        absolute_ = 4 * static_cast<double>(database.cols() + 16) * least + space.margin(scale);
    }

    double operator()(Index query, std::int64_t row) const {
        return of_images(query, row) + space_.height(row, scale_);
    }

    void fetch(std::int64_t row) const {
        database_.visit([&](auto v) { prefetch(v.row(static_cast<Index>(row)), v.cols); });
    }

    /// Upper bound of D for all points that are at least as near as a point with this rough D.
    double above(double d) const { return d * (1 + relative_) + absolute_; }

  private:
    double of_images(Index query, std::int64_t row) const {
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
    const Space &space_;
    double scale_;
    double relative_, absolute_;
};

/// Radix sort of many neighbours by the bits of their distances.
/// \param other reusable memory.
inline void sort_neighbors(std::vector<Neighbor> &neighbors, std::vector<Neighbor> &other) {
    constexpr int bits = 11, digits = 6;
    constexpr std::size_t values = std::size_t(1) << bits;
    if (neighbors.size() < 256) {
        std::sort(neighbors.begin(), neighbors.end());
        return;
    }
    const auto key = [](const Neighbor &n) {
        const double distance = n.distance + 0.0; // -0 is 0
        std::uint64_t whole;
        std::memcpy(&whole, &distance, sizeof whole);
        constexpr std::uint64_t sign = std::uint64_t(1) << 63;
        return (whole & sign) != 0 ? ~whole : whole | sign;
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
inline void rank_nearest(const Queries &queries, Index query, const Space &space, double scale,
                         Index k, std::vector<double> &row, std::vector<Neighbor> &points) {
    if (static_cast<Index>(points.size()) > k + 2) {
        const RoughDistances rough(queries, space, scale);
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
    queries.read(query, row);
    settle(queries, query, row.data(), space, scale, points.data(), points.size());
    keep_nearest(points, k);
}

METRICFAST_NAMESPACE_END
