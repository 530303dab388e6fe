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
    /// \param targets (n x k) database rows of each anchor's targets, -1 for none.
    LmnnLoss(double regularization, double margin, Codes targets, Index k, ClassLabels labels)
        : regularization_(regularization), margin_(margin), targets_(targets), k_(k),
          labels_(labels) {}

    bool sparse() const override { return true; }

    void check(Index queries, Index database) const override {
        require(regularization_ >= 0 && regularization_ <= 1,
                "LMNN: regularization must be from 0 to 1");
        require(margin_ >= 0 && std::isfinite(margin_), "LMNN: margin must be finite, from 0 on");
        require(is_matrix(targets_.size(), queries, k_),
                "LMNN: there must be k targets for each query");
        labels_.check(queries, database);
        for (const std::int64_t target : targets_)
            require(target >= -1 && target < database, "LMNN: a target is outside the database");
    }

    RowValue evaluate(Row<T> &row) const override {
        RowValue result;
        const double pull = regularization_, push = 1 - regularization_;
        std::vector<Target> targets;
        const std::int64_t *wanted = targets_.data() + row.anchor * k_;
        for (Index t = 0; t < k_; ++t)
            if (wanted[t] >= 0) {
                const Index place = place_of(row, wanted[t]);
                const double d = static_cast<double>(row.values[place]);
                targets.push_back({static_cast<T>(margin_ + d), place, 0});
                result.value += pull * d;
                result.terms += d > 0;
            }
        if (targets.empty())
            return row.skip();
        std::sort(targets.begin(), targets.end(),
                  [](const Target &a, const Target &b) { return a.hinge > b.hinge; });
        for (Index first = 0; first < row.count; first += stretch)
            result.value += push * find_active(row, first, targets, -push);
        for (const Target &target : targets) {
            result.terms += target.impostors;
            row.values[target.place] +=
                static_cast<T>(pull + push * static_cast<double>(target.impostors));
        }
        return result;
    }

  private:
    static constexpr Index stretch = 512; ///< columns that stay in the nearest cache

    struct Target {
        T hinge;     ///< margin + D_it
        Index place; ///< in the row
        Index impostors;
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
    double find_active(Row<T> &row, Index first, std::vector<Target> &targets, double unit) const {
        constexpr int W = Vec<T>::width;
        const Index count = std::min(stretch, row.count - first), full = (count + W - 1) / W * W;
        T *values = row.values + first;
        alignas(64) T d[stretch], active[stretch];
        const std::int64_t label = labels_.queries[row.anchor];
        constexpr T nowhere = std::numeric_limits<T>::infinity();
        if (row.columns != nullptr)
            for (Index r = 0; r < count; ++r)
                d[r] = labels_.database[row.columns[first + r]] == label ? nowhere : values[r];
        else
            for (Index r = 0; r < count; ++r)
                d[r] = labels_.database[first + r] == label ? nowhere : values[r];
        std::fill(d + count, d + full, nowhere);
        std::fill(active, active + full, T(0));
        const Vec<T> zero = Vec<T>::broadcast(T(0)), one = Vec<T>::broadcast(T(1));
        double sum = 0;
        for (Target &target : targets) {
            const Vec<T> hinge = Vec<T>::broadcast(target.hinge);
            Vec<T> hinges = zero, impostors = zero;
            for (Index j = 0; j < full; j += W) {
                const Vec<T> x = Vec<T>::load(d + j), is = where_less(x, hinge, one);
                hinges = hinges + max(hinge - x, zero);
                impostors = impostors + is;
                (Vec<T>::load(active + j) + is).store(active + j);
            }
            const Index found = static_cast<Index>(horizontal_sum(impostors));
            if (found == 0)
                break;
            target.impostors += found;
            sum += horizontal_sum(hinges);
        }
        for (Index r = 0; r < count; ++r)
            values[r] = static_cast<T>(unit) * active[r];
        return sum;
    }

    double regularization_;
    double margin_;
    Codes targets_;
    Index k_;
    ClassLabels labels_;
};

METRICFAST_NAMESPACE_END
