/// Losses of a log-sum-exp over the anchor's class and one over the others.
#pragma once

#include <functional>
#include <utility>

#include "metricfast/losses/softmax.hpp"

METRICFAST_NAMESPACE_BEGIN

/// The arguments of a two-sided loss, with x_j = slope v_j + offset on either side (v_j a distance
/// or an inner product).
struct TwoSides {
    double positive;      ///< log sum_j c_j exp(x_j) over the anchor's class; -inf if empty
    double negative;      ///< over the others
    double mean_positive; ///< mean of x_j over the anchor's class; 0 if empty
    Index positives;
    Index negatives;
};

/// The loss and its derivatives by the three arguments.
struct TwoSidedValue {
    bool skipped = false;
    double value = 0;
    double by_positive = 0;
    double by_negative = 0;
    double by_mean_positive = 0;
};

/// Factor and offset of a side's values.
struct Side {
    double slope;
    double offset;
};

/// log(1 + exp(x)) and its derivative.
inline std::pair<double, double> softplus(double x) {
    const double e = std::exp(-std::abs(x));
    return {std::max(x, 0.0) + std::log1p(e), x > 0 ? 1 / (1 + e) : e / (1 + e)};
}

/// A loss as a function of both sides, called once per row.
struct TwoSidedForm {
    /// \param form has `Side positive, negative` and `TwoSidedValue operator()(const TwoSides &)`.
    template <class Form>
    TwoSidedForm(Form form)
        : positive(form.positive), negative(form.negative), value(std::move(form)) {}

    Side positive, negative;
    std::function<TwoSidedValue(const TwoSides &)> value;
};

