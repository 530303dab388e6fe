/// Losses with given weights: sum_ij w_ij D_ij.
#pragma once

#include <algorithm>

#include "metricfast/engine/row_loss.hpp"

METRICFAST_NAMESPACE_BEGIN

/// w D; 0 for a weight of zero, because the excluded distance is infinite.
template <class T> double weighted(T weight, T distance) {
    return weight != T(0) ? static_cast<double>(weight) * static_cast<double>(distance) : 0.0;
}

template <class T> class DenseWeightsLoss : public RowLoss<T> {
  public:
    explicit DenseWeightsLoss(View<const T> weights) : weights_(weights) {}

    void check(Index queries, Index database) const override {
        require(weights_.rows == queries && weights_.cols == database,
                "weights must be (n_queries, n_database)");
    }

    RowValue evaluate(Row<T> &row) const override {
        RowValue result;
        const T *w = weights_.row(row.anchor);
        for (Index j = 0; j < row.count; ++j) {
            result.value += weighted(w[j], row.values[j]);
            row.values[j] = w[j];
        }
        result.terms = row.count;
        return result;
    }

  private:
    View<const T> weights_;
};

/// Weights in compressed sparse rows. The engine must be given the same rows as candidates.
template <class T> class SparseWeightsLoss : public RowLoss<T> {
  public:
    SparseWeightsLoss(Codes row_starts, Span<const T> weights)
        : row_starts_(row_starts), weights_(weights) {}

    bool sparse() const override { return true; }

    void check(Index queries, Index) const override {
        require(row_starts_.size() == queries + 1 && row_starts_[queries] == weights_.size(),
                "there must be one weight for each candidate");
    }
    void check_candidates(const Candidates &candidates) const override {
        require(
            candidates.row_starts.size() == row_starts_.size() &&
                std::equal(row_starts_.begin(), row_starts_.end(), candidates.row_starts.begin()),
            "sparse weights need candidate lists with the same starts");
    }

    RowValue evaluate(Row<T> &row) const override {
        RowValue result;
        const T *w = weights_.data() + row_starts_[row.anchor];
        for (Index r = 0; r < row.count; ++r) {
            result.value += weighted(w[r], row.values[r]);
            row.values[r] = w[r];
        }
        result.terms = row.count;
        return result;
    }

  private:
    Codes row_starts_;
    Span<const T> weights_;
};

METRICFAST_NAMESPACE_END
