/// The row engine: value and gradient of any row loss.
///
/// Rows are distributed over a fixed number of lanes. Each lane processes its blocks in order and
/// has an accumulator for the gradient by the database. The lanes are added in order at the end, so
/// results are bit-identical for any number of threads.
#pragma once

#include <memory>
#include <mutex>

#include "metricfast/core/work.hpp"
#include "metricfast/distance/distance.hpp"
#include "metricfast/engine/database_gradient.hpp"
#include "metricfast/engine/kept_gradient.hpp"
#include "metricfast/engine/row_plan.hpp"
#include "metricfast/engine/row_scratch.hpp"
#include "metricfast/simd/product.hpp"

METRICFAST_NAMESPACE_BEGIN

template <class T> class RowEngine {
  public:
    /// \param scratch working memory, which successive engines may reuse. It must outlive the
    ///   engine.
    RowEngine(const RowProblem<T> &problem, const RowLoss<T> &loss, const Control &control,
              RowScratch<T> *scratch = nullptr)
        : problem_(problem), loss_(loss),
          control_(worth_it(control, static_cast<double>(problem.queries.rows) *
                                         static_cast<double>(problem.database.rows) *
                                         static_cast<double>(problem.queries.cols + 32))),
          query_points_(problem.queries), database_points_(problem.database),
          scratch_(scratch != nullptr ? *scratch : own_) {
        check(problem, loss);
        require_finite(query_points_, "coordinates must be finite");
        require_finite(database_points_, "coordinates must be finite");
    }

    /// Computes the value and writes the gradients, which have the shapes of the points.
    /// `grad_database` is ignored for symmetric problems.
    RowTotals value_and_gradient(View<T> grad_queries, View<T> grad_database) {
        require(grad_queries.rows == n() && grad_queries.cols == p(),
                "row engine: the gradient must have the queries' shape");
        require(problem_.symmetric || (grad_database.rows == m() && grad_database.cols == p()),
                "row engine: the gradient must have the database's shape");
        sides_.set(problem_, loss_.kind());
        if (problem_.weights != nullptr) // T represents the largest
            weight_unit_ = magnitude_scale(
                *std::max_element(problem_.weights.begin(), problem_.weights.end()));
        search_windows();
        const RowPlan plan(problem_, near_ != nullptr, loss_.sparse());
        if (plan.keeps())
            renew(weights_, n(), lines_apart<T>(m()));
        scratch_.ready(plan.lanes, thread_count(control_, plan.lanes), plan.memory);
        std::vector<Lane> &lanes = scratch_.lanes;
        const Index blocks = (n() + plan.block - 1) / plan.block;
        parallel_blocks(
            plan.lanes, control_,
            [&](Index l, Worker &worker) {
                Lane &lane = lanes[l];
                Desk &desk = scratch_.desks[worker.id()];
                for (Index b = l; b < blocks; b += plan.lanes) {
                    const Index first = b * plan.block;
                    run_block(plan, lane, desk, first, std::min(plan.block, n() - first),
                              grad_queries);
                    worker.advance();
                }
                lane.database.finish(sides_);
            },
            blocks);
        RowTotals totals;
        for (const Lane &lane : lanes)
            totals.add(lane.totals);
        totals.anchors = n() - totals.skipped;
        const bool sums = problem_.reduction == Reduction::sum;
        const double factor = totals.factor(problem_.reduction);
        const double unit = sums ? loss_.unit() / weight_unit_ : loss_.unit();
        totals.value *= factor * unit;
        totals.weight /= weight_unit_;
        totals.weighted_terms /= weight_unit_;
        if (plan.route == RowPlan::Route::kept)
            symmetric_gradient<T>(sides_, weights_, factor * unit, grad_queries, control_.silent());
        else if (plan.route == RowPlan::Route::batch)
            batch_gradient<T>(sides_, weights_, factor * unit, grad_queries, grad_database,
                              control_.silent());
        else
            gather(lanes, static_cast<double>(static_cast<T>(factor)) * unit, grad_queries,
                   grad_database);
        return totals;
    }

  private:
    using Lane = typename RowScratch<T>::Lane;
    using Desk = typename RowScratch<T>::Desk;

    Index n() const { return problem_.queries.rows; }
    Index m() const { return problem_.database.rows; }
    Index p() const { return problem_.queries.cols; }

    void search_windows() {
        constexpr Index least = 256; // lists do not pay for smaller databases
        const double window = loss_.window(m());
        if (m() <= least || problem_.listed() || sides_.kind != RowKind::squared_distance ||
            !std::isfinite(window))
            return;
        near_.reset(
            new WindowSearch(query_points_, database_points_, problem_.exclude, window, control_));
        const Index probe = std::min<Index>(n(), TileShape<float>::rows);
        WindowLists found;
        if (RowPlan::is_small(problem_) && !near_->find(0, probe, most_near(probe), found))
            near_.reset(); // few points, and long lists
    }

    void run_block(const RowPlan &plan, Lane &lane, Desk &desk, Index first, Index count,
                   View<T> grad_queries) const {
        if (plan.route == RowPlan::Route::listed) {
            const auto &given = problem_.candidates;
            run_listed_rows(lane, desk, first, count, given.row_starts.data() + first,
                            given.columns.data(), grad_queries);
        } else if (near_ && found_near(lane, desk, first, count)) {
            run_listed_rows(lane, desk, first, count, desk.near.starts.data(),
                            desk.near.columns.data(), grad_queries);
        } else {
            for (Index done = 0; done < count; done += plan.dense)
                run_whole_rows(plan, lane, desk, first + done, std::min(plan.dense, count - done),
                               grad_queries);
        }
    }

    /// Returns the largest number of columns for which lists of `rows` rows are faster than whole
    /// rows. An entry of a list costs dozens of times as much as an entry of a whole row, and half
    /// of that in double, where whole rows take twice as long.
    Index most_near(Index rows) const { return rows * m() * static_cast<Index>(sizeof(T)) / 64; }

    /// Searches the windows of a block; returns false if the lists are too long. Early in training
    /// they often are. After repeated failures most blocks are not searched, and a failing search
    /// ends after the first rows of its block.
    bool found_near(Lane &lane, Desk &desk, Index first, Index count) const {
        constexpr Index patience = 2, pause = 16;
        if (lane.failures >= patience && ++lane.unsearched % pause != 0)
            return false;
        const auto find = [&](Index rows) {
            return near_->find(first, rows, most_near(rows), desk.near);
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

    void run_whole_rows(const RowPlan &plan, Lane &lane, Desk &desk, Index first, Index count,
                        View<T> grad_queries) const {
        const bool kept = plan.keeps();
        if (!kept)
            renew(desk.values, plan.dense, lines_apart<T>(m()));
        const View<T> block = kept ? view(weights_).block(first, 0, count, m())
                                   : view(desk.values).block(0, 0, count, m());
        if (sides_.kind == RowKind::inner_product)
            detail::multiply_nt<T>(view(sides_.queries()).middle_rows(first, count),
                                   view(sides_.database()), block);
        else
            pairs().fill(first, block, sides_.kind == RowKind::squared_distance);
        constexpr T nowhere = std::numeric_limits<T>::infinity();
        for (Index r = 0; r < count; ++r) {
            Row<T> row = this->row(first + r, m(), nullptr, block.row(r));
            if (row.excluded >= 0)
                row.values[row.excluded] =
                    sides_.kind == RowKind::inner_product ? -nowhere : nowhere;
            evaluate(lane, desk, row);
            if (row.excluded >= 0)
                row.values[row.excluded] = T(0);
        }
        if (kept)
            return;
        if (loss_.sparse() && mostly_zeros(block))
            for (Index r = 0; r < count; ++r)
                spread(lane, desk, first + r, block.row(r), grad_queries);
        else
            multiply(lane, block, first, grad_queries);
    }

    /// Returns true if adding the nonzero weights one by one costs less than a matrix product.
    bool mostly_zeros(View<const T> weights) const {
        using V = Vec<T>;
        constexpr Index narrow = std::is_same_v<T, float> ? 800 : 200; // products are fast
        const Index cost = 12 + narrow / std::max<Index>(1, p());
        const Index most = (weights.rows * weights.cols - 1) / cost;
        const V zero = V::broadcast(T(0)), one = V::broadcast(T(1));
        Index nonzero = 0;
        for (Index r = 0; r < weights.rows && nonzero <= most; ++r) {
            const T *const row = weights.row(r);
            Index j = 0;
            for (; j + V::width <= weights.cols; j += V::width) // NaN counts, too
                nonzero += set_bits(less(where_equal(V::load(row + j), zero, one), one));
            for (; j < weights.cols; ++j)
                nonzero += row[j] != T(0);
        }
        return nonzero <= most;
    }

    Row<T> row(Index i, Index count, const std::int64_t *columns, T *values) const {
        return {i,      problem_.excluded(i),
                count,  columns,
                values, problem_.symmetric ? 0 : problem_.first};
    }

    /// Replaces distances by derivatives by squared distances, times the anchor's weight.
    void evaluate(Lane &lane, Desk &desk, Row<T> &row) const {
        const bool plain = sides_.kind == RowKind::distance;
        if (plain)
            desk.roots.assign(row.values, row.values + row.count);
        const RowValue value = loss_.evaluate(row);
        const double weight = problem_.weight(row.anchor) * weight_unit_;
        lane.totals.add(value, weight);
        const T by = static_cast<T>(plain ? weight / 2 : weight);
        if (weight == 0)
            row.array().setZero();
        else if (plain)
            for (Index j = 0; j < row.count; ++j)
                row.values[j] *= desk.roots[j] > T(0) ? by / desk.roots[j] : T(0);
        else if (by != T(1))
            row.array() *= by;
    }

    /// Computes distances to the listed columns only, from differences.
    void run_listed_rows(Lane &lane, Desk &desk, Index first, Index count,
                         const std::int64_t *starts, const std::int64_t *columns,
                         View<T> grad_queries) const {
        auto &listed = desk.listed;
        listed.set(count, starts, columns, m());
        const Index bytes = p() * static_cast<Index>(sizeof(double));
        listed.in_stripes(m(), bytes, [&](Index r, Index j, T &value) {
            const Index i = first + r;
            value = j == problem_.excluded(i)
                        ? std::numeric_limits<T>::infinity()
                        : squared_distance(problem_.queries.row(i), problem_.database.row(j), p());
        });
        for (Index r = 0; r < count; ++r) {
            Row<T> row = this->row(first + r, listed.size(r), listed.columns(r), listed.values(r));
            if (sides_.kind == RowKind::distance)
                square_roots(row.values, row.count);
            evaluate(lane, desk, row);
        }
        desk.query_gradient.setZero(count, p());
        listed.in_stripes(m(), bytes, [&](Index r, Index j, T weight) {
            if (weight != T(0) && j != problem_.excluded(first + r))
                lane.database.add(sides_, first + r, j, weight, desk.query_gradient.row(r).data());
        });
        eigen(grad_queries).middleRows(first, count) = desk.query_gradient.template cast<T>();
    }

    /// Adds the nonzero weights of a whole row one by one.
    void spread(Lane &lane, Desk &desk, Index i, const T *weights, View<T> grad_queries) const {
        constexpr int W = Vec<T>::width;
        const Vec<T> zero = Vec<T>::broadcast(T(0)), one = Vec<T>::broadcast(T(1));
        desk.query_gradient.setZero(1, p());
        const auto add = [&](Index j) {
            lane.database.add(sides_, i, j, weights[j], desk.query_gradient.data());
        };
        Index j = 0;
        for (; j + W <= m(); j += W) {
            const Vec<T> w = Vec<T>::load(weights + j);
            for (unsigned mask = less(where_equal(w, zero, one), one); mask != 0;
                 mask &= mask - 1) // NaN too
                add(j + lowest_bit(mask));
        }
        for (; j < m(); ++j)
            if (weights[j] != T(0))
                add(j);
        eigen(grad_queries).row(i) = desk.query_gradient.row(0).template cast<T>();
    }

    /// Adds the gradients for dense weights W of a block: dZq = 2 (diag(W 1) Zq - W Zd) and dZd = 2
    /// (diag(1 W) Zd - W^T Zq) for distances, W Zd and W^T Zq for inner products.
    void multiply(Lane &lane, View<const T> weights, Index first, View<T> grad_queries) const {
        const Index count = weights.rows;
        const auto queries = sides_.queries().middleRows(first, count);
        const View<T> out = grad_queries.middle_rows(first, count);
        lane.database.add(sides_, weights, first);
        if (sides_.kind == RowKind::inner_product) {
            detail::multiply<T>(weights, view(sides_.database()), out);
            return;
        }
        RowMatrix<T> query_gradient(count, p());
        detail::multiply<T>(weights, view(sides_.database()), view(query_gradient));
        for (Index r = 0; r < count; ++r) {
            const double sum = sum_of(weights.row(r), m());
            eigen(out).row(r) = (2.0 * (sum * queries.row(r).template cast<double>() -
                                        query_gradient.row(r).template cast<double>()))
                                    .template cast<T>();
        }
    }

    /// Adds the lanes in order, and both roles of symmetric problems.
    void gather(const std::vector<Lane> &lanes, double factor, View<T> grad_queries,
                View<T> grad_database) const {
        std::vector<const DatabaseShare<T> *> shares;
        for (const Lane &lane : lanes)
            shares.push_back(&lane.database);
        auto of_queries = eigen(grad_queries);
        of_queries = (of_queries.template cast<double>() * factor).template cast<T>();
        sum_shares<T>(sides_, shares, control_.silent(), scratch_.sorted,
                      [&](Index j, const Eigen::RowVectorXd &sum) {
                          const auto scaled = (factor * sum).template cast<T>();
                          if (problem_.symmetric)
                              eigen(grad_queries).row(j) += scaled;
                          else
                              eigen(grad_database).row(j) = scaled;
                      });
    }

    RowProblem<T> problem_;
    const RowLoss<T> &loss_;
    Control control_;
    Points query_points_;
    Points database_points_;
    double weight_unit_ = 1; ///< a power of two by which weights of anchors are multiplied
    std::unique_ptr<WindowSearch> near_;
    mutable std::unique_ptr<AllPairs<T>> pairs_; ///< created when first needed
    mutable std::once_flag pairs_once_;
    RowScratch<T> own_;
    RowScratch<T> &scratch_;
    EmbeddedSides<T> &sides_ = scratch_.sides;
    /// The kept weights, in rows of lines_apart() columns. Each block writes its rows.
    RowMatrix<T> &weights_ = scratch_.weights;
};

METRICFAST_NAMESPACE_END
