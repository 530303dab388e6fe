/// Neighbourhood components analysis (Goldberger et al., 2004).
#pragma once

#include "metricfast/losses/softmax.hpp"

METRICFAST_NAMESPACE_BEGIN

/// With p_ij = c_j exp(-D_ij) / sum_l c_l exp(-D_il), D being squared distances or their roots, and
/// p_i the sum of p_ij over the anchor's class, the anchor's loss is -p_i (sum) or -log p_i (log).
/// Its weights are p_ij
/// ([same class] - p_i), divided by p_i for the log form.
template <class T> class NcaLoss : public RowLoss<T> {
  public:
    enum class Form { sum, log };

    /// \param column_weights c_j or null (1), see ColumnWeights.
    NcaLoss(Form form, ClassLabels labels, Weights column_weights = nullptr, bool squared = true)
        : form_(form), squared_(squared), labels_(labels),
          database_labels_(padded<T>(labels_.database)), columns_(column_weights) {
        columns_.check(labels_.database.size());
        for (const Codes codes : {labels_.queries, labels_.database})
            for (const std::int64_t code : codes)
                if (code >= static_cast<std::int64_t>(sizes_.size()))
                    sizes_.resize(static_cast<std::size_t>(code) + 1, 0);
        for (Index j = 0; j < labels_.database.size(); ++j)
            sizes_[labels_.database[j]] += column_weights == nullptr || column_weights[j] > 0;
    }

    RowKind kind() const override {
        return squared_ ? RowKind::squared_distance : RowKind::distance;
    }

    /// Points outside of the window weigh less than a rounding error of the sum. The log form
    /// depends on a class at any distance, and with column weights the bound would be wrong, so
    /// both use all columns.
    double window(Index columns) const override {
        if (form_ == Form::log || columns_.any())
            return std::numeric_limits<double>::infinity();
        return softmax_window<T>(columns);
    }

    void check(Index queries, Index database) const override {
        labels_.check(queries, database);
        columns_.check(database);
    }

    RowValue evaluate(Row<T> &row) const override {
        const T label = static_cast<T>(labels_.queries[row.anchor]);
        columns_.admit(row);
        std::vector<T> scratch;
        const T *labels = of_columns(row, database_labels_, scratch);
        const double nearest = smallest(row);
        const double room = static_cast<double>(std::log(std::numeric_limits<T>::max())) / 2;
        const bool far = form_ == Form::log && !any_within(row, labels, label, nearest + room);
        const double within = far ? smallest_within(row, label) : nearest;
        if (!std::isfinite(nearest) || !std::isfinite(within))
            return row.skip();
        RowValue result;
        result.terms = 1;
        if (!has_company(row)) { // the kernels of excluded points are tiny, not 0
            row.array().setZero();
            return result;
        }
        if (far) {
            result.value = evaluate_far(row, label, nearest, within);
            return result;
        }
        columns_.to_kernels(row, nearest);
        const Sums sums = sum(row, labels, label);
        const double p = sums.same / sums.all, factor = 1 / sums.all;
        if (form_ == Form::sum) {
            result.value = -p;
            weigh(row, labels, label, factor * sums.other / sums.all, factor * p);
        } else {
            result.value = -std::log(p);
            weigh(row, labels, label, factor * sums.other / sums.same, factor);
        }
        return result;
    }

  private:
    struct Sums {
        double all = 0;
        double same = 0;
        double other = 0; ///< summed apart: all - same may cancel
    };

    /// Whether a point of the anchor's class is in its row.
    bool has_company(const Row<T> &row) const {
        const std::int64_t label = labels_.queries[row.anchor];
        Index company = sizes_[label];
        if (row.excluded >= 0 && labels_.database[row.excluded] == label) {
            const T left = columns_.any() ? columns_(row, row.excluded) : T(0);
            company -= columns_.counts(row.excluded) && !(left > 0) ? 1 : 0;
        }
        return company > 0;
    }

    /// Whether a value of the anchor's class is below a limit.
    static bool any_within(const Row<T> &row, const T *labels, T label, double limit) {
        constexpr int W = Vec<T>::width;
        const Vec<T> wanted = Vec<T>::broadcast(label);
        const Vec<T> top = Vec<T>::broadcast(static_cast<T>(limit));
        Vec<T> most = Vec<T>::broadcast(T(0));
        Index j = 0;
        for (; j + W <= row.count; j += W)
            most = max(most, where_equal(Vec<T>::load(labels + j), wanted,
                                         top - Vec<T>::load(row.values + j)));
        bool any = horizontal_sum(most) > 0;
        for (; j < row.count; ++j)
            any = any || (labels[j] == label && row.values[j] < static_cast<T>(limit));
        return any;
    }

    double smallest_within(const Row<T> &row, T label) const {
        T result = std::numeric_limits<T>::infinity();
        for (Index j = 0; j < row.count; ++j)
            if (database_labels_[j] == label)
                result = std::min(result, row.values[j]);
        return static_cast<double>(result);
    }

    /// The log form if the class is so far away that its kernels underflow relative to the nearest
    /// point's. Each sum gets its own shift.
    double evaluate_far(Row<T> &row, T label, double nearest, double within) const {
        double all = 0, same = 0;
        const auto kernel = [&](Index j, double shift) {
            const double c = static_cast<double>(columns_(row, j));
            return c > 0 ? c * std::exp(shift - static_cast<double>(row.values[j])) : 0.0;
        };
        for (Index j = 0; j < row.count; ++j) {
            all += kernel(j, nearest);
            if (database_labels_[j] == label)
                same += kernel(j, within);
        }
        for (Index j = 0; j < row.count; ++j) {
            const double q = database_labels_[j] == label ? kernel(j, within) / same : 0.0;
            row.values[j] = static_cast<T>(q - kernel(j, nearest) / all);
        }
        return (std::log(all) - nearest) - (std::log(same) - within);
    }

    static Sums sum(const Row<T> &row, const T *labels, T label) {
        const Vec<T> wanted = Vec<T>::broadcast(label), zero = Vec<T>::broadcast(T(0));
        Vec<T> same = zero, other = zero;
        Sums sums;
        in_stretches<T>(
            row.count,
            [&](Index j) {
                const Vec<T> e = Vec<T>::load(row.values + j);
                const Vec<T> own = where_equal(Vec<T>::load(labels + j), wanted, e);
                same = same + own;
                other = other + (e - own);
            },
            [&] {
                sums.same += horizontal_sum(same);
                sums.other += horizontal_sum(other);
                same = other = zero;
            },
            [&](Index j) {
                (labels[j] == label ? sums.same : sums.other) += static_cast<double>(row.values[j]);
            });
        sums.all = sums.same + sums.other;
        return sums;
    }

    /// values := values * (same class ? a : -b).
    static void weigh(Row<T> &row, const T *labels, T label, double a, double b) {
        constexpr int W = Vec<T>::width;
        const Vec<T> wanted = Vec<T>::broadcast(label);
        const Vec<T> va = Vec<T>::broadcast(static_cast<T>(a));
        const Vec<T> vb = Vec<T>::broadcast(static_cast<T>(b));
        Index j = 0;
        for (; j + W <= row.count; j += W) {
            const Vec<T> e = Vec<T>::load(row.values + j), l = Vec<T>::load(labels + j);
            const Vec<T> others = vb - where_equal(l, wanted, vb); // exactly b or 0
            (e * (where_equal(l, wanted, va) - others)).store(row.values + j);
        }
        for (; j < row.count; ++j)
            row.values[j] *= static_cast<T>(labels[j] == label ? a : -b);
    }

    Form form_;
    bool squared_;
    ClassCodes labels_;
    std::vector<T> database_labels_;
    std::vector<Index> sizes_; ///< points with weight in each class
    ColumnWeights<T> columns_;
};

METRICFAST_NAMESPACE_END
