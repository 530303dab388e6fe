/// Logistic discriminant metric learning (Guillaumin, Verbeek, Schmid, 2009).
#pragma once

#include "metricfast/losses/softmax.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Two points are said to be of one class with probability 1 / (1 + exp(D_ij - b)). The anchor's
/// loss is the negative log-likelihood of its pairs, s_i sum_j c_j log(1 + exp(u_ij)) with
/// u_ij = D_ij - b within the class and b - D_ij without; its weights are +-s_i c_j / (1 +
/// exp(-u_ij)).
template <class T> class LdmlLoss : public RowLoss<T> {
  public:
    /// \param bias b. \param bias_gradient out: for each anchor d loss / d b.
    /// \param query_labels, database_labels class codes of n and m points.
    /// \param exclude the database rows that the engine leaves out, or null.
    /// \param anchor_weights s_i or null (1). \param column_weights, self see ColumnWeights.
    LdmlLoss(double bias, Span<double> bias_gradient, Codes query_labels, Codes database_labels,
             Codes exclude, Weights anchor_weights, Weights column_weights, Codes self)
        : bias_(bias), bias_gradient_(bias_gradient), query_labels_(query_labels),
          points_(database_labels.size()), database_labels_(padded<T>(database_labels)),
          exclude_(exclude), anchor_weights_(anchor_weights), columns_(column_weights, self) {}

    bool sparse() const override { return false; }

    void check(Index queries, Index database) const override {
        require(query_labels_.size() == queries && points_ == database,
                "LDML: there must be one label for each query and each database point");
        require(bias_gradient_.size() == queries,
                "LDML: bias_gradient must have one value a query");
        require_anchors(anchor_weights_, exclude_, queries, database);
        columns_.check(queries, database);
    }

    RowValue evaluate(Row<T> &row) const override {
        RowValue result;
        result.weight = anchor_weights_ != nullptr ? anchor_weights_[row.anchor] : 1.0;
        const std::int64_t left_out = exclude_ != nullptr ? exclude_[row.anchor] : -1;
        const T own = static_cast<T>(query_labels_[row.anchor]);
        double value = 0, slope = 0;
        // In chunks of a fixed size on the stack: aligned, so that all columns round alike.
        constexpr Index chunk = 256;
        Eigen::Array<T, chunk, 1> sign, u, small;
        for (Index first = 0; first < row.count; first += chunk) {
            const Index size = std::min(chunk, row.count - first);
            T *values = row.values + first;
            const T *labels = database_labels_.data() + first;
            for (Index k = 0; k < chunk; ++k)
                sign[k] = k < size && labels[k] == own ? T(1) : T(-1);
            const T far = std::numeric_limits<T>::max();
            for (Index k = 0; k < chunk; ++k)
                u[k] = k < size ? std::min(values[k], far) : far;
            u = sign * (u - static_cast<T>(bias_));
            if (left_out >= first && left_out < first + size)
                u[left_out - first] = -far; // certain already: no loss, no weight
            small = (-u.abs()).exp();
            sign *= (u > T(0)).select(T(1), small) / (T(1) + small);
            u = u.max(T(0));
            if (columns_.any() || sizeof(T) < sizeof(double))
                u += small.log1p();
            else // one logarithm for all: at most 2^chunk, and as many digits as the sum has
                value += std::log(static_cast<double>((T(1) + small).prod()));
            for (Index k = 0; columns_.any() && k < size; ++k) {
                const T c = columns_(row, first + k);
                sign[k] *= c;
                u[k] *= c;
            }
            value += static_cast<double>(u.head(size).sum());
            slope += static_cast<double>(sign.head(size).sum());
            for (Index k = 0; k < size; ++k)
                values[k] = static_cast<T>(result.weight) * sign[k];
        }
        result.terms = row.count - (left_out >= 0 ? 1 : 0);
        result.value = result.weight * value;
        bias_gradient_[row.anchor] = -result.weight * slope;
        return result;
    }

  private:
    double bias_;
    Span<double> bias_gradient_;
    Codes query_labels_;
    Index points_;
    std::vector<T> database_labels_;
    Codes exclude_;
    Weights anchor_weights_;
    ColumnWeights<T> columns_;
};

METRICFAST_NAMESPACE_END