template <class T> class TwoSidedLoss : public RowLoss<T> {
  public:
    /// \param column_weights c_j; null for ones.
    TwoSidedLoss(TwoSidedForm form, RowKind kind, ClassLabels labels,
                 Weights column_weights = nullptr)
        : form_(std::move(form)), kind_(kind), labels_(labels), members_(labels_),
          database_labels_(padded<T>(labels_.database)), columns_(column_weights) {}

    RowKind kind() const override { return kind_; }
    void check(Index queries, Index database) const override {
        labels_.check(queries, database);
        columns_.check(database);
    }

    RowValue evaluate(Row<T> &row) const override {
        auto x = row.array();
        const T label = static_cast<T>(labels_.queries[row.anchor]);
        const Index excluded = row.excluded;
        const bool own = members_.excludes_own(row);
        if (excluded >= 0)
            x[excluded] = T(0);
        TwoSides sides;
        sides.positives = static_cast<Index>(members_.of(row.anchor).size()) - (own ? 1 : 0);
        sides.negatives = row.others() - sides.positives;
        double sum = stretch(row, label);
        constexpr T nowhere = std::numeric_limits<T>::lowest();
        if (excluded >= 0) {
            sum -= own ? static_cast<double>(x[excluded]) : 0.0;
            x[excluded] = nowhere;
        }
        for (Index j = 0; columns_.any() && j < row.count; ++j)
            if (!columns_.counts(j))
                x[j] = nowhere;
        sides.mean_positive =
            sides.positives > 0 ? sum / static_cast<double>(sides.positives) : 0.0;
        const auto [most_p, most_n] = largest(row, label);
        subtract(row, label, most_p, most_n);
        exponentials(row.values, row.count);
        if (excluded >= 0)
            x[excluded] = T(0);
        for (Index j = 0; columns_.any() && j < row.count; ++j)
            x[j] *= columns_(row, j);
        const auto [sum_p, sum_n] = sums(row, label);
        constexpr double none = -std::numeric_limits<double>::infinity();
        sides.positive = most_p > nowhere ? most_p + std::log(sum_p) : none;
        sides.negative = most_n > nowhere ? most_n + std::log(sum_n) : none;

        const TwoSidedValue loss = form_.value(sides);
        if (loss.skipped)
            return row.skip();
        RowValue result;
        result.terms = loss.value > 0 ? 1 : 0;
        result.value = loss.value;
        const double p = form_.positive.slope, n = form_.negative.slope;
        weigh(row, label, sum_p > 0 ? p * loss.by_positive / sum_p : 0.0,
              sum_n > 0 ? n * loss.by_negative / sum_n : 0.0,
              sides.positives > 0 ? p * loss.by_mean_positive / static_cast<double>(sides.positives)
                                  : 0.0);
        return result;
    }

  private:
    using V = Vec<T>;

    /// Calls body(j, is positive ? a : b) for each register of the row, then for single columns.
    struct Select {
        V wanted, a, b;
        Select(T label, T a_, T b_)
            : wanted(V::broadcast(label)), a(V::broadcast(a_)), b(V::broadcast(b_)) {}
        V operator()(V labels) const {
            return where_equal(labels, wanted, a) + (b - where_equal(labels, wanted, b));
        }
    };

    /// v_j to x_j; returns the sum over positives.
    double stretch(Row<T> &row, T label) const {
        const Side &p = form_.positive, &n = form_.negative;
        const Select slope(label, static_cast<T>(p.slope), static_cast<T>(n.slope));
        const Select offset(label, static_cast<T>(p.offset), static_cast<T>(n.offset));
        const T *labels = database_labels_.data();
        V part = V::broadcast(T(0));
        double sum = 0;
        in_stretches<T>(
            row.count,
            [&](Index j) {
                const V l = V::load(labels + j);
                const V x = fma(slope(l), V::load(row.values + j), offset(l));
                x.store(row.values + j);
                part = part + where_equal(l, slope.wanted, x);
            },
            [&] { sum += horizontal_sum(part), part = V::broadcast(T(0)); },
            [&](Index j) {
                const Side &side = labels[j] == label ? p : n;
                row.values[j] =
                    static_cast<T>(side.slope) * row.values[j] + static_cast<T>(side.offset);
                sum += labels[j] == label ? static_cast<double>(row.values[j]) : 0.0;
            });
        return sum;
    }

    std::pair<double, double> largest(const Row<T> &row, T label) const {
        constexpr T low = std::numeric_limits<T>::lowest();
        const V wanted = V::broadcast(label), least = V::broadcast(low);
        const T *labels = database_labels_.data();
        V p = least, n = least;
        Index j = 0;
        for (; j + V::width <= row.count; j += V::width) {
            const V x = V::load(row.values + j), l = V::load(labels + j);
            const V own = where_equal(l, wanted, x);
            const V low_here = where_equal(l, wanted, least);
            p = max(p, own + (least - low_here));
            n = max(n, (x - own) + low_here);
        }
        T lanes[2][V::width];
        p.store(lanes[0]);
        n.store(lanes[1]);
        T most[2];
        for (int side = 0; side < 2; ++side)
            most[side] = *std::max_element(lanes[side], lanes[side] + V::width);
        for (; j < row.count; ++j) {
            T &value = most[labels[j] == label ? 0 : 1];
            value = std::max(value, row.values[j]);
        }
        return {static_cast<double>(most[0]), static_cast<double>(most[1])};
    }

    void subtract(Row<T> &row, T label, double p, double n) const {
        const Select shift(label, static_cast<T>(p), static_cast<T>(n));
        const T *labels = database_labels_.data();
        Index j = 0;
        for (; j + V::width <= row.count; j += V::width)
            (V::load(row.values + j) - shift(V::load(labels + j))).store(row.values + j);
        for (; j < row.count; ++j)
            row.values[j] -= static_cast<T>(labels[j] == label ? p : n);
    }

    std::pair<double, double> sums(const Row<T> &row, T label) const {
        const V wanted = V::broadcast(label), zero = V::broadcast(T(0));
        const T *labels = database_labels_.data();
        V p = zero, n = zero;
        double sum_p = 0, sum_n = 0;
        in_stretches<T>(
            row.count,
            [&](Index j) {
                const V e = V::load(row.values + j);
                const V own = where_equal(V::load(labels + j), wanted, e);
                p = p + own;
                n = n + (e - own);
            },
            [&] {
                sum_p += horizontal_sum(p);
                sum_n += horizontal_sum(n);
                p = n = zero;
            },
            [&](Index j) { (labels[j] == label ? sum_p : sum_n) += double(row.values[j]); });
        return {sum_p, sum_n};
    }

    /// e_j to e_j * factor of its side + (is positive ? constant : 0).
    void weigh(Row<T> &row, T label, double p, double n, double constant) const {
        const Select factor(label, static_cast<T>(p), static_cast<T>(n));
        const V c = V::broadcast(static_cast<T>(constant));
        const T *labels = database_labels_.data();
        Index j = 0;
        for (; j + V::width <= row.count; j += V::width) {
            const V l = V::load(labels + j);
            fma(V::load(row.values + j), factor(l), where_equal(l, factor.wanted, c))
                .store(row.values + j);
        }
        for (; j < row.count; ++j) {
            const bool own = labels[j] == label;
            row.values[j] = row.values[j] * static_cast<T>(own ? p : n) +
                            (own ? static_cast<T>(constant) : T(0));
        }
    }

    TwoSidedForm form_;
    RowKind kind_;
    ClassCodes labels_;
    ClassMembers members_;
    std::vector<T> database_labels_;
    ColumnWeights<T> columns_;
};

METRICFAST_NAMESPACE_END
