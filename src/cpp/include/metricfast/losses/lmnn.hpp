/// Large margin nearest neighbours (Weinberger & Saul, 2009), targets fixed.
#pragma once

#include <algorithm>
#include <cmath>

#include "metricfast/losses/row_loss.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Anchor i with targets T_i:
///   s_i ( reg sum_t D_it + (1 - reg) sum_t sum_{l: y_l != y_i} [margin + D_it - D_il]_+ ).
/// Rows may be whole, or lists of columns that contain every target and every active l.
/// One pass over the row: with the k hinge points margin + D_it sorted, an impostor at D_il is
/// active for a suffix of them, so it costs O(log k) and not O(k).
template <class T> class LmnnLoss : public RowLoss<T> {
  public:
    /// \param targets (n x k) database rows of each anchor's targets, -1 for none.
    LmnnLoss(double regularization, double margin, const std::int64_t *targets, Index k,
             const std::int64_t *query_labels, const std::int64_t *database_labels,
             const double *anchor_weights)
        : regularization_(regularization), margin_(margin), targets_(targets), k_(k),
          query_labels_(query_labels), database_labels_(database_labels),
          anchor_weights_(anchor_weights) {}

    bool sparse() const override { return true; }

    void check(Index queries, Index database) const override {
        require(regularization_ >= 0 && regularization_ <= 1,
                "LMNN: regularization must be from 0 to 1");
        require(margin_ >= 0 && std::isfinite(margin_), "LMNN: margin must be finite, from 0 on");
        for (Index t = 0; t < queries * k_; ++t)
            require(targets_[t] >= -1 && targets_[t] < database,
                    "LMNN: a target is outside the database");
    }

    RowValue evaluate(Row<T> &row) const override {
        struct Target {
            double hinge; ///< margin + D_it
            Index column;
            double impostors; ///< active ones whose suffix starts here, then: at all
        };
        RowValue result;
        const double s = anchor_weights_ != nullptr ? anchor_weights_[row.anchor] : 1.0;
        std::vector<Target> targets;
        const std::int64_t *wanted = targets_ + row.anchor * k_;
        for (Index t = 0; t < k_; ++t)
            if (wanted[t] >= 0) {
                const double d = static_cast<double>(value_at(row, wanted[t]));
                targets.push_back({margin_ + d, static_cast<Index>(wanted[t]), 0});
                result.value += s * regularization_ * d;
            }
        result.skipped = targets.empty();
        result.weight = s;
        if (s == 0 || targets.empty())
            return result;
        std::sort(targets.begin(), targets.end(),
                  [](const Target &a, const Target &b) { return a.hinge < b.hinge; });
        const std::size_t k = targets.size();
        std::vector<double> suffix(k + 1, 0.0);
        for (std::size_t t = k; t-- > 0;)
            suffix[t] = suffix[t + 1] + targets[t].hinge;
        const double push = s * (1 - regularization_);
        const T reach = static_cast<T>(targets.back().hinge);
        const std::int64_t label = query_labels_[row.anchor];
        for (Index r = 0; r < row.count; ++r) {
            if (!(row.values[r] < reach))
                continue;
            const Index l = row.columns != nullptr ? static_cast<Index>(row.columns[r]) : r;
            if (database_labels_[l] == label)
                continue;
            const double d = static_cast<double>(row.values[r]);
            std::size_t first = 0;
            while (first < k && !(targets[first].hinge > d))
                ++first;
            if (first == k)
                continue;
            const double active = static_cast<double>(k - first);
            targets[first].impostors += 1;
            result.value += push * (suffix[first] - active * d);
            result.terms += static_cast<Index>(k - first);
            row.entries->push_back({l, static_cast<T>(-push * active)});
        }
        double impostors = 0;
        for (const Target &target : targets) {
            impostors += target.impostors;
            row.entries->push_back(
                {target.column, static_cast<T>(s * regularization_ + push * impostors)});
        }
        return result;
    }

  private:
    static T value_at(const Row<T> &row, std::int64_t column) {
        if (row.columns == nullptr)
            return row.values[column];
        const std::int64_t *end = row.columns + row.count;
        const std::int64_t *found = std::find(row.columns, end, column);
        require(found != end, "LMNN: a row's candidates must contain its targets");
        return row.values[found - row.columns];
    }

    double regularization_;
    double margin_;
    const std::int64_t *targets_;
    Index k_;
    const std::int64_t *query_labels_;
    const std::int64_t *database_labels_;
    const double *anchor_weights_;
};

METRICFAST_NAMESPACE_END
