/// Points of a frame, laid out in panels for the micro-kernel.
#pragma once

#include <limits>
#include <type_traits>
#include <utility>

#include "metricfast/core/work.hpp"
#include "metricfast/simd/frame.hpp"
#include "metricfast/simd/tile.hpp"

METRICFAST_NAMESPACE_BEGIN

template <class T> using AlignedVector = std::vector<T, Eigen::aligned_allocator<T>>;

/// The squared norm in double, with several partial sums.
template <class T> double squared_norm(const T *x, Index count) {
    constexpr Index lanes = 8;
    double sums[lanes] = {};
    Index k = 0;
    for (; k + lanes <= count; k += lanes)
        for (Index l = 0; l < lanes; ++l)
            sums[l] += static_cast<double>(x[k + l]) * static_cast<double>(x[k + l]);
    for (; k < count; ++k)
        sums[k % lanes] += static_cast<double>(x[k]) * static_cast<double>(x[k]);
    double sum = 0;
    for (const double part : sums)
        sum += part;
    return sum;
}

/// Packs up to `count` rows `ids[0..]` (or first, first+1, ... without ids) into one panel of
/// `lanes` interleaved points, missing ones zero. `factor` multiplies the coordinates after
/// rounding. `norms`, unless null, receives the squared norms of the rounded points before the
/// multiplication.
/// \param point reusable memory.
template <class T>
void pack_panel(const Points &points, const Frame &frame, const std::int64_t *ids, Index first,
                Index count, int lanes, T factor, T *out, double *norms, std::vector<T> &point) {
    const Index p = points.cols();
    point.resize(static_cast<std::size_t>(p));
    std::fill(out, out + p * lanes, T(0));
    points.visit([&](auto v) {
        const auto row = [&](Index lane) {
            return v.row(ids != nullptr ? static_cast<Index>(ids[lane]) : first + lane);
        };
        for (Index lane = 0; lane < count; ++lane) {
            if (lane + 4 < count)
                prefetch(row(lane + 4), p);
            const auto *x = row(lane);
            for (Index k = 0; k < p; ++k)
                point[k] = static_cast<T>(frame.apply(static_cast<double>(x[k]), k));
            for (Index k = 0; k < p; ++k)
                out[k * lanes + lane] = factor * point[k];
            if (norms != nullptr)
                norms[lane] = squared_norm(point.data(), p);
        }
    });
}

/// The position of each database row in panels. Rows may be permuted, and `segments` start new
/// panels, so that for example each class of a sorted database is a range of whole panels.
class PanelLayout {
  public:
    /// `order`: n original rows in packed order; `segments`: ascending starts into `order`, first
    /// 0.
    PanelLayout(int cols, const std::vector<std::int64_t> &order, std::vector<Index> segments)
        : cols_(cols) {
        segments.push_back(static_cast<Index>(order.size()));
        segment_panels_.push_back(0);
        for (std::size_t s = 0; s + 1 < segments.size(); ++s) {
            for (Index first = segments[s]; first < segments[s + 1]; first += cols) {
                const Index count = std::min<Index>(cols, segments[s + 1] - first);
                for (Index lane = 0; lane < cols; ++lane)
                    ids_.push_back(lane < count ? order[first + lane] : -1);
            }
            segment_panels_.push_back(static_cast<Index>(ids_.size()) / cols);
        }
    }

    Index panels() const { return static_cast<Index>(ids_.size()) / cols_; }
    Index positions() const { return static_cast<Index>(ids_.size()); }
    Index segments() const { return static_cast<Index>(segment_panels_.size()) - 1; }
    Index segment_begin(Index s) const { return segment_panels_[s]; }
    Index segment_end(Index s) const { return segment_panels_[s + 1]; }
    /// Original row of a packed position, -1 for padding.
    std::int64_t id(Index position) const { return ids_[position]; }
    const std::int64_t *ids(Index panel) const { return &ids_[panel * cols_]; }
    /// Number of points in a panel; padding follows them.
    Index count(Index panel) const {
        Index n = 0;
        while (n < cols_ && ids(panel)[n] >= 0)
            ++n;
        return n;
    }

