/// Maximally collapsing metric learning (Globerson, Roweis, 2005).
#pragma once

#include "metricfast/losses/class_members.hpp"
#include "metricfast/losses/softmax.hpp"

METRICFAST_NAMESPACE_BEGIN

/// With p_ij = c_j exp(-D_ij) / sum_l c_l exp(-D_il) and q_ij = c_j / sum of c over the anchor's
/// class there, else 0, the anchor's loss is s_i KL(q_i || p_i) up to the entropy of c, that is
/// s_i (sum_j q_ij D_ij + log sum_l c_l exp(-D_il) - log sum_class c). Its weights are
/// s_i (q_ij - p_ij). An anchor without company of its class is skipped.
template <class T> class McmlLoss : public RowLoss<T> {
  public:
    /// \param classes refers to the labels. \param anchor_weights s_i or null (1).
    /// \param column_weights, self see ColumnWeights.
    McmlLoss(ClassMembers classes, Weights anchor_weights, Weights column_weights, Codes self)
        : classes_(std::move(classes)), anchor_weights_(anchor_weights),
          columns_(column_weights, self) {}

    bool sparse() const override { return false; }

    void check(Index queries, Index database) const override {
        classes_.check(queries, database);
        require_anchors(anchor_weights_, nullptr, queries, database);
        columns_.check(queries, database);
    }

    RowValue evaluate(Row<T> &row) const override {
        RowValue result;
        result.weight = anchor_weights_ != nullptr ? anchor_weights_[row.anchor] : 1.0;
        columns_.leave_out_weightless(row);
        const double nearest = smallest(row);
        const std::vector<Index> &members = classes_.of(row.anchor);
        double count = 0, pull = 0;
        for (const Index j : members)
            if (std::isfinite(row.values[j])) {
                const double c = static_cast<double>(columns_(row, j));
                count += c;
                pull += c * static_cast<double>(row.values[j]);
            }
        Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>> values(row.values, row.count);
        if (result.weight == 0 || count == 0) {
            values.setZero();
            result.skipped = count == 0;
            return result;
        }
        result.terms = 1;
        columns_.to_kernels(row, nearest);
        const double all = sum_of_values(row);
        result.value = result.weight * (pull / count - nearest + std::log(all / count));
        values *= static_cast<T>(-result.weight / all);
        // Also in the column that is left out, whose weight the engine does not use.
        for (const Index j : members)
            row.values[j] += static_cast<T>(result.weight / count) * columns_(row, j);
        return result;
    }

  private:
    ClassMembers classes_;
    Weights anchor_weights_;
    ColumnWeights<T> columns_;
};

METRICFAST_NAMESPACE_END
