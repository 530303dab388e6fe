/// A loss that is a C function of one row, of whatever language it was compiled from.
#pragma once

#include <cmath>

#include "metricfast/losses/labels.hpp"

METRICFAST_NAMESPACE_BEGIN

extern "C" {
/// Returns the anchor's loss. \param values distances, or inner products, of the n database points;
/// the left-out one's is infinite. \param derivatives out: by each of them. \param labels of the
/// database points: class codes or numbers. \param excluded the point that is left out, or -1.
/// \param label the anchor's. \param data what the loss was made with.
typedef double (*metricfast_row_function)(const double *values, double *derivatives,
                                          const double *labels, std::ptrdiff_t n,
                                          std::ptrdiff_t anchor, std::ptrdiff_t excluded,
                                          double label, void *data);
}

/// Calls the function from several threads at once.
template <class T> class CompiledLoss : public RowLoss<T> {
  public:
    /// \param labels, database_labels as the function is to see them.
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
