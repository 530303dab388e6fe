/// Large margin nearest neighbours (Weinberger & Saul, 2009), targets fixed.
#pragma once

#include <algorithm>
#include <cmath>

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
        const Vec<T> zero = Vec<T>::broadcast(T(0));
        std::vector<Target> targets;
        const std::int64_t *rows = settings_.targets.data() + row.anchor * settings_.k;
        for (Index t = 0; t < settings_.k; ++t)
            if (rows[t] >= 0) {
                const Index place = place_of(row, rows[t]);
                const double d = static_cast<double>(row.values[place]);
                targets.push_back({static_cast<T>(settings_.margin + d), place, 0, zero, zero});
                result.value += pull * d;
                result.terms += d > 0;
            }
        if (targets.empty())
            return row.skip();
        std::sort(targets.begin(), targets.end(),
                  [](const Target &a, const Target &b) { return a.hinge > b.hinge; });
        std::vector<T> scratch;
        const T *labels = of_columns(row, database_labels_, scratch);
        for (Index first = 0; first < row.count; first += stretch)
            result.value += push * find_active(row, labels, first, targets, -push);
        for (const Target &target : targets) {
            result.terms += target.impostors;
            row.values[target.place] +=
                static_cast<T>(pull + push * static_cast<double>(target.impostors));
        }
        return result;
    }

  private:
    static constexpr Index stretch = 512; ///< columns whose hinges are summed in T

    struct Target {
        T hinge;     ///< margin + D_it
        Index place; ///< in the row
        Index impostors;
        Vec<T> hinges, active; ///< sums over the columns of a stretch
    };

    static Index place_of(const Row<T> &row, std::int64_t column) {
        if (row.columns == nullptr)
            return static_cast<Index>(column);
        const std::int64_t *end = row.columns + row.count;
        const std::int64_t *found = std::find(row.columns, end, column);
        require(found != end, "LMNN: a row's candidates must contain its targets");
        return found - row.columns;
    }

    /// Sum of the hinges of a stretch of columns, whose values become `unit` times the number of
    /// hinges that each is active in. Targets come with the largest hinge first.
    double find_active(Row<T> &row, const T *labels, Index first, std::vector<Target> &targets,
                       double unit) const {
        using V = Vec<T>;
        const V zero = V::broadcast(T(0)), one = V::broadcast(T(1));
        const V label = V::broadcast(static_cast<T>(labels_.queries[row.anchor]));
        const V nowhere = V::broadcast(std::numeric_limits<T>::infinity());
        const V factor = V::broadcast(static_cast<T>(unit));
        const V largest = V::broadcast(targets.front().hinge);
        for (Target &target : targets)
            target.hinges = target.active = zero;
        detail::for_registers(
            row.values + first, std::min(stretch, row.count - first),
            [&](V d, Index j) METRICFAST_INLINE {
                const V x = d + where_equal(V::load(labels + first + j), label, nowhere);
                if (less(x, largest) == 0)
                    return zero;
                V active = zero;
                for (Target &target : targets) {
                    const V hinge = V::broadcast(target.hinge), is = where_less(x, hinge, one);
                    target.hinges = target.hinges + max(hinge - x, zero);
                    target.active = target.active + is;
                    active = active + is;
                }
                return factor * active;
            },
            std::numeric_limits<T>::infinity());
        double sum = 0;
        for (Target &target : targets) {
            target.impostors += static_cast<Index>(horizontal_sum(target.active));
            sum += horizontal_sum(target.hinges);
        }
        return sum;
    }

    LmnnSettings settings_;
    ClassCodes labels_;
    std::vector<T> database_labels_;
};

METRICFAST_NAMESPACE_END
