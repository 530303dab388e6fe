/// Losses of smooth ranks of the anchor's class: Smooth-AP and the recall@k surrogate.
#pragma once

#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "metricfast/core/pool.hpp"
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
    RankValue operator()(double positives_above, double others, Index /*positives*/) const {
        const double all = 1 + positives_above + others;
        return {(1 + positives_above) / all, others / all / all,
                -(1 + positives_above) / all / all};
    }
};

/// Recall@k (Patel et al., 2022): sigmoid((k - rank) / temperature), divided by the maximum number
/// of relevant ranks; the mean over several k.
struct RecallForm {
    std::vector<double> k;
    double temperature;

    RankValue operator()(double positives_above, double others, Index positives) const {
        double value = 0, slope = 0;
        const double n = static_cast<double>(positives), size = static_cast<double>(k.size());
        for (const double each : k) {
            const double below =
                1 / (1 + std::exp((1 + positives_above + others - each) / temperature));
            const double share = n / std::min(each, n) / size;
            value += share * below;
            slope -= share * below * (1 - below) / temperature;
        }
        return {value, slope, slope};
    }
};

/// Called once for each point of the anchor's class.
using RankForm = std::function<RankValue(double positives_above, double others, Index positives)>;

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
        std::vector<Index> members;
        for (const Index j : members_.of(row.anchor))
            if (j != row.excluded)
                members.push_back(j);
        const Index positives = static_cast<Index>(members.size());
        if (positives == 0 || positives == row.others())
            return row.skip();
        using V = Vec<T>;
        constexpr T last = std::numeric_limits<T>::lowest(); // of which nothing is above
        const auto memory = memory_.borrow();
        const std::size_t size = static_cast<std::size_t>(row.count + V::width);
        memory->similarities.assign(row.values, row.values + row.count);
        memory->similarities.resize(size, last);
        memory->above.resize(size);
        memory->is_own.assign(size, T(0));
        T *const s = memory->similarities.data(), *const above = memory->above.data();
        if (row.excluded >= 0)
            s[row.excluded] = last;
        for (const Index q : members)
            memory->is_own[q] = T(1);
        row.array().setZero();
        RowValue result{1, positives, 0, false};
        const double share = 1 / static_cast<double>(positives);
        const double slope = share / static_cast<double>(temperature_);
        const V one = V::broadcast(T(1)), sharpness = V::broadcast(1 / temperature_);
        for (const Index p : members) {
            const T at = std::exchange(s[p], last);
            const V similarity = V::broadcast(at);
            const double all =
                detail::change_and_sum(above, row.count, [&](V, Index j) METRICFAST_INLINE {
                    const V x = (similarity - V::load(s + j)) * sharpness;
                    const V g = one / (one + exponential(x));
                    return std::make_pair(g, g);
                });
            s[p] = at;
            double of_own = 0;
            for (const Index q : members)
                of_own += static_cast<double>(above[q]);
            const RankValue found = form_(of_own, all - of_own, positives);
            result.value -= share * found.value;
            const V by_other = V::broadcast(static_cast<T>(-slope * found.by_others));
            const V by_own = V::broadcast(static_cast<T>(-slope * found.by_own)) - by_other;
            const double steep = detail::change_and_sum(
                row.values, row.count, [&](V sum, Index j) METRICFAST_INLINE {
                    const V g = V::load(above + j),
                            factor = fma(by_own, V::load(memory->is_own.data() + j), by_other);
                    const V by = g * (one - g) * factor;
                    return std::make_pair(sum + by, by);
                });
            row.values[p] -= static_cast<T>(steep);
        }
        return result;
    }

  private:
    RankForm form_;
    T temperature_;
    ClassMembers members_;

    struct Memory {
        std::vector<T> similarities, above, is_own;
    };
    mutable Pool<Memory> memory_;
};

METRICFAST_NAMESPACE_END
