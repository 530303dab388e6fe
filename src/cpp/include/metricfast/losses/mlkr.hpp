/// Metric learning for kernel regression (Weinberger, Tesauro, 2007).
#pragma once

#include "metricfast/losses/softmax.hpp"

METRICFAST_NAMESPACE_BEGIN

/// With p_ij = c_j exp(-D_ij) / sum_l c_l exp(-D_il), D being squared distances or their roots, and
/// the prediction t_i = sum_j p_ij y_j, the anchor's loss is |t_i - y_i|^2 and its weights are
/// 2 p_ij (t_i - y_i).(t_i - y_j). Targets are numbers or vectors.
template <class T> class MlkrLoss : public RowLoss<T> {
  public:
    /// \param column_weights c_j or null (1), see ColumnWeights.
    explicit MlkrLoss(Targets given, Weights column_weights = nullptr, bool squared = true)
        : MlkrLoss({given.queries.data(), given.queries.size(), 1},
                   {given.database.data(), given.database.size(), 1}, column_weights, squared) {}

    /// \param queries, database targets, one vector per row.
    MlkrLoss(View<const double> queries, View<const double> database,
             Weights column_weights = nullptr, bool squared = true)
        : queries_(queries.rows), database_(database.rows), squared_(squared),
          columns_(column_weights) {
        require(queries.cols == database.cols && queries.cols > 0,
                "MLKR: targets of both sides must be of one width");
        require_finite(Points(queries), "MLKR: targets must be finite");
        require_finite(Points(database), "MLKR: targets must be finite");
        for (Index o = 0; o < queries.cols; ++o)
            add_output(queries.block(0, o, queries.rows, 1),
                       database.block(0, o, database.rows, 1));
    }

    RowKind kind() const override {
        return squared_ ? RowKind::squared_distance : RowKind::distance;
    }

    /// Points outside of the window change the prediction by less than a rounding error, relative
    /// to the targets' standard deviation.
    double window(Index columns) const override {
        if (columns_.any())
            return std::numeric_limits<double>::infinity();
        return softmax_window<T>(columns) + std::log(range_);
    }

    void check(Index queries, Index database) const override {
        require(queries_ == queries && database_ == database,
                "there must be one label for each query and each database point");
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
        using Values = Eigen::Array<T, Eigen::Dynamic, 1>;
        std::vector<T> scratch;
        Values slopes;
        for (const Output &output : outputs_) {
            const T *targets = of_columns(row, output.database, scratch);
            const T target = output.queries[row.anchor];
            double all = 0, moment = 0;
            sum(row, targets, target, all, moment);
            const double error = moment / all; // error of the prediction
            result.value += error * error;
            const T factor = static_cast<T>(2 * error / all);
            const Eigen::Map<const Values> y(targets, row.count);
            const auto slope = factor * (static_cast<T>(error) - (y - target));
            if (outputs_.size() == 1)
                row.array() *= slope;
            else if (&output == &outputs_.front())
                slopes = slope;
            else
                slopes += slope;
        }
        if (outputs_.size() > 1)
            row.array() *= slopes;
        return result;
    }

  private:
    /// One output: a column of the targets.
    struct Output {
        std::vector<T> queries, database;
    };

    void add_output(View<const double> queries, View<const double> database) {
        // Targets are centred, which keeps more digits.
        double mean = 0, square = 0, largest = 0;
        const double m = static_cast<double>(database.rows);
        for (Index j = 0; j < database.rows; ++j)
            mean += *database.row(j) / m;
        const auto centred = [&](View<const double> targets) {
            std::vector<double> result(static_cast<std::size_t>(targets.rows));
            for (Index i = 0; i < targets.rows; ++i) {
                result[static_cast<std::size_t>(i)] = *targets.row(i) - mean;
                largest = std::max(largest, std::abs(*targets.row(i) - mean));
            }
            return result;
        };
        const std::vector<double> of_queries = centred(queries), of_database = centred(database);
        for (const double y : of_database)
            square += y * y / m;
        const double limit = static_cast<double>(std::numeric_limits<T>::max());
        require(largest < std::sqrt(limit / 1e6) && square < limit,
                "MLKR: the targets are too large to be squared: divide them");
        if (square > 0)
            range_ = std::max(range_, 2 * largest / std::sqrt(square));
        outputs_.push_back({padded<T>(Span<const double>(of_queries)),
                            padded<T>(Span<const double>(of_database))});
    }

    /// The sum of the kernels, and the sum of kernels times targets minus the anchor's target.
    static void sum(const Row<T> &row, const T *targets, T target, double &all, double &moment) {
        const Vec<T> zero = Vec<T>::broadcast(T(0)), y = Vec<T>::broadcast(target);
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
                moment += static_cast<double>(row.values[j] * (targets[j] - target));
            });
    }

    Index queries_, database_;
    bool squared_;
    std::vector<Output> outputs_;
    double range_ = 1; ///< range of targets in standard deviations
    ColumnWeights<T> columns_;
};

METRICFAST_NAMESPACE_END
