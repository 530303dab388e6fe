/// Rank-N-Contrast (Zha et al., 2023).
#pragma once

#include <algorithm>

#include "metricfast/engine/row_loss.hpp"
#include "metricfast/losses/label_distances.hpp"

METRICFAST_NAMESPACE_BEGIN

/// With x_j = -d_ij / temperature of plain distances, the mean over the anchor's neighbours j of
/// log sum_{k in S_j} exp(x_k) - x_j, where S_j are the neighbours whose labels are at least as far
/// from the anchor's as j's. One pass over descending label distances gives all sums.
template <class T> class RankNContrastLoss : public RowLoss<T> {
  public:
    RankNContrastLoss(double temperature, LabelDistances labels)
        : factor_(-1 / temperature), labels_(labels) {}

    void check(Index queries, Index database) const override { labels_.check(queries, database); }

    RowValue evaluate(Row<T> &row) const override {
        RowValue result;
        std::vector<Neighbor> order; // farthest labels first
        for (const auto &[label, j] : labels_.order(row.anchor, row.excluded))
            order.push_back(
                {label, j, factor_ * std::sqrt(static_cast<double>(row.values[j])), 0.0});
        std::reverse(order.begin(), order.end());
        row.array().setZero();
        if (order.empty())
            return row.skip();
        const std::size_t n = order.size();
        // From far to near: the log-sum over points that are at least as far; equal within a group.
        double most = -std::numeric_limits<double>::infinity(), sum = 0;
        for_groups(order, [&](std::size_t begin, std::size_t end) {
            for (std::size_t g = begin; g < end; ++g) {
                const double x = order[g].x;
                if (x > most) {
                    sum *= std::exp(most - x);
                    most = x;
                }
                sum += std::exp(x - most);
            }
            for (std::size_t g = begin; g < end; ++g) {
                order[g].log_sum = most + std::log(sum);
                result.value += order[g].log_sum - order[g].x;
            }
        });
        result.value *= 1 / static_cast<double>(n);
        result.terms = static_cast<Index>(n);
        // From near to far: the sum over j with k in S_j of exp(log_sum_k - log_sum_j).
        std::reverse(order.begin(), order.end());
        const double s = 1 / static_cast<double>(n);
        double shares = 0, last = order.front().log_sum;
        for_groups(order, [&](std::size_t begin, std::size_t end) {
            const double log_sum = order[begin].log_sum;
            shares = shares * std::exp(log_sum - last) + static_cast<double>(end - begin);
            last = log_sum;
            for (std::size_t g = begin; g < end; ++g) {
                const double by_x = s * (shares * std::exp(order[g].x - log_sum) - 1);
                const double d = order[g].x / factor_;
                row.values[order[g].column] =
                    static_cast<T>(d > 0 ? by_x * factor_ / (2 * d) : 0.0);
            }
        });
        return result;
    }

  private:
    struct Neighbor {
        double label;
        Index column;
        double x;
        double log_sum;
    };

    template <class F> static void for_groups(const std::vector<Neighbor> &order, F &&f) {
        for (std::size_t begin = 0, end; begin < order.size(); begin = end) {
            for (end = begin; end < order.size() && order[end].label == order[begin].label;)
                ++end;
            f(begin, end);
        }
    }

    double factor_;
    LabelDistances labels_;
};

METRICFAST_NAMESPACE_END
