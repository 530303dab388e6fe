/// A loss given by a compiled C function of one row.
#pragma once

#include <cmath>

#include "metricfast/losses/labels.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Calls the function from several threads at once.
template <class T> class CompiledLoss : public RowLoss<T> {
  public:
    /// \param labels, database_labels passed to the function unchanged.
    CompiledLoss(metricfast_row_function function, void *data, RowKind kind,
                 std::vector<double> labels, std::vector<double> database_labels)
        : function_(function), data_(data), kind_(kind), labels_(std::move(labels)),
          database_labels_(std::move(database_labels)) {}

    RowKind kind() const override { return kind_; }
    void check(Index queries, Index database) const override {
        Targets{labels_, database_labels_}.check(queries, database);
    }

    RowValue evaluate(Row<T> &row) const override {
        std::vector<double> derivatives(static_cast<std::size_t>(row.count), 0.0);
        const std::vector<double> values(row.values, row.values + row.count);
        RowValue result;
        result.value = function_(values.data(), derivatives.data(), database_labels_.data(),
                                 row.count, row.anchor, row.excluded, labels_[row.anchor], data_);
        bool known = !std::isnan(result.value);
        for (Index j = 0; j < row.count; ++j) {
            row.values[j] = j == row.excluded ? T(0) : static_cast<T>(derivatives[j]);
            known = known && !std::isnan(row.values[j]);
        }
        if (!known)
            throw std::invalid_argument("the function of losses.Compiled gave NaN for point " +
                                        std::to_string(row.anchor));
        result.terms = result.value != 0 ? 1 : 0;
        return result;
    }

  private:
    metricfast_row_function function_;
    void *data_;
    RowKind kind_;
    std::vector<double> labels_;
    std::vector<double> database_labels_;
};

METRICFAST_NAMESPACE_END
