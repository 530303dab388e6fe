/// Helpers of losses with a softmax of negated distances: column weights, and the shift.
#pragma once

#include <algorithm>
#include <cmath>

#include "metricfast/losses/labels.hpp"
#include "metricfast/simd/exponential.hpp"

METRICFAST_NAMESPACE_BEGIN

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

/// Distance beyond the nearest point from which all others together are below the rounding error of
/// the sum.
template <class T> double softmax_window(Index columns) {
    return std::log(static_cast<double>(std::max<Index>(columns, 1))) -
           std::log(static_cast<double>(std::numeric_limits<T>::epsilon()) / 2);
}

/// Weights c_j of the columns of whole rows; none means 1. In its own row, a point has the weight
/// max(c - 1, 0), so that integer weights equal repetition.
template <class T> class ColumnWeights {
  public:
    explicit ColumnWeights(Weights weights) {
        require_weights(weights, "column weights must be finite and not negative");
        if (weights != nullptr)
            weights_ = padded<T>(weights);
    }

    void check(Index database) const {
        require(!any() || static_cast<Index>(weights_.size()) == database + Vec<T>::width,
                "there must be one weight for each database point");
    }

    bool any() const { return !weights_.empty(); }

    /// Returns whether database point j has a positive weight.
    bool counts(Index j) const { return !any() || weights_[j] > 0; }

    T operator()(const Row<T> &row, Index j) const {
        if (!any())
            return T(1);
        if (j != row.excluded)
            return weights_[j];
        return row.leaves_itself_out() ? std::max(weights_[j] - T(1), T(0)) : T(0);
    }

    /// The column that is excluded entirely, or -1.
    Index excluded(const Row<T> &row) const {
        return any() && row.leaves_itself_out() ? -1 : row.excluded;
    }

    /// Adds the anchor's remaining weight to its row; columns without weight get infinite
    /// distances.
    void admit(Row<T> &row) const {
        if (!any())
            return;
        constexpr T nowhere = std::numeric_limits<T>::infinity();
        row.array() = (weights(row) > T(0)).select(row.array(), nowhere);
        if (row.excluded >= 0) // the anchor is at distance 0 from itself
            row.values[row.excluded] = (*this)(row, row.excluded) > 0 ? T(0) : nowhere;
    }

    /// Replaces values by c exp(nearest - values).
    void to_kernels(Row<T> &row, double nearest) const {
        const Vec<T> near = Vec<T>::broadcast(static_cast<T>(nearest));
        detail::for_registers(row.values, row.count, [near](Vec<T> d, Index) METRICFAST_INLINE {
            return exponential(near - d);
        });
        if (!any())
            return;
        const T excluded_value = row.excluded >= 0 ? row.values[row.excluded] : T(0);
        row.array() *= weights(row);
        if (row.excluded >= 0)
            row.values[row.excluded] = excluded_value * (*this)(row, row.excluded);
    }

  private:
    auto weights(const Row<T> &row) const {
        return Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>>(weights_.data(), row.count);
    }

    std::vector<T> weights_;
};

METRICFAST_NAMESPACE_END
