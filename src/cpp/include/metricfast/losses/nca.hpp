/// Neighbourhood components analysis (Goldberger et al., 2004).
#pragma once

#include <utility>

#include "metricfast/losses/softmax.hpp"

METRICFAST_NAMESPACE_BEGIN

/// With p_ij = c_j exp(-D_ij) / sum_l c_l exp(-D_il) and p_i the sum of p_ij over the anchor's
/// class, the anchor's loss is -s_i p_i (sum) or -s_i log p_i (log). Its weights are s_i p_ij
/// ([same class] - p_i), divided by p_i for the log form.
template <class T> class NcaLoss : public RowLoss<T> {
  public:
    enum class Form { sum, log };

    /// \param query_labels, database_labels class codes, compared for equality.
    /// \param anchor_weights s_i or null (1). \param column_weights, self see ColumnWeights.
    NcaLoss(Form form, std::vector<std::int64_t> query_labels,
            const std::vector<std::int64_t> &database_labels, Weights anchor_weights,
            Weights column_weights, Codes self)
        : form_(form), query_labels_(std::move(query_labels)),
          database_labels_(padded<T>(Codes(database_labels))), anchor_weights_(anchor_weights),
          columns_(column_weights, self) {
        const auto exact = static_cast<std::int64_t>(2 / std::numeric_limits<T>::epsilon());
        for (const auto *labels : {&std::as_const(query_labels_), &database_labels})
            for (const std::int64_t label : *labels)
                require(label >= 0 && label < exact, "NCA: class codes must be small, from 0 on");
    }

    bool sparse() const override { return false; }

    /// All that is left out weighs less than a rounding of the sum. The log form sees a class
    /// however far it is, and weights would have to be bounded, so these look at every column.
    double window(Index columns) const override {
        if (form_ == Form::log || columns_.any())
            return std::numeric_limits<double>::infinity();
        return softmax_window<T>(columns);
    }

    void check(Index queries, Index database) const override {
        require(static_cast<Index>(query_labels_.size()) == queries &&
                    static_cast<Index>(database_labels_.size()) - Vec<T>::width == database,
                "NCA: there must be one label for each query and each database point");
        require_anchors(anchor_weights_, nullptr, queries, database);
        columns_.check(queries, database);
    }

    RowValue evaluate(Row<T> &row) const override {
        const double s = anchor_weights_ != nullptr ? anchor_weights_[row.anchor] : 1.0;
        const T label = static_cast<T>(query_labels_[row.anchor]);
        Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>> values(row.values, row.count);
        columns_.leave_out_weightless(row);
        const double nearest = smallest(row);
        const double within = form_ == Form::log ? smallest_within(row, label) : nearest;
        RowValue result;
        result.weight = s;
        if (s == 0 || !std::isfinite(nearest) || !std::isfinite(within)) {
            values.setZero();
            result.skipped = !std::isfinite(within);
            return result;
        }
        result.terms = 1;
        const double room = static_cast<double>(std::log(std::numeric_limits<T>::max())) / 2;
        if (within - nearest > room) {
            result.value = evaluate_far(row, label, s, nearest, within);
            return result;
        }
        columns_.to_kernels(row, nearest);
        std::vector<T> scratch;
        const T *labels = of_columns(row, database_labels_, scratch);
        const Sums sums = sum(row, labels, label);
        const double p = sums.same / sums.all, factor = s / sums.all;
        if (form_ == Form::sum) {
            result.value = -s * p;
            weigh(row, labels, label, factor * sums.other / sums.all, factor * p);
        } else {
            result.value = -s * std::log(p);
            weigh(row, labels, label, factor * sums.other / sums.same, factor);
        }
        return result;
    }

  private:
    struct Sums {
        double all = 0;
        double same = 0;
        double other = 0; ///< all - same would cancel where the class takes nearly all
    };

    double smallest_within(const Row<T> &row, T label) const {
        T result = std::numeric_limits<T>::infinity();
        for (Index j = 0; j < row.count; ++j)
            if (database_labels_[j] == label)
                result = std::min(result, row.values[j]);
        return static_cast<double>(result);
    }

    /// The log form where the class is so far away that its kernels vanish beside the nearest
    /// point's: each sum gets a shift of its own.
    double evaluate_far(Row<T> &row, T label, double s, double nearest, double within) const {
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
            row.values[j] = static_cast<T>(s * (q - kernel(j, nearest) / all));
        }
        return -s * ((std::log(same) - within) - (std::log(all) - nearest));
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
    std::vector<std::int64_t> query_labels_;
    std::vector<T> database_labels_;
    Weights anchor_weights_;
    ColumnWeights<T> columns_;
};

METRICFAST_NAMESPACE_END
