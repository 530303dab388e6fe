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
        const bool excludes_positive = members_.excludes_own(row);
        if (excluded >= 0)
            x[excluded] = T(0);
        TwoSides sides;
        sides.positives =
            static_cast<Index>(members_.of(row.anchor).size()) - (excludes_positive ? 1 : 0);
        sides.negatives = row.others() - sides.positives;
        double sum = stretch(row, label);
        constexpr T nowhere = std::numeric_limits<T>::lowest();
        if (excluded >= 0) {
            sum -= excludes_positive ? static_cast<double>(x[excluded]) : 0.0;
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

    /// a for positives, else b.
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
        return change_and_sum(row, [&](V v, V l) METRICFAST_INLINE {
            const V x = fma(slope(l), v, offset(l));
            return std::pair(x, where_equal(l, slope.wanted, x));
        });
    }

    std::pair<double, double> largest(Row<T> &row, T label) const {
        constexpr T low = std::numeric_limits<T>::lowest();
        const V wanted = V::broadcast(label), least = V::broadcast(low);
        V p = least, n = least;
        change(
            row,
            [&](V x, V l) METRICFAST_INLINE {
                const V positive = where_equal(l, wanted, x),
                        low_here = where_equal(l, wanted, least);
                p = max(p, positive + (least - low_here));
                n = max(n, (x - positive) + low_here);
                return x;
            },
            low);
        T lanes[2][V::width];
        p.store(lanes[0]);
        n.store(lanes[1]);
        const auto most = [](const T *x) {
            return static_cast<double>(*std::max_element(x, x + V::width));
        };
        return {most(lanes[0]), most(lanes[1])};
    }

    void subtract(Row<T> &row, T label, double p, double n) const {
        const Select shift(label, static_cast<T>(p), static_cast<T>(n));
        change(row, [&](V x, V l) METRICFAST_INLINE { return x - shift(l); });
    }

    std::pair<double, double> sums(Row<T> &row, T label) const {
        const V wanted = V::broadcast(label);
        const double p = change_and_sum(row, [&](V e, V l) METRICFAST_INLINE {
            return std::pair(e, where_equal(l, wanted, e));
        });
        const double n = change_and_sum(row, [&](V e, V l) METRICFAST_INLINE {
            return std::pair(e, e - where_equal(l, wanted, e));
        });
        return {p, n};
    }

    /// e_j to e_j * factor of its side + (is positive ? constant : 0).
    void weigh(Row<T> &row, T label, double p, double n, double constant) const {
        const Select factor(label, static_cast<T>(p), static_cast<T>(n));
        const V c = V::broadcast(static_cast<T>(constant));
        change(row, [&](V e, V l) METRICFAST_INLINE {
            return fma(e, factor(l), where_equal(l, factor.wanted, c));
        });
    }

    /// Replaces the values of a row by step(values, labels), register by register.
    template <class Step> void change(Row<T> &row, Step &&step, T rest = T(0)) const {
        const T *labels = database_labels_.data();
        detail::for_registers(
            row.values, row.count,
            [&](V x, Index j) METRICFAST_INLINE { return step(x, V::load(labels + j)); }, rest);
    }

    /// The same with the first of what step() returns; returns the sum of the second.
    template <class Step> double change_and_sum(Row<T> &row, Step &&step) const {
        const T *labels = database_labels_.data();
        return detail::change_and_sum(row.values, row.count, [&](V x, Index j) METRICFAST_INLINE {
            return step(x, V::load(labels + j));
        });
    }

    TwoSidedForm form_;
    RowKind kind_;
    ClassCodes labels_;
    ClassMembers members_;
    std::vector<T> database_labels_;
    ColumnWeights<T> columns_;
};

METRICFAST_NAMESPACE_END
