/// Sums of outer products of rows, added in blocks.
#pragma once

#include "metricfast/simd/packing.hpp"

METRICFAST_NAMESPACE_BEGIN

/// A block of rows in panels of columns, the layout for the micro-kernel.
class RowPanels {
  public:
    static constexpr int panel = TileShape<double>::cols;

    /// \param d number of columns.
    /// \param rows maximum number of rows.
    RowPanels(Index d, Index rows)
        : d_(d), rows_(rows), values_(static_cast<std::size_t>(count(d) * panel * rows)) {}

    /// Number of panels for d columns.
    static Index count(Index d) { return (d + panel - 1) / panel; }

    /// Number of rows of d columns that fit into the cache and make the cost of sums small.
    static Index rows_of(Index d) {
        return std::max<Index>(64, (Index(1) << 16) / std::max<Index>(1, d));
    }

    /// Sets row r to value(c) for each column, panel by panel.
    template <class F> void set_row(Index r, F &&value) {
        double *out = values_.data() + r * panel;
        for (Index c = 0; c < d_; c += panel, out += rows_ * panel) {
            if (c + panel <= d_)
                for (int k = 0; k < panel; ++k)
                    out[k] = value(c + k);
            else
                for (Index k = 0; c + k < d_; ++k)
                    out[k] = value(c + k);
        }
    }

    /// Column c of the rows; consecutive rows are `panel` elements apart.
    const double *column(Index c) const {
        return values_.data() + (c / panel) * rows_ * panel + c % panel;
    }

  private:
    Index d_, rows_;
    AlignedVector<double> values_;
};

/// sum_r v_r v_r^T over rows v_r, in double; only a triangle is computed.
class OuterProducts {
  public:
    explicit OuterProducts(Index d)
        : d_(d), width_(RowPanels::count(d) * panel),
          sum_(static_cast<std::size_t>(width_ * width_)) {}

    /// Adds the products of the first `count` rows.
    void add(const RowPanels &rows, Index count) {
        constexpr int W = Vec<double>::width;
        for (Index j = 0; j < d_; j += panel)
            for (Index i = j; i < d_; i += W) {
                Tile<double, W> tile;
                tile.fill(0);
                tile.template accumulate_dot<panel>(count, rows.column(i), rows.column(j));
                unrolled<W>([&](auto r) METRICFAST_INLINE {
                    double *out = sum_.data() + (i + r) * width_ + j;
                    (Vec<double>::load(out) + tile.v[r][0]).store(out);
                    (Vec<double>::load(out + W) + tile.v[r][1]).store(out + W);
                });
            }
    }

    /// Adds the current sums to the lower triangle of a matrix.
    void add_to(RowMatrix<double> &sum) const {
        for (Index i = 0; i < d_; ++i)
            for (Index j = 0; j <= i; ++j)
                sum(i, j) += sum_[static_cast<std::size_t>(i * width_ + j)];
    }

  private:
    static constexpr int panel = RowPanels::panel;
    Index d_, width_;
    AlignedVector<double> sum_;
};

METRICFAST_NAMESPACE_END
