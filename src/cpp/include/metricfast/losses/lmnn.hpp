/// Large margin nearest neighbours (Weinberger & Saul, 2009), targets fixed.
#pragma once

#include <algorithm>
#include <cmath>

#include "metricfast/losses/hinges.hpp"
#include "metricfast/losses/labels.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Anchor i with targets T_i:
///   reg sum_t D_it + (1 - reg) sum_t sum_{l: y_l != y_i} [margin + D_it - D_il]_+.
/// Its terms are the distances and the hinges above 0.
/// Rows may be whole, or lists of columns that contain every target and every active l.
template <class T> class LmnnLoss : public RowLoss<T> {
  public:
    LmnnLoss(const LmnnSettings &settings, ClassLabels labels)
        : settings_(settings), labels_(labels), database_labels_(padded<T>(labels_.database)) {}

    bool sparse() const override { return true; }

    void check(Index queries, Index database) const override {
        require(settings_.regularization >= 0 && settings_.regularization <= 1,
                "LMNN: regularization must be from 0 to 1");
        require(settings_.margin >= 0 && std::isfinite(settings_.margin),
                "LMNN: margin must be finite, from 0 on");
        require(is_matrix(settings_.targets.size(), queries, settings_.k),
                "LMNN: there must be k targets for each query");
        labels_.check(queries, database);
        for (const std::int64_t target : settings_.targets)
            require(target >= -1 && target < database, "LMNN: a target is outside the database");
    }

    RowValue evaluate(Row<T> &row) const override {
        RowValue result;
        const double pull = settings_.regularization, push = 1 - settings_.regularization;
        std::vector<HingeLimit<T>> targets;
        const std::int64_t *rows = settings_.targets.data() + row.anchor * settings_.k;
        for (Index t = 0; t < settings_.k; ++t)
            if (rows[t] >= 0) {
                const Index place = place_of(row, rows[t]);
                const double d = static_cast<double>(row.values[place]);
                targets.push_back({static_cast<T>(settings_.margin + d), place});
                result.value += pull * d;
                result.terms += d > 0;
            }
        if (targets.empty())
            return row.skip();
        std::sort(targets.begin(), targets.end(),
                  [](const auto &a, const auto &b) { return a.value > b.value; });
        std::vector<T> scratch;
        const T *labels = of_columns(row, database_labels_, scratch);
        using V = Vec<T>;
        const V label = V::broadcast(static_cast<T>(labels_.queries[row.anchor]));
        const V nowhere = V::broadcast(std::numeric_limits<T>::infinity());
        result.value +=
            push * sum_hinges(row.values, row.count, targets, -push,
                              [label, nowhere, labels](V d, Index j) METRICFAST_INLINE {
                                  return d + where_equal(V::load(labels + j), label, nowhere);
                              });
        for (const HingeLimit<T> &target : targets) {
            result.terms += target.above;
            row.values[target.column] +=
                static_cast<T>(pull + push * static_cast<double>(target.above));
        }
        return result;
    }

  private:
    static Index place_of(const Row<T> &row, std::int64_t column) {
        if (row.columns == nullptr)
            return static_cast<Index>(column);
        const std::int64_t *end = row.columns + row.count;
        const std::int64_t *found = std::find(row.columns, end, column);
        require(found != end, "LMNN: a row's candidates must contain its targets");
        return found - row.columns;
    }

    LmnnSettings settings_;
    ClassCodes labels_;
    std::vector<T> database_labels_;
};

/// The push of LMNN alone, of anchors whose targets are under another metric: sum_tj [l_it -
/// D_ij]_+ for limits l_it, which are the margin plus the distance to target t.
template <class T> class LmnnPushLoss : public RowLoss<T> {
  public:
    explicit LmnnPushLoss(const LmnnPushSettings &settings) : settings_(settings) {}

    bool sparse() const override { return true; }

    void check(Index queries, Index) const override {
        const auto &[limits, above] = settings_;
        require(limits.rows == queries && limits.cols > 0,
                "LMNN: there must be limits for each query");
        require(above.rows == queries && above.cols == limits.cols,
                "LMNN: there must be a number of hinges for each limit");
    }

    RowValue evaluate(Row<T> &row) const override {
        const double *const limit = settings_.limits.row(row.anchor);
        std::vector<HingeLimit<T>> limits;
        for (Index t = 0; t < settings_.limits.cols; ++t)
            limits.push_back({static_cast<T>(limit[t]), t});
        std::sort(limits.begin(), limits.end(),
                  [](const auto &a, const auto &b) { return a.value > b.value; });
        RowValue result;
        result.value = sum_hinges(row.values, row.count, limits, -1.0,
                                  [](Vec<T> d, Index) METRICFAST_INLINE { return d; });
        for (const HingeLimit<T> &each : limits) {
            result.terms += each.above;
            settings_.above.row(row.anchor)[each.column] = static_cast<double>(each.above);
        }
        return result;
    }

  private:
    LmnnPushSettings settings_;
};

METRICFAST_NAMESPACE_END
