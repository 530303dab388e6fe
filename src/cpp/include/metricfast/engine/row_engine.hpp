/// Value and gradient of any row loss.
///
/// Rows are shared out over a fixed number of lanes; a lane handles its blocks in order and owns an
/// accumulator of the database-side gradient, and lanes are added in order at the end. Nothing
/// depends on the number of threads, so results are bit-identical for any of them.
#pragma once

#include <memory>
#include <mutex>

#include "metricfast/core/work.hpp"
#include "metricfast/distance/distance.hpp"
#include "metricfast/engine/database_gradient.hpp"
#include "metricfast/engine/kept_gradient.hpp"
#include "metricfast/engine/row_plan.hpp"
#include "metricfast/simd/product.hpp"

METRICFAST_NAMESPACE_BEGIN

template <class T> class RowEngine {
  public:
    RowEngine(const RowProblem<T> &problem, const RowLoss<T> &loss, const Control &control)
        : problem_(problem), loss_(loss),
          control_(worth_it(control, static_cast<double>(problem.queries.rows) *
                                         static_cast<double>(problem.database.rows) *
                                         static_cast<double>(problem.queries.cols + 32))),
          query_points_(problem.queries), database_points_(problem.database), sides_(loss.kind()) {
        problem.check(loss);
        require_finite(query_points_, "coordinates must be finite");
        require_finite(database_points_, "coordinates must be finite");
    }

    /// Writes the gradients (same shapes as the points; `grad_database` is ignored when symmetric).
    RowTotals value_and_gradient(View<T> grad_queries, View<T> grad_database) {
        require(grad_queries.rows == n() && grad_queries.cols == p(),
                "row engine: the gradient must have the queries' shape");
        require(problem_.symmetric || (grad_database.rows == m() && grad_database.cols == p()),
                "row engine: the gradient must have the database's shape");
        sides_.set(problem_);
        search_windows();
        const RowPlan plan(problem_, near_ != nullptr, loss_.sparse());
        if (plan.keeps())
            renew(weights_, n(), m() + 64 / static_cast<Index>(sizeof(T)));
        std::vector<Lane> lanes(static_cast<std::size_t>(plan.lanes));
        const Index blocks = (n() + plan.block - 1) / plan.block;
        parallel_blocks(
            plan.lanes, control_,
            [&](Index l, Worker &worker) {
                Lane &lane = lanes[l];
                lane.database.set_capacity(plan.memory);
                for (Index b = l; b < blocks; b += plan.lanes) {
                    const Index first = b * plan.block;
                    run_block(plan, lane, first, std::min(plan.block, n() - first), grad_queries);
                    worker.advance();
                }
                lane.database.finish(sides_);
                lane.release_scratch();
            },
            blocks);
        RowTotals totals;
        for (const Lane &lane : lanes)
            totals.add(lane.totals);
        totals.anchors = n() - totals.skipped;
        const double factor = totals.factor(problem_.reduction);
        totals.value *= factor;
        if (plan.route == RowPlan::Route::kept)
            symmetric_gradient<T>(sides_, weights_, factor, grad_queries, silent());
        else if (plan.route == RowPlan::Route::batch)
            batch_gradient<T>(sides_, weights_, factor, grad_queries, grad_database, silent());
        else
            gather(lanes, static_cast<T>(factor), grad_queries, grad_database);
        return totals;
    }

  private:
    struct Lane {
        DatabaseShare<T> database;
        RowTotals totals;
        RowMatrix<T> values; ///< of a block of whole rows
        // Aligned: vectorised exp peels unaligned ends, which round otherwise.
        AlignedVector<T> listed; ///< of a row
        AlignedVector<T> roots;
        WindowLists near;
        Index failures = 0;   ///< window searches in a row that found too much
        Index unsearched = 0; ///< blocks since then

        void release_scratch() {
            values.resize(0, 0);
            near = {};
        }
    };

    Index n() const { return problem_.queries.rows; }
    Index m() const { return problem_.database.rows; }
    Index p() const { return problem_.queries.cols; }

    void search_windows() {
        constexpr Index few = 256; // of which lists gain nothing
        const double window = loss_.window(m());
        if (m() <= few || problem_.listed() || sides_.kind != RowKind::squared_distance ||
            !std::isfinite(window))
            return;
        near_.reset(
            new WindowSearch(query_points_, database_points_, problem_.exclude, window, control_));
        const Index probe = std::min<Index>(n(), TileShape<float>::rows);
        WindowLists found;
        if (RowPlan::is_small(problem_) && !near_->find(0, probe, probe * m() / 8, found))
            near_.reset(); // few points, and windows hold too many of them
    }

    void run_block(const RowPlan &plan, Lane &lane, Index first, Index count,
                   View<T> grad_queries) const {
        if (plan.route == RowPlan::Route::listed) {
            const auto &given = problem_.candidates;
            for (Index i = first; i < first + count; ++i)
                run_listed_row(lane, i, given.columns.data() + given.row_starts[i],
                               given.row_starts[i + 1] - given.row_starts[i], grad_queries);
        } else if (near_ && found_near(lane, first, count)) {
            for (Index r = 0; r < count; ++r)
                run_listed_row(lane, first + r, lane.near.columns.data() + lane.near.starts[r],
                               lane.near.starts[r + 1] - lane.near.starts[r], grad_queries);
        } else {
            for (Index done = 0; done < count; done += plan.dense)
                run_whole_rows(plan, lane, first + done, std::min(plan.dense, count - done),
                               grad_queries);
        }
    }

    /// A listed entry costs about eight times one of a whole row. Where windows hold more, as early
    /// in a training, few searches are wasted on finding out, and those end with the block's first
    /// rows.
    bool found_near(Lane &lane, Index first, Index count) const {
        constexpr Index patience = 2, pause = 16;
        if (lane.failures >= patience && ++lane.unsearched % pause != 0)
            return false;
        const auto find = [&](Index rows) {
            return near_->find(first, rows, rows * m() / 8, lane.near);
        };
        const bool found = find(std::min<Index>(count, TileShape<float>::rows)) && find(count);
        lane.failures = found ? 0 : lane.failures + 1;
        return found;
    }

    const AllPairs<T> &pairs() const {
        std::call_once(pairs_once_, [this] {
            pairs_.reset(new AllPairs<T>(query_points_, database_points_, {1, {}, {}}));
        });
        return *pairs_;
    }

    void run_whole_rows(const RowPlan &plan, Lane &lane, Index first, Index count,
                        View<T> grad_queries) const {
        const bool kept = plan.keeps();
        if (!kept)
            renew(lane.values, count, m());
        const View<T> block = kept
                                  ? View<T>(weights_.row(first).data(), count, m(), weights_.cols())
                                  : view(lane.values);
        if (sides_.kind == RowKind::inner_product)
            detail::multiply_nt<T>(view(sides_.queries()).middle_rows(first, count),
                                   view(sides_.database()), block);
        else
            pairs().fill(first, block, sides_.kind == RowKind::squared_distance);
        constexpr T nowhere = std::numeric_limits<T>::infinity();
        for (Index r = 0; r < count; ++r) {
            Row<T> row{first + r, problem_.excluded(first + r), m(), nullptr, block.row(r)};
            if (row.excluded >= 0)
                row.values[row.excluded] =
                    sides_.kind == RowKind::inner_product ? -nowhere : nowhere;
            evaluate(lane, row);
            if (row.excluded >= 0)
                row.values[row.excluded] = T(0);
        }
        if (kept)
            return;
        if (loss_.sparse() && few(lane.values))
            for (Index r = 0; r < count; ++r)
                spread(lane, {first + r, -1, m(), nullptr, block.row(r)}, grad_queries);
        else
            multiply(lane, first, count, grad_queries);
    }

    /// Whether products with these weights cost more than those that are not zero one by one.
    static bool few(const RowMatrix<T> &weights) {
        constexpr Index cost = 32;
        const Index zeros = std::count(weights.data(), weights.data() + weights.size(), T(0));
        return (weights.size() - zeros) * cost < weights.size();
    }

    /// Turns distances into derivatives by squared ones, times the anchor's weight.
    void evaluate(Lane &lane, Row<T> &row) const {
        const bool plain = sides_.kind == RowKind::distance;
        if (plain)
            lane.roots.assign(row.values, row.values + row.count);
        const RowValue value = loss_.evaluate(row);
        const double weight = problem_.weight(row.anchor);
        lane.totals.add(value, weight);
        const T by = static_cast<T>(plain ? weight / 2 : weight);
        if (weight == 0)
            row.array().setZero();
        else if (plain)
            for (Index j = 0; j < row.count; ++j)
                row.values[j] *= lane.roots[j] > T(0) ? by / lane.roots[j] : T(0);
        else if (by != T(1))
            row.array() *= by;
    }

    /// Distances to the listed columns only, from differences.
    void run_listed_row(Lane &lane, Index i, const std::int64_t *columns, std::int64_t count,
                        View<T> grad_queries) const {
        lane.listed.resize(static_cast<std::size_t>(count));
        const T *query = problem_.queries.row(i);
        Row<T> row{i, problem_.excluded(i), static_cast<Index>(count), columns, lane.listed.data()};
        for (std::int64_t e = 0; e < count; ++e)
            row.values[e] = columns[e] == row.excluded
                                ? std::numeric_limits<T>::infinity()
                                : squared_distance(query, problem_.database.row(columns[e]), p());
        if (sides_.kind == RowKind::distance)
            square_roots(row.values, row.count);
        evaluate(lane, row);
        spread(lane, row, grad_queries);
    }

    /// Weights of an anchor one by one: its own gradient now, the database's later.
    void spread(Lane &lane, const Row<T> &weights, View<T> grad_queries) const {
        const Index i = weights.anchor;
        std::vector<double> own(static_cast<std::size_t>(p()), 0.0);
        for (Index e = 0; e < weights.count; ++e) {
            const Index j = weights.columns != nullptr ? static_cast<Index>(weights.columns[e]) : e;
            const T weight = weights.values[e];
            if (weight == T(0) || j == weights.excluded)
                continue;
            sides_.add_to_query(weight, i, j, own.data());
            lane.database.add(sides_, i, j, weight);
        }
        for (Index k = 0; k < p(); ++k)
            grad_queries.row(i)[k] = static_cast<T>(own[k]);
    }

    /// Dense weights W of a block: dZq = 2 (diag(W 1) Zq - W Zd), dZd = 2 (diag(1 W) Zd - W^T Zq);
    /// for inner products W Zd and W^T Zq.
    void multiply(Lane &lane, Index first, Index count, View<T> grad_queries) const {
        const auto queries = sides_.queries().middleRows(first, count);
        const View<T> out = grad_queries.middle_rows(first, count);
        lane.database.add(sides_, lane.values, first);
        if (sides_.kind == RowKind::inner_product) {
            detail::multiply<T>(view(lane.values), view(sides_.database()), out);
            return;
        }
        RowMatrix<T> own(count, p());
        detail::multiply<T>(view(lane.values), view(sides_.database()), view(own));
        for (Index r = 0; r < count; ++r) {
            const double sum = lane.values.row(r).template cast<double>().sum();
            out.eigen().row(r) = (2.0 * (sum * queries.row(r).template cast<double>() -
                                         own.row(r).template cast<double>()))
                                     .template cast<T>();
        }
    }

    Control silent() const { return {control_.threads, control_.keep_going, {}}; }

    /// Adds the lanes, in order, and the two roles of symmetric problems.
    void gather(const std::vector<Lane> &lanes, T factor, View<T> grad_queries,
                View<T> grad_database) const {
        std::vector<const DatabaseShare<T> *> shares;
        for (const Lane &lane : lanes)
            shares.push_back(&lane.database);
        grad_queries.eigen() *= factor;
        sum_shares<T>(sides_, shares, silent(), [&](Index j, const Eigen::RowVectorXd &sum) {
            const auto scaled = (static_cast<double>(factor) * sum).template cast<T>();
            if (problem_.symmetric)
                grad_queries.eigen().row(j) += scaled;
            else
                grad_database.eigen().row(j) = scaled;
        });
    }

    RowProblem<T> problem_;
    const RowLoss<T> &loss_;
    Control control_;
    Points query_points_;
    Points database_points_;
    std::unique_ptr<WindowSearch> near_;
    mutable std::unique_ptr<AllPairs<T>> pairs_; ///< made where whole rows turn out to be needed
    mutable std::once_flag pairs_once_;
    /// Where they are kept; blocks write their own rows. Some columns more than needed, since rows
    /// a power of two apart compete for the same lines of cache.
    mutable RowMatrix<T> weights_;
    EmbeddedSides<T> sides_;
};

METRICFAST_NAMESPACE_END
