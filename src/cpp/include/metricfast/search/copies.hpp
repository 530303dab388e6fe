/// Duplicate rows: a search processes one of them, and results contain all.
#pragma once

#include <algorithm>
#include <cstring>

#include "metricfast/simd/packing.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Groups of equal rows in a segment. The lowest row represents its group.
class Copies {
  public:
    Copies() = default;

    /// \param order rows, in segments that begin at `segments`, ascending in each. Only the first
    ///   row of each group remains.
    Copies(const Points &points, std::vector<std::int64_t> &order, std::vector<Index> &segments,
           const Control &control)
        : next_(static_cast<std::size_t>(points.rows()), -1) {
        std::vector<Hashed> hashed(order.size());
        constexpr Index block = 1024;
        const Index n = static_cast<Index>(order.size());
        parallel_blocks((n + block - 1) / block, control, [&](Index b, Worker &) {
            for (Index o = b * block; o < std::min(n, (b + 1) * block); ++o)
                hashed[o] = {hash(points, order[o]), order[o]};
        });
        std::vector<char> later(next_.size(), 0);
        std::vector<std::int64_t> first;
        for (std::size_t s = 0; s < segments.size(); ++s) {
            const Index begin = segments[s], end = s + 1 < segments.size() ? segments[s + 1] : n;
            link(points, hashed.data() + begin, hashed.data() + end, later);
            segments[s] = static_cast<Index>(first.size());
            for (Index o = begin; o < end; ++o)
                if (!later[order[o]])
                    first.push_back(order[o]);
        }
        order.swap(first);
    }

    /// Returns the lowest row of a group for which allowed(row) is true, or -1.
    template <class Allowed> std::int64_t first(std::int64_t group, const Allowed &allowed) const {
        while (group >= 0 && !allowed(group))
            group = next(group);
        return group;
    }

    /// The number of allowed rows of a group, at most `most`.
    template <class Allowed>
    Index count(std::int64_t group, const Allowed &allowed, Index most) const {
        Index found = 0;
        for (std::int64_t r = group; r >= 0 && found < most; r = next(r))
            found += allowed(r) ? 1 : 0;
        return found;
    }

    /// Adds the allowed copies of points[from], points[from + 1], ..., which are the first rows of
    /// their groups, so that each point appears up to `most` times.
    template <class Point, class Allowed>
    void expand(std::vector<Point> &points, std::size_t from, const Allowed &allowed,
                Index most) const {
        for (std::size_t g = from, end = points.size(); g < end && !next_.empty(); ++g) {
            Point copy = points[g];
            Index found = 1;
            while (found < most && (copy.index = next(copy.index)) >= 0)
                if (allowed(copy.index)) {
                    points.push_back(copy);
                    ++found;
                }
        }
    }

  private:
    struct Hashed {
        std::uint64_t hash;
        std::int64_t row;
        friend bool operator<(const Hashed &a, const Hashed &b) {
            return a.hash < b.hash || (a.hash == b.hash && a.row < b.row);
        }
    };

    std::int64_t next(std::int64_t row) const { return next_.empty() ? -1 : next_[row]; }

    static std::uint64_t hash(const Points &points, std::int64_t row) {
        return points.visit([&](auto v) {
            const auto *x = v.row(static_cast<Index>(row));
            std::uint64_t h = 0;
            for (Index k = 0; k < v.cols; ++k) {
                const double value = static_cast<double>(x[k]) + 0.0; // -0 is 0
                std::uint64_t bits;
                std::memcpy(&bits, &value, sizeof(bits));
                h = (h ^ bits) * 0x9E3779B97F4A7C15u;
                h ^= h >> 32;
            }
            return h;
        });
    }

    static bool equal(const Points &points, std::int64_t a, std::int64_t b) {
        return points.visit([&](auto v) {
            const auto *x = v.row(static_cast<Index>(a)), *y = v.row(static_cast<Index>(b));
            return std::equal(x, x + v.cols, y);
        });
    }

    /// Links equal rows of a segment. Hash collisions may split a group into several.
    void link(const Points &points, Hashed *begin, Hashed *end, std::vector<char> &later) {
        std::sort(begin, end);
        for (Hashed *h = begin; h != end && h + 1 != end; ++h)
            if (h[0].hash == h[1].hash && equal(points, h[0].row, h[1].row)) {
                next_[h[0].row] = h[1].row;
                later[h[1].row] = 1;
            }
    }

    std::vector<std::int64_t> next_; ///< next row of the group, or -1; may be empty
};

METRICFAST_NAMESPACE_END
