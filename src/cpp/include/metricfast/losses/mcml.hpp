/// Maximally collapsing metric learning (Globerson, Roweis, 2005).
#pragma once

#include "metricfast/losses/softmax.hpp"

METRICFAST_NAMESPACE_BEGIN

/// With p_ij = c_j exp(-D_ij) / sum_l c_l exp(-D_il) and q_ij = c_j / sum of c over the anchor's
/// class there, else 0, the anchor's loss is KL(q_i || p_i) up to the entropy of c, that is
/// sum_j q_ij D_ij + log sum_l c_l exp(-D_il) - log sum_class c. Its weights are q_ij - p_ij. An
/// anchor that is alone in its class is skipped.
template <class T> class McmlLoss : public RowLoss<T> {
  public:
    /// \param column_weights c_j or null (1), see ColumnWeights.
    explicit McmlLoss(ClassLabels labels, Weights column_weights = nullptr)
        : classes_(labels), columns_(column_weights) {}

    void check(Index queries, Index database) const override {
        classes_.check(queries, database);
        columns_.check(database);
    }

    RowValue evaluate(Row<T> &row) const override {
        columns_.admit(row);
        const double nearest = smallest(row);
        const std::vector<Index> &members = classes_.of(row.anchor);
        double count = 0, pull = 0;
        for (const Index j : members)
            if (std::isfinite(row.values[j])) {
                const double c = static_cast<double>(columns_(row, j));
                count += c;
                pull += c * static_cast<double>(row.values[j]);
            }
        if (count == 0)
            return row.skip();
        RowValue result;
        result.terms = 1;
        columns_.to_kernels(row, nearest);
        const double all = sum_of(row.values, row.count);
        result.value = pull / count - nearest + std::log(all / count);
        row.array() *= static_cast<T>(-1 / all);
        // Also for the excluded column, whose weight the engine ignores.
        for (const Index j : members)
            row.values[j] += static_cast<T>(1 / count) * columns_(row, j);
        return result;
    }

  private:
    ClassMembers classes_;
    ColumnWeights<T> columns_;
};

METRICFAST_NAMESPACE_END
