/// Losses of smooth ranks of the anchor's class: Smooth-AP and the recall@k surrogate.
#pragma once

#include <cmath>
#include <functional>

#include "metricfast/losses/labels.hpp"
#include "metricfast/simd/exponential.hpp"

METRICFAST_NAMESPACE_BEGIN

/// The value of a point of the anchor's class, and its derivatives by both sums.
struct RankValue {
    double value;
    double by_own;
    double by_others;
};

/// Average precision (Brown et al., 2020): the share of the anchor's class among all points up to
/// the point's rank.
struct PrecisionForm {
    RankValue operator()(double own, double others, Index /*positives*/) const {
        const double all = 1 + own + others;
        return {(1 + own) / all, others / all / all, -(1 + own) / all / all};
    }
};

/// Recall@k (Patel et al., 2022): sigmoid((k - rank) / temperature), divided by the maximum number
/// of relevant ranks; the mean over several k.
struct RecallForm {
    std::vector<double> k;
    double temperature;

    RankValue operator()(double own, double others, Index positives) const {
        double value = 0, slope = 0;
        const double n = static_cast<double>(positives), size = static_cast<double>(k.size());
        for (const double each : k) {
            const double below = 1 / (1 + std::exp((1 + own + others - each) / temperature));
            const double share = n / std::min(each, n) / size;
            value += share * below;
            slope -= share * below * (1 - below) / temperature;
        }
        return {value, slope, slope};
    }
};

/// Called once for each point of the anchor's class.
using RankForm = std::function<RankValue(double own, double others, Index positives)>;

/// 1 - mean over the points p of the anchor's class of form(sum_q g(s_q - s_p), sum_n g(s_n -
/// s_p)), with g(x) = 1 / (1 + exp(-x / temperature)), q over the others of the class and n over
/// other classes, of inner products s. O(m) for each p.
template <class T> class SoftRankLoss : public RowLoss<T> {
  public:
    SoftRankLoss(RankForm form, double temperature, ClassLabels labels)
        : form_(std::move(form)), temperature_(static_cast<T>(temperature)), members_(labels) {}

    RowKind kind() const override { return RowKind::inner_product; }
    void check(Index queries, Index database) const override { members_.check(queries, database); }

    RowValue evaluate(Row<T> &row) const override {
        using Array = Eigen::Array<T, Eigen::Dynamic, 1>;
        std::vector<Index> own;
        for (const Index j : members_.of(row.anchor))
            if (j != row.excluded)
                own.push_back(j);
        const Index positives = static_cast<Index>(own.size());
        if (positives == 0 || positives == row.others())
            return row.skip();
        if (row.excluded >= 0) // ranked last
            row.values[row.excluded] = std::numeric_limits<T>::lowest();
        const Array s = row.array();
        Array above(row.count), is_own = Array::Zero(row.count);
        for (const Index q : own)
            is_own[q] = T(1);
        row.array().setZero();
        RowValue result{1, positives, 0, false};
        const double share = 1 / static_cast<double>(positives);
        for (const Index p : own) {
            above = (s[p] - s) / temperature_;
            exponentials(above.data(), row.count);
            above = (T(1) + above).inverse();
            above[p] = T(0);
            if (row.excluded >= 0)
                above[row.excluded] = T(0);
            const double of_own = static_cast<double>((above * is_own).sum());
            const RankValue found =
                form_(of_own, static_cast<double>(above.sum()) - of_own, positives);
            result.value -= share * found.value;
            const T q = static_cast<T>(-share * found.by_own),
                    n = static_cast<T>(-share * found.by_others);
            above *= (T(1) - above) / temperature_ * (n + (q - n) * is_own);
            row.array() += above;
            row.values[p] -= above.sum();
        }
        return result;
    }

  private:
    RankForm form_;
    T temperature_;
    ClassMembers members_;
};

METRICFAST_NAMESPACE_END
