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
        const Nearest found =
            form_ == Form::log ? nearest_of(row, labels, label) : Nearest{smallest(row), 0};
        const double nearest = found.all;
        const double room = static_cast<double>(std::log(std::numeric_limits<T>::max())) / 2;
        const bool far = form_ == Form::log &&
                         !(found.same < static_cast<double>(static_cast<T>(nearest + room)));
        const double within = far ? smallest_within(row, label) : nearest;
        if (!std::isfinite(nearest) || !std::isfinite(within))
            return row.skip();
        RowValue result;
        result.terms = 1;
        if (far) {
            result.value = evaluate_far(row, label, nearest, within);
            return result;
        }
        const Sums sums = to_kernels(row, labels, label, nearest);
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

    /// The smallest value of a row, and the smallest one in the anchor's class. The latter is the
    /// largest finite number if the row has no point of the class.
    struct Nearest {
        double all;
        double same;
    };

    static Nearest nearest_of(const Row<T> &row, const T *labels, T label) {
        constexpr int W = Vec<T>::width;
        constexpr T largest = std::numeric_limits<T>::max();
        const Vec<T> wanted = Vec<T>::broadcast(label), none = Vec<T>::broadcast(largest);
        Vec<T> all = Vec<T>::broadcast(std::numeric_limits<T>::infinity()), same = none;
        Index j = 0;
        for (; j + W <= row.count; j += W) {
            const Vec<T> d = Vec<T>::load(row.values + j), l = Vec<T>::load(labels + j);
            all = min(all, d);
            // exactly d, or the largest number
            same = min(same, where_equal(l, wanted, d) + (none - where_equal(l, wanted, none)));
        }
        T lanes[2][W];
        all.store(lanes[0]);
        same.store(lanes[1]);
        T least = *std::min_element(lanes[0], lanes[0] + W);
        T nearest_same = *std::min_element(lanes[1], lanes[1] + W);
        for (; j < row.count; ++j) {
            least = std::min(least, row.values[j]);
            nearest_same =
                labels[j] == label ? std::min(nearest_same, row.values[j]) : nearest_same;
        }
        return {static_cast<double>(least), static_cast<double>(nearest_same)};
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

    /// Replaces values by kernels and returns their sums.
    Sums to_kernels(Row<T> &row, const T *labels, T label, double nearest) const {
        if (columns_.any()) {
            columns_.to_kernels(row, nearest);
            return sum(row, labels, label, [](Vec<T> e) METRICFAST_INLINE { return e; });
        }
        const Vec<T> near = Vec<T>::broadcast(static_cast<T>(nearest));
        return sum(row, labels, label,
                   [near](Vec<T> d) METRICFAST_INLINE { return exponential(near - d); });
    }

    /// Replaces values by kernel(values) and returns their sums.
    template <class Kernel>
    static Sums sum(Row<T> &row, const T *labels, T label, Kernel &&kernel) {
        const Vec<T> wanted = Vec<T>::broadcast(label), zero = Vec<T>::broadcast(T(0));
        Vec<T> same = zero, other = zero;
        Sums sums;
        in_stretches<T>(
            row.count,
            [&](Index j) METRICFAST_INLINE {
                const Vec<T> e = kernel(Vec<T>::load(row.values + j));
                e.store(row.values + j);
                const Vec<T> of_class = where_equal(Vec<T>::load(labels + j), wanted, e);
                same = same + of_class;
                other = other + (e - of_class);
            },
            [&] {
                sums.same += horizontal_sum(same);
                sums.other += horizontal_sum(other);
                same = other = zero;
            },
            [&](Index j) {
                T lanes[Vec<T>::width];
                kernel(Vec<T>::broadcast(row.values[j])).store(lanes);
                row.values[j] = lanes[0];
                (labels[j] == label ? sums.same : sums.other) += static_cast<double>(lanes[0]);
            });
        sums.all = sums.same + sums.other;
        return sums;
    }

    /// Multiplies values by a for the same class, and by -b otherwise.
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
    ColumnWeights<T> columns_;
};

METRICFAST_NAMESPACE_END
