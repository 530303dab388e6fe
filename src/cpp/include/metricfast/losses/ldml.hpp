/// Logistic discriminant metric learning (Guillaumin, Verbeek, Schmid, 2009).
#pragma once

#include "metricfast/losses/softmax.hpp"

METRICFAST_NAMESPACE_BEGIN

/// The probability that two points have the same class is 1 / (1 + exp(D_ij - b)). The anchor's
/// loss is the negative log-likelihood of its pairs, sum_j c_j log(1 + exp(u_ij)) with u_ij = D_ij
/// - b within the class and b - D_ij between classes; its weights are +-c_j / (1 + exp(-u_ij)).
template <class T> class LdmlLoss : public RowLoss<T> {
  public:
    /// \param bias b.
    /// \param bias_gradient out: for each anchor d loss / d b.
    /// \param column_weights c_j or null (1), see ColumnWeights.
    LdmlLoss(double bias, Span<double> bias_gradient, ClassLabels labels,
             Weights column_weights = nullptr)
        : bias_(bias), bias_gradient_(bias_gradient), labels_(labels),
          database_labels_(padded<T>(labels_.database)), columns_(column_weights) {}

    void check(Index queries, Index database) const override {
        labels_.check(queries, database);
        require(bias_gradient_.size() == queries,
                "LDML: bias_gradient must have one value per query");
        columns_.check(database);
    }

    RowValue evaluate(Row<T> &row) const override {
        RowValue result;
        columns_.admit(row);
        const Index left_out = columns_.excluded(row);
        const T label = static_cast<T>(labels_.queries[row.anchor]);
        double value = 0, slope = 0;
        // In chunks of a fixed size on the stack, which are aligned, so that all columns round
        // equally.
        constexpr Index chunk = 256;
        Eigen::Array<T, chunk, 1> sign, u, small;
        for (Index first = 0; first < row.count; first += chunk) {
            const Index size = std::min(chunk, row.count - first);
            T *values = row.values + first;
            const T *labels = database_labels_.data() + first;
            for (Index k = 0; k < chunk; ++k)
                sign[k] = k < size && labels[k] == label ? T(1) : T(-1);
            const T far = std::numeric_limits<T>::max();
            for (Index k = 0; k < chunk; ++k)
                u[k] = k < size ? std::min(values[k], far) : far;
            u = sign * (u - static_cast<T>(bias_));
            if (left_out >= first && left_out < first + size)
                u[left_out - first] = -far; // neither loss nor weight
            small = -u.abs();
            exponentials(small.data(), chunk);
            sign *= (u > T(0)).select(T(1), small) / (T(1) + small);
            u = u.max(T(0));
            if (columns_.any() || sizeof(T) < sizeof(double))
                u += small.log1p();
            else // one logarithm of the product, which is at most 2^chunk
                value += std::log(static_cast<double>((T(1) + small).prod()));
            for (Index k = 0; columns_.any() && k < size; ++k) {
                const T c = columns_(row, first + k);
                sign[k] *= c;
                u[k] *= c;
            }
            value += static_cast<double>(u.head(size).sum());
            slope += static_cast<double>(sign.head(size).sum());
            for (Index k = 0; k < size; ++k)
                values[k] = sign[k];
        }
        result.terms = row.count - (left_out >= 0 ? 1 : 0);
        result.value = value;
        bias_gradient_[row.anchor] = -slope;
        return result;
    }

  private:
    double bias_;
    Span<double> bias_gradient_;
    ClassCodes labels_;
    std::vector<T> database_labels_;
    ColumnWeights<T> columns_;
};

METRICFAST_NAMESPACE_END
