/// Normalised temperature-scaled cross entropy (Sohn, 2016; Chen et al., 2020).
#pragma once

#include "metricfast/losses/two_sided.hpp"

METRICFAST_NAMESPACE_BEGIN

/// sum_p log(1 + sum_n exp((s_n - s_p) / t)), with inner products s, the temperature t, p over the
/// anchor's class and n over the others. Each p is an active term.
template <class T> class NtxentLoss : public RowLoss<T> {
  public:
    NtxentLoss(double temperature, ClassLabels labels)
        : factor_(1 / temperature), members_(labels) {}

    RowKind kind() const override { return RowKind::inner_product; }
    void check(Index queries, Index database) const override { members_.check(queries, database); }

    RowValue evaluate(Row<T> &row) const override {
        auto x = row.array();
        const Index excluded = row.excluded;
        constexpr T nowhere = std::numeric_limits<T>::lowest();
        if (excluded >= 0)
            x[excluded] = T(0);
        x *= static_cast<T>(factor_);
        std::vector<std::pair<Index, double>> positives;
        for (const Index j : members_.of(row.anchor)) {
            if (j != excluded)
                positives.emplace_back(j, static_cast<double>(x[j]));
            x[j] = nowhere;
        }
        if (excluded >= 0)
            x[excluded] = nowhere;
        if (positives.empty())
            return row.skip();
        const T most = x.maxCoeff();
        if (!(most > nowhere))
            return row.skip();
        RowValue result;
        x -= most;
        exponentials(row.values, row.count);
        for (const Index j : members_.of(row.anchor))
            x[j] = T(0);
        if (excluded >= 0)
            x[excluded] = T(0);
        const double sum = sum_of(row.values, row.count);
        const double negative = static_cast<double>(most) + std::log(sum);
        double pulled = 0;
        const double s = factor_;
        std::vector<T> by_positive;
        for (const auto &[j, value] : positives) {
            const auto [loss, slope] = softplus(negative - value);
            result.value += loss;
            pulled += slope;
            by_positive.push_back(static_cast<T>(-s * slope));
        }
        result.terms = static_cast<Index>(positives.size());
        x *= static_cast<T>(s * pulled / sum);
        for (std::size_t p = 0; p < positives.size(); ++p)
            x[positives[p].first] = by_positive[p];
        return result;
    }

  private:
    double factor_;
    ClassMembers members_;
};

METRICFAST_NAMESPACE_END
