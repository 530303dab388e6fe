/// What losses with a softmax of negated distances share: weighted columns, and the shift.
#pragma once

#include <algorithm>
#include <cmath>

#include "metricfast/losses/row_loss.hpp"
#include "metricfast/simd.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Values of database points (labels, targets, weights) as T, with room for a last partial
/// register.
template <class T, class U> std::vector<T> padded(Span<const U> values) {
    std::vector<T> result(values.begin(), values.end());
    result.resize(result.size() + static_cast<std::size_t>(Vec<T>::width), T(-1));
    return result;
}

/// Those of the row's columns, side by side: a listed row gathers them in `scratch`, a whole row
/// has them so already.
template <class T>
const T *of_columns(const Row<T> &row, const std::vector<T> &values, std::vector<T> &scratch) {
    if (row.columns == nullptr)
        return values.data();
    scratch.resize(static_cast<std::size_t>(row.count));
    for (Index r = 0; r < row.count; ++r)
        scratch[r] = values[row.columns[r]];
    return scratch.data();
}

/// Calls step(j) for the full registers of a row, in stretches between which `flush` may bring
/// partial sums from T to double, and then rest(j) for the columns that are left.
template <class T, class Step, class Flush, class Rest>
void in_stretches(Index count, Step &&step, Flush &&flush, Rest &&rest) {
    constexpr int W = Vec<T>::width;
    constexpr Index stretch = 64 * W;
    Index j = 0;
    while (j + W <= count) {
        for (const Index end = std::min(count, j + stretch); j + W <= end; j += W)
            step(j);
        flush();
    }
    for (; j < count; ++j)
        rest(j);
}

template <class T> double smallest(const Row<T> &row) {
    constexpr int W = Vec<T>::width;
    Vec<T> least = Vec<T>::broadcast(std::numeric_limits<T>::infinity());
    Index j = 0;
    for (; j + W <= row.count; j += W)
        least = min(least, Vec<T>::load(row.values + j));
    T lanes[W];
    least.store(lanes);
    T result = *std::min_element(lanes, lanes + W);
    for (; j < row.count; ++j)
        result = std::min(result, row.values[j]);
    return static_cast<double>(result);
}

template <class T> double sum_of_values(const Row<T> &row) {
    const Vec<T> zero = Vec<T>::broadcast(T(0));
    Vec<T> part = zero;
    double sum = 0;
    in_stretches<T>(
        row.count, [&](Index j) { part = part + Vec<T>::load(row.values + j); },
        [&] { sum += horizontal_sum(part), part = zero; },
        [&](Index j) { sum += static_cast<double>(row.values[j]); });
    return sum;
}

/// How far beyond the nearest point all others together weigh less than a rounding of the sum.
template <class T> double softmax_window(Index columns) {
    return std::log(static_cast<double>(std::max<Index>(columns, 1))) -
           std::log(static_cast<double>(std::numeric_limits<T>::epsilon()) / 2);
}

/// Weights c_j of the columns of whole rows; none means 1.
template <class T> class ColumnWeights {
  public:
    /// \param weights c_j or null.
    /// \param self with weights: for each anchor its own database row or -1; there the column
    /// weighs
    ///   max(c - 1, 0), so that integer weights equal repetition. May be null.
    ColumnWeights(Weights weights, Codes self) : self_(self) {
        if (weights != nullptr)
            weights_ = padded<T>(weights);
    }

    void check(Index queries, Index database) const {
        require(!any() || static_cast<Index>(weights_.size()) == database + Vec<T>::width,
                "there must be one weight for each database point");
        require_each(self_, queries, "there must be one own database row, or -1, for each query");
    }

    bool any() const { return !weights_.empty(); }

    T operator()(const Row<T> &row, Index j) const {
        if (!any())
            return T(1);
        const bool own = self_ != nullptr && self_[row.anchor] == j;
        return own ? std::max(weights_[j] - T(1), T(0)) : weights_[j];
    }

    /// Makes distances to columns without weight infinite.
    void leave_out_weightless(Row<T> &row) const {
        for (Index j = 0; any() && j < row.count; ++j)
            if (!((*this)(row, j) > 0))
                row.values[j] = std::numeric_limits<T>::infinity();
    }

    /// values := c exp(nearest - values).
    void to_kernels(Row<T> &row, double nearest) const {
        Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>> values(row.values, row.count);
        values = (static_cast<T>(nearest) - values).exp();
        for (Index j = 0; any() && j < row.count; ++j)
            row.values[j] *= (*this)(row, j);
    }

  private:
    std::vector<T> weights_;
    Codes self_;
};

METRICFAST_NAMESPACE_END
