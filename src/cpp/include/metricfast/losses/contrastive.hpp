/// Contrastive loss (Hadsell et al., 2006).
#pragma once

#include <array>

#include "metricfast/distance/distance.hpp"
#include "metricfast/engine/row_problem.hpp"
#include "metricfast/losses/softmax.hpp"

METRICFAST_NAMESPACE_BEGIN

/// f_p sum_p h(d - positive margin) + f_n sum_n h(negative margin - d) of plain distances d, where
/// h(x) = [x]_+ or its square.
template <class T> class ContrastiveLoss : public RowLoss<T> {
  public:
    /// Sums of the anchors' weights over pairs of one class and pairs of two classes.
    using Pairs = std::array<double, 2>;

    ContrastiveLoss(ContrastiveSettings settings, ClassLabels labels)
        : settings_(settings), labels_(labels), members_(labels_),
          database_labels_(padded<T>(labels_.database)) {}

    RowKind kind() const override { return RowKind::distance; }
    void check(Index queries, Index database) const override { labels_.check(queries, database); }

    /// Sets the divisors of both sums, by default 1. A divisor of 0 means that there are no pairs.
    void set_divisors(Pairs by) {
        unit_ = magnitude_scale(std::max(by[0], by[1])); // factors may exceed the range of T
        for (int kind = 0; kind < 2; ++kind)
            factors_[kind] = by[kind] > 0 ? 1 / (by[kind] * unit_) : 0;
    }
    double unit() const override { return unit_; }

    /// All pairs of anchors and others.
    Pairs all_pairs(const RowProblem<T> &problem) const {
        metricfast::check(problem, *this);
        Pairs sum{0, 0};
        for (Index i = 0; i < problem.queries.rows; ++i) {
            const Row<T> row{i, problem.excluded(i), problem.database.rows};
            const double same =
                static_cast<double>(members_.of(i).size()) - (members_.excludes_own(row) ? 1 : 0);
            sum[0] += problem.weight(i) * same;
            sum[1] += problem.weight(i) * (static_cast<double>(row.others()) - same);
        }
        return sum;
    }

    /// Counts pairs with a loss above 0.
    Pairs active_pairs(const RowProblem<T> &problem, const Control &control) const {
        metricfast::check(problem, *this);
        return active_pairs(problem, control, pairs_count_twice(problem),
                            [this](Index i, std::vector<T> &) { return seen_by(i); });
    }

    /// Labels of the database relative to an anchor, and the anchor's label.
    struct Seen {
        const T *labels;
        T label;
    };

    /// \param problem checked.
    /// \param half whether each pair counts equally for both points.
    /// \param see see(i, scratch) returns the labels relative to anchor i.
    template <class See>
    Pairs active_pairs(const RowProblem<T> &problem, const Control &control, bool half,
                       const See &see) const {
        const Points queries(problem.queries), database(problem.database);
        const AllPairs<T> distances(queries, database, control);
        constexpr Index rows = AllPairs<T>::block;
        const Index n = queries.rows();
        std::vector<Pairs> sums(static_cast<std::size_t>(n), Pairs{0, 0});
        parallel_blocks((n + rows - 1) / rows, control, [&](Index b, Worker &) {
            std::vector<T> scratch;
            RowMatrix<T> d(std::min(rows, n - b * rows), database.rows());
            distances.fill(b * rows, view(d), false, half ? b * rows : 0);
            for (Index r = 0; r < d.rows(); ++r) {
                const Index i = b * rows + r;
                Row<T> row{i, problem.excluded(i), d.cols(), nullptr, d.row(r).data()};
                const auto counts = hinge(row, half ? i : 0, see(i, scratch));
                const double by = half ? 2.0 : problem.weight(i);
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
        const Seen seen = seen_by(row.anchor);
        const T label = seen.label, *labels = seen.labels;
        auto x = row.array();
        result.skipped = row.others() == 0;
        const auto counts = hinge(row, 0, seen);
        result.terms = counts[0] + counts[1];
        const Vec<T> wanted = Vec<T>::broadcast(label), zero = Vec<T>::broadcast(T(0));
        Vec<T> same = zero, other = zero;
        double sums[2] = {0, 0};
        const bool square = settings_.squared_hinge;
        in_stretches<T>(
            row.count,
            [&](Index j) {
                Vec<T> h = Vec<T>::load(row.values + j);
                h = square ? h * h : h;
                const Vec<T> p = where_equal(Vec<T>::load(labels + j), wanted, h);
                same = same + p;
                other = other + (h - p);
            },
            [&] {
                sums[0] += horizontal_sum(same);
                sums[1] += horizontal_sum(other);
                same = other = zero;
            },
            [&](Index j) {
                const double h = static_cast<double>(row.values[j]);
                sums[labels[j] == label ? 0 : 1] += square ? h * h : h;
            });
        result.value = factors_[0] * sums[0] + factors_[1] * sums[1];
        const T p = static_cast<T>(factors_[0] * (square ? 2 : 1)),
                n = static_cast<T>(-factors_[1] * (square ? 2 : 1));
        for (Index j = 0; j < row.count; ++j) {
            const T slope = square ? x[j] : x[j] > T(0) ? T(1) : T(0);
            x[j] = slope * (labels[j] == label ? p : n);
        }
        return result;
    }

  private:
    Seen seen_by(Index anchor) const {
        return {database_labels_.data(), static_cast<T>(labels_.queries[anchor])};
    }

    /// Returns whether each pair counts equally for both points.
    static bool pairs_count_twice(const RowProblem<T> &problem) {
        bool same = problem.symmetric && problem.exclude != nullptr && problem.weights == nullptr;
        for (Index i = 0; same && i < problem.queries.rows; ++i)
            same = problem.exclude[i] == i;
        return same;
    }

    /// Converts distances from column `begin` on to hinges; returns the number above 0 of each
    /// kind.
    std::array<Index, 2> hinge(Row<T> &row, Index begin, const Seen &seen) const {
        const Index count = row.count - begin, excluded = row.excluded - begin;
        Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>> x(row.values + begin, count);
        const T label = seen.label;
        if (excluded >= 0)
            x[excluded] = T(0);
        const T p = static_cast<T>(settings_.positive_margin),
                n = static_cast<T>(settings_.negative_margin);
        const T *labels = seen.labels + begin;
        for (Index j = 0; j < count; ++j) {
            const T h = labels[j] == label ? x[j] - p : n - x[j];
            x[j] = h > T(0) ? h : T(0);
        }
        if (excluded >= 0)
            x[excluded] = T(0);
        std::int32_t same = 0, all = 0;
        for (Index j = 0; j < count; ++j) {
            all += x[j] > T(0) ? 1 : 0;
            same += ((x[j] > T(0)) & (labels[j] == label)) ? 1 : 0;
        }
        return {same, all - same};
    }

    ContrastiveSettings settings_;
    ClassCodes labels_;
    ClassMembers members_;
    std::vector<T> database_labels_;
    Pairs factors_{1, 1}; ///< times unit()
    double unit_ = 1;
};

METRICFAST_NAMESPACE_END
