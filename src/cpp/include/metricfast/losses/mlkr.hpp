/// Metric learning for kernel regression (Weinberger, Tesauro, 2007).
#pragma once

#include "metricfast/losses/softmax.hpp"

METRICFAST_NAMESPACE_BEGIN

/// With p_ij = c_j exp(-D_ij) / sum_l c_l exp(-D_il) and the prediction t_i = sum_j p_ij y_j, the
/// anchor's loss is (t_i - y_i)^2 and its weights are 2 (t_i - y_i) p_ij (t_i - y_j).
template <class T> class MlkrLoss : public RowLoss<T> {
  public:
    /// \param column_weights c_j or null (1), see ColumnWeights.
    explicit MlkrLoss(Targets given, Weights column_weights = nullptr)
        : given_(given), columns_(column_weights) {
        // Relative to their mean, targets keep more digits.
        double mean = 0, square = 0;
        const double m = static_cast<double>(given.database.size());
        for (const double y : given.database)
            mean += y / m;
        const auto centred = [&](Span<const double> targets) {
            std::vector<double> result(targets.begin(), targets.end());
            for (double &y : result) {
                y -= mean;
                largest_ = std::max(largest_, std::abs(y));
            }
            return result;
        };
        const std::vector<double> queries = centred(given.queries),
                                  database = centred(given.database);
        for (const double y : database)
            square += y * y / m;
        deviation_ = std::sqrt(square);
        const double limit = static_cast<double>(std::numeric_limits<T>::max());
        require(largest_ < std::sqrt(limit / 1e6) && square < limit,
                "MLKR: the targets are too large to be squared: divide them");
        query_targets_ = padded<T>(Span<const double>(queries));
        database_targets_ = padded<T>(Span<const double>(database));
    }

    /// What is left out moves the prediction by less than a rounding of the targets' deviation.
    double window(Index columns) const override {
        if (columns_.any())
            return std::numeric_limits<double>::infinity();
        const double range = deviation_ > 0 ? 2 * largest_ / deviation_ : 1.0;
        return softmax_window<T>(columns) + std::log(std::max(range, 1.0));
    }

    void check(Index queries, Index database) const override {
        given_.check(queries, database);
        columns_.check(database);
    }

    RowValue evaluate(Row<T> &row) const override {
        columns_.admit(row);
        const double nearest = smallest(row);
        if (!std::isfinite(nearest))
            return row.skip();
        RowValue result;
        result.terms = 1;
        columns_.to_kernels(row, nearest);
        std::vector<T> scratch;
        const T *targets = of_columns(row, database_targets_, scratch);
        const T own = query_targets_[row.anchor];
        double all = 0, moment = 0;
        sum(row, targets, own, all, moment);
        const double error = moment / all; // of the prediction
        result.value = error * error;
        const T factor = static_cast<T>(2 * error / all);
        const Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>> y(targets, row.count);
        row.array() *= factor * (static_cast<T>(error) - (y - own));
        return result;
    }

  private:
    /// The kernels' sum, and that of the kernels times the targets less the anchor's own.
    static void sum(const Row<T> &row, const T *targets, T own, double &all, double &moment) {
        const Vec<T> zero = Vec<T>::broadcast(T(0)), y = Vec<T>::broadcast(own);
        Vec<T> kernels = zero, products = zero;
        in_stretches<T>(
            row.count,
            [&](Index j) {
                const Vec<T> e = Vec<T>::load(row.values + j);
                kernels = kernels + e;
                products = fma(e, Vec<T>::load(targets + j) - y, products);
            },
            [&] {
                all += horizontal_sum(kernels);
                moment += horizontal_sum(products);
                kernels = products = zero;
            },
            [&](Index j) {
                all += static_cast<double>(row.values[j]);
                moment += static_cast<double>(row.values[j] * (targets[j] - own));
            });
    }

    Targets given_;
    std::vector<T> query_targets_;
    std::vector<T> database_targets_;
    double largest_ = 0;   ///< distance of a target from the mean
    double deviation_ = 0; ///< of the database's targets
    ColumnWeights<T> columns_;
};

METRICFAST_NAMESPACE_END
