/// Circle loss (Sun et al., 2020).
#pragma once

#include "metricfast/losses/two_sided.hpp"

METRICFAST_NAMESPACE_BEGIN

/// log(1 + sum_p exp(x_p) sum_n exp(x_n)) of both sides' log-sums.
struct ProductForm {
    Side positive{1.0, 0.0}, negative{1.0, 0.0};

    TwoSidedValue operator()(const TwoSides &sides) const {
        TwoSidedValue result;
        result.skipped = sides.positives == 0 || sides.negatives == 0;
        if (!result.skipped) {
            const auto [value, slope] = softplus(sides.positive + sides.negative);
            result.value = value;
            result.by_positive = result.by_negative = slope;
        }
        return result;
    }
};

/// The product form with x_p = -gamma [1 + m - s_p]_+ (s_p - 1 + m) and x_n = gamma [s_n + m]_+
/// (s_n - m) of inner products s.
template <class T> class CircleLoss : public TwoSidedLoss<T> {
  public:
    CircleLoss(double margin, double gamma, ClassLabels labels)
        : TwoSidedLoss<T>(ProductForm{}, RowKind::inner_product, labels),
          margin_(static_cast<T>(margin)), gamma_(static_cast<T>(gamma)), labels_(labels) {}

    RowValue evaluate(Row<T> &row) const override {
        std::vector<T> slopes(static_cast<std::size_t>(row.count), T(0));
        for (Index j = 0; j < row.count; ++j) {
            const bool same = labels_.database[j] == labels_.queries[row.anchor];
            const T s = same ? T(1) - row.values[j] : row.values[j];
            const bool active = j != row.excluded && s > -margin_;
            row.values[j] = active ? gamma_ * (s + margin_) * (s - margin_) : T(0);
            slopes[j] = active ? 2 * gamma_ * (same ? -s : s) : T(0);
        }
        const RowValue result = TwoSidedLoss<T>::evaluate(row);
        for (Index j = 0; j < row.count; ++j)
            row.values[j] *= slopes[j];
        return result;
    }

  private:
    T margin_;
    T gamma_;
    ClassLabels labels_;
};

METRICFAST_NAMESPACE_END
