/// Contrastive loss (Hadsell et al., 2006).
#pragma once

#include <array>

#include "metricfast/distance.hpp"
#include "metricfast/losses/class_members.hpp"
#include "metricfast/losses/softmax.hpp"

METRICFAST_NAMESPACE_BEGIN

struct ContrastiveSettings {
    double positive_margin = 0;
    double negative_margin = 1;
    bool squared_hinge = false;
};

/// f_p sum_p h(d - positive margin) + f_n sum_n h(negative margin - d) of plain distances d, where
/// h(x) = [x]_+ or its square.
template <class T> class ContrastiveLoss : public RowLoss<T> {
  public:
    /// Of pairs of one class and of two: sums of the anchors' weights.
    using Pairs = std::array<double, 2>;

    /// \param exclude as the engine's; null: none. \param anchor_weights s_i; null: 1.
    ContrastiveLoss(ContrastiveSettings settings, Codes query_labels, Codes database_labels,
                    Codes exclude, Weights anchor_weights)
        : settings_(settings), query_labels_(query_labels), members_(query_labels, database_labels),
          database_labels_(padded<T>(database_labels)), exclude_(exclude),
          anchor_weights_(anchor_weights) {}

    bool sparse() const override { return false; }
    void check(Index queries, Index database) const override {
        members_.check(queries, database);
        require_anchors(anchor_weights_, exclude_, queries, database);
    }

    /// f_p and f_n; 1 unless set.
    void set_factors(Pairs factors) { factors_ = factors; }

    /// All pairs of anchors and others.
    Pairs all_pairs(Index n, Index m) const {
        Pairs sum{0, 0};
        for (Index i = 0; i < n; ++i) {
            const Index excluded = exclude_ != nullptr ? exclude_[i] : -1;
            const double own =
                static_cast<double>(members_.of(i).size()) - (is_positive(i, excluded) ? 1 : 0);
            sum[0] += weight(i) * own;
            sum[1] += weight(i) * (static_cast<double>(m - (excluded >= 0 ? 1 : 0)) - own);
        }
        return sum;
    }

    /// Pairs with a loss above 0.
    Pairs active_pairs(View<const T> queries, View<const T> database,
                       const Control &control) const {
        const Points q(queries), x(database);
        const AllPairs<T> distances(q, x, control);
        const bool half = pairs_count_twice(queries, database);
        constexpr Index rows = AllPairs<T>::block;
        std::vector<Pairs> sums(static_cast<std::size_t>(queries.rows), Pairs{0, 0});
        parallel_blocks((queries.rows + rows - 1) / rows, control, [&](Index b, Worker &) {
            RowMatrix<T> d(std::min(rows, queries.rows - b * rows), database.rows);
            distances.fill(b * rows, view(d), true, half ? b * rows : 0);
            for (Index r = 0; r < d.rows(); ++r) {
                const Index i = b * rows + r;
                Row<T> row{i, d.cols(), nullptr, d.row(r).data()};
                const auto counts = hinge(row, half ? i : 0);
                const double by = half ? 2.0 : weight(i);
                sums[i] = {by * static_cast<double>(counts[0]),
                           by * static_cast<double>(counts[1])};
            }
        });
        Pairs sum{0, 0};
        for (const Pairs &each : sums)
            sum[0] += each[0], sum[1] += each[1];
        return sum;
    }

    RowValue evaluate(Row<T> &row) const override {
        RowValue result;
        result.weight = weight(row.anchor);
        const double s = result.weight;
        const T label = static_cast<T>(query_labels_[row.anchor]);
        Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>> x(row.values, row.count);
        const Index excluded = exclude_ != nullptr ? exclude_[row.anchor] : -1;
        result.skipped = row.count == (excluded >= 0 ? 1 : 0);
        std::vector<T> roots;
        const auto counts = hinge(row, 0, &roots);
        result.terms = s > 0 ? counts[0] + counts[1] : 0;
        const T *labels = database_labels_.data();
        const Vec<T> wanted = Vec<T>::broadcast(label), zero = Vec<T>::broadcast(T(0));
        Vec<T> own = zero, other = zero;
        double sums[2] = {0, 0};
        const bool square = settings_.squared_hinge;
        in_stretches<T>(
            row.count,
            [&](Index j) {
                Vec<T> h = Vec<T>::load(row.values + j);
                h = square ? h * h : h;
                const Vec<T> p = where_equal(Vec<T>::load(labels + j), wanted, h);
                own = own + p;
                other = other + (h - p);
            },
            [&] {
                sums[0] += horizontal_sum(own);
                sums[1] += horizontal_sum(other);
                own = other = zero;
            },
            [&](Index j) {
                const double h = static_cast<double>(row.values[j]);
                sums[labels[j] == label ? 0 : 1] += square ? h * h : h;
            });
        result.value = s * (factors_[0] * sums[0] + factors_[1] * sums[1]);
        // d hinge / d D = +-1 / (2 d), times twice the hinge where that is squared.
        const T p = static_cast<T>(s * factors_[0] * (square ? 1 : 0.5)),
                n = static_cast<T>(-s * factors_[1] * (square ? 1 : 0.5));
        for (Index j = 0; j < row.count; ++j) {
            const T slope = square ? x[j] : x[j] > T(0) ? T(1) : T(0);
            const T by_root = roots[j] > T(0) ? slope / roots[j] : T(0);
            x[j] = by_root * (labels[j] == label ? p : n);
        }
        return result;
    }

  private:
    double weight(Index i) const { return anchor_weights_ != nullptr ? anchor_weights_[i] : 1.0; }

    bool is_positive(Index i, Index j) const {
        return j >= 0 && database_labels_[j] == static_cast<T>(query_labels_[i]);
    }

    /// Whether each pair of two points counts for both, and alike.
    bool pairs_count_twice(View<const T> queries, View<const T> database) const {
        bool same = queries.data == database.data && queries.rows == database.rows &&
                    exclude_ != nullptr && anchor_weights_ == nullptr;
        for (Index i = 0; same && i < queries.rows; ++i)
            same = exclude_[i] == i;
        return same;
    }

    /// Squared distances from column `begin` on to hinges; returns how many are above 0 of each
    /// kind.
    std::array<Index, 2> hinge(Row<T> &row, Index begin, std::vector<T> *roots = nullptr) const {
        const Index count = row.count - begin;
        Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>> x(row.values + begin, count);
        const Index excluded = exclude_ != nullptr ? exclude_[row.anchor] - begin : -1;
        const T label = static_cast<T>(query_labels_[row.anchor]);
        if (excluded >= 0)
            x[excluded] = T(0);
        square_roots(x.data(), count);
        if (roots != nullptr)
            roots->assign(row.values, row.values + row.count);
        const T p = static_cast<T>(settings_.positive_margin),
                n = static_cast<T>(settings_.negative_margin);
        const T *labels = database_labels_.data() + begin;
        for (Index j = 0; j < count; ++j) {
            const T h = labels[j] == label ? x[j] - p : n - x[j];
            x[j] = h > T(0) ? h : T(0);
        }
        if (excluded >= 0)
            x[excluded] = T(0);
        std::int32_t own = 0, all = 0;
        for (Index j = 0; j < count; ++j) {
            all += x[j] > T(0) ? 1 : 0;
            own += ((x[j] > T(0)) & (labels[j] == label)) ? 1 : 0;
        }
        return {own, all - own};
    }

    ContrastiveSettings settings_;
    Codes query_labels_;
    ClassMembers members_;
    std::vector<T> database_labels_;
    Codes exclude_;
    Weights anchor_weights_;
    Pairs factors_{1, 1};
};

METRICFAST_NAMESPACE_END