  private:
    Index cols_;
    std::vector<std::int64_t> ids_;
    std::vector<Index> segment_panels_;
};

/// A database in panels.
template <class T> class PackedDatabase : public PanelLayout {
  public:
    static constexpr int cols = TileShape<T>::cols;

    PackedDatabase(const Points &points, const Frame &frame, const std::vector<std::int64_t> &order,
                   std::vector<Index> segments, const Control &control)
        : PanelLayout(cols, order, std::move(segments)), depth_(points.cols()) {
        data_.resize(static_cast<std::size_t>(positions() * depth_));
        norms_.assign(static_cast<std::size_t>(positions()),
                      std::numeric_limits<double>::infinity());
        constexpr Index chunk = 16;
        // Packing a value takes as long as this many multiplications.
        const Control how = worth_it(control, 16.0 * static_cast<double>(positions() * depth_));
        parallel_blocks((panels() + chunk - 1) / chunk, how, [&](Index b, Worker &) {
            std::vector<T> point;
            for (Index q = b * chunk; q < std::min(panels(), (b + 1) * chunk); ++q)
                pack_panel<T>(points, frame, ids(q), 0, count(q), cols, T(1),
                              data_.data() + q * cols * depth_, &norms_[q * cols], point);
        });
    }

    Index depth() const { return depth_; }
    const T *panel(Index q) const { return data_.data() + q * cols * depth_; }
    /// Squared norm of the packed point, +inf for padding.
    double norm(Index position) const { return norms_[position]; }
    void raise(Index position, double height) { norms_[position] += height; }

  private:
    Index depth_;
    AlignedVector<T> data_;
    std::vector<double> norms_;
};

/// Queries in micro-panels, multiplied by -2 so that a dot product completes a squared distance.
template <class T> class PackedQueries {
  public:
    static constexpr int rows = TileShape<T>::rows;

    explicit PackedQueries(Index depth = 0) : depth_(depth) {}

    /// Packs `count` queries: rows `ids[0..]`, or first, first+1, ... where `ids` is null.
    void pack(const Points &queries, const Frame &frame, const std::int64_t *ids, Index first,
              Index count) {
        depth_ = queries.cols();
        micro_panels_ = (count + rows - 1) / rows;
        data_.resize(static_cast<std::size_t>(micro_panels_ * rows * depth_));
        norms_.assign(static_cast<std::size_t>(micro_panels_ * rows), 0.0);
        for (Index m = 0; m < micro_panels_; ++m)
            pack_panel<T>(queries, frame, ids != nullptr ? ids + m * rows : nullptr,
                          first + m * rows, std::min<Index>(rows, count - m * rows), rows, T(-2),
                          data_.data() + m * rows * depth_, &norms_[m * rows], point_);
    }

    Index micro_panels() const { return micro_panels_; }
    const T *micro_panel(Index m) const { return data_.data() + m * rows * depth_; }
    double norm(Index row) const { return norms_[row]; }

  private:
    Index depth_;
    Index micro_panels_ = 0;
    AlignedVector<T> data_;
    std::vector<double> norms_;
    std::vector<T> point_;
};

/// Rows sorted by label, in [0, classes), and in ascending order within each.
/// \param starts output: index of each label's first row; may be null.
inline std::vector<std::int64_t> order_by_label(Codes labels, Index classes,
                                                std::vector<Index> *starts) {
    std::vector<Index> fill(static_cast<std::size_t>(classes) + 1, 0);
    for (const std::int64_t label : labels)
        ++fill[label + 1];
    for (Index c = 0; c < classes; ++c)
        fill[c + 1] += fill[c];
    fill.pop_back();
    if (starts != nullptr)
        *starts = fill;
    std::vector<std::int64_t> order(static_cast<std::size_t>(labels.size()));
    for (Index i = 0; i < labels.size(); ++i)
        order[fill[labels[i]]++] = i;
    return order;
}

/// 0, 1, ..., n-1.
inline std::vector<std::int64_t> identity_order(Index n) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(n));
    for (Index i = 0; i < n; ++i)
        order[i] = i;
    return order;
}

METRICFAST_NAMESPACE_END
