/// Lower and upper bounds of all squared distances, tested against a threshold per query while a
/// tile is still in registers. Few points pass; rejected points are certainly too far.
///
/// For a query a and a database point b, both centred and rounded to S, the micro-kernel computes
///   c = n - 2 a.b,  n = |b|^2 (1 - 2e) - t,
/// with e = (p + 8) u (in double (4p + 16) u), u the unit roundoff of S, and t an allowance for
/// underflow. All roundings
/// together are below e (|b|^2 + 2|a||b|) <= e (|a|^2 + 2|b|^2), so
///   c - e|a|^2 <= D - |a|^2 <= c + e|a|^2 + 4e|b|^2 + 2t.
/// If b has a height in its space, |b|^2 stands for the sum of both, which D includes.
#pragma once

#include "metricfast/search/space.hpp"
#include "metricfast/simd/packing.hpp"

METRICFAST_NAMESPACE_BEGIN

/// A database prepared for the bounds.
template <class S> class ScreenedDatabase {
  public:
    static constexpr int cols = TileShape<S>::cols;

    ScreenedDatabase(const Points &points, const Frame &frame, std::vector<std::int64_t> order,
                     std::vector<Index> segments, const Control &control)
        : ScreenedDatabase(Space(points), frame, std::move(order), std::move(segments), control) {}

    ScreenedDatabase(const Space &space, const Frame &frame, std::vector<std::int64_t> order,
                     std::vector<Index> segments, const Control &control)
        : packed_(space.images(), frame, std::move(order), std::move(segments), control),
          margin_(space.margin(frame.scale)) {
        const double u = static_cast<double>(std::numeric_limits<S>::epsilon()) / 2;
        // In double the norms and the exact distances themselves round as much as the products do.
        const Index roundings =
            std::is_same_v<S, double> ? 4 * packed_.depth() + 16 : packed_.depth() + 8;
        error_ = 1.01 * static_cast<double>(roundings) * u;
        tiny_ = static_cast<double>(packed_.depth() + 8) *
                static_cast<double>(std::numeric_limits<S>::min());
        lower_.resize(static_cast<std::size_t>(packed_.positions()));
        for (Index j = 0; j < packed_.positions(); ++j) {
            if (packed_.id(j) >= 0)
                packed_.raise(j, space.height(packed_.id(j), frame.scale));
            const double n = packed_.norm(j) * (1 - 2 * error_) - tiny_;
            lower_[j] = std::nextafter(static_cast<S>(n), -std::numeric_limits<S>::infinity());
            if (packed_.id(j) < 0)
                lower_[j] = std::numeric_limits<S>::infinity();
            else
                most_slack_ = std::max(most_slack_, slack(j));
        }
    }

    const PackedDatabase<S> &packed() const { return packed_; }
    double error() const { return error_; }
    /// The allowance for underflow, t.
    double tiny() const { return tiny_; }
    /// The margin of the space, in the frame.
    double margin() const { return margin_; }

    /// Distance between the two bounds, without the query's share 2 e |a|^2. The upper one also
    /// holds for points whose value is lower.
    double slack(Index position) const {
        return 4 * error_ * packed_.norm(position) + 2 * tiny_ + margin_;
    }

    /// The largest of these.
    double most_slack() const { return most_slack_; }

    /// Sets out to c of (all queries) x (panels [begin, end)), row-major.
    template <class T>
    void store(Index begin, Index end, const PackedQueries<S> &queries, T *out) const {
        constexpr int W = Vec<S>::width;
        constexpr int rows = TileShape<S>::rows;
        const Index width = (end - begin) * cols;
        for (Index q = begin; q < end; ++q)
            for (Index m = 0; m < queries.micro_panels(); ++m) {
                Tile<S> tile;
                tile.fill_rows(&lower_[q * cols]);
                tile.accumulate_dot(packed_.depth(), queries.micro_panel(m), packed_.panel(q));
                T *const to = out + m * rows * width + (q - begin) * cols;
                unrolled<rows>([&](auto r) METRICFAST_INLINE {
                    metricfast::store(tile.v[r][0], to + r * width);
                    metricfast::store(tile.v[r][1], to + r * width + W);
                });
            }
    }

    /// A lower bound c below the threshold of its row.
    struct Hit {
        std::int32_t row, position;
        S lower;
    };

    /// Writes the hits of panel q, and of micro-panels from m on, to [hits, end), as long as all of
    /// a tile fit. Returns their end, and advances m.
    METRICFAST_NOINLINE Hit *find(Index q, Index &m, const PackedQueries<S> &queries,
                                  const S *thresholds, Hit *hits, const Hit *end) const {
        constexpr int W = Vec<S>::width;
        constexpr int rows = TileShape<S>::rows;
        alignas(64) S spilled[2 * W];
        // Each tile fetches its share of the next panel, which is far from the cores.
        const Index panel = q + 1 < packed_.panels() ? packed_.depth() * cols : 0;
        const Index ahead = panel / std::max<Index>(1, queries.micro_panels()) + 1;
        for (; m < queries.micro_panels() && end - hits >= rows * cols; ++m) {
            if (panel > m * ahead)
                prefetch(packed_.panel(q + 1) + m * ahead, std::min(ahead, panel - m * ahead));
            Tile<S> tile;
            tile.fill_rows(&lower_[q * cols]);
            tile.accumulate_dot(packed_.depth(), queries.micro_panel(m), packed_.panel(q));
            unrolled<rows>([&](auto r) METRICFAST_INLINE {
                const Vec<S> t = Vec<S>::broadcast(thresholds[m * rows + r]);
                unsigned mask = less(tile.v[r][0], t) | less(tile.v[r][1], t) << W;
                if (mask == 0)
                    return;
                tile.v[r][0].store(spilled);
                tile.v[r][1].store(spilled + W);
                for (; mask != 0; mask &= mask - 1) {
                    const int c = lowest_bit(mask);
                    *hits++ = {static_cast<std::int32_t>(m * rows + r),
                               static_cast<std::int32_t>(q * cols + c), spilled[c]};
                }
            });
        }
        return hits;
    }

  private:
    PackedDatabase<S> packed_;
    double error_ = 0;
    double tiny_ = 0;
    double margin_;
    double most_slack_ = 0;
    AlignedVector<S> lower_;
};

/// An S above x by a unit or two in the last place: c < above(x) holds for every c <= x.
template <class S> S above(double x) {
    const S t = static_cast<S>(x);
    return t + std::abs(t) * std::numeric_limits<S>::epsilon() + std::numeric_limits<S>::min();
}

METRICFAST_NAMESPACE_END
