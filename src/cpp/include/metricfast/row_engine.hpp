/// Value and gradient of any row loss.
///
/// Rows are shared out over a fixed number of lanes; a lane handles its blocks in order and owns an
/// accumulator of the database-side gradient, and lanes are added in order at the end. Nothing
/// depends on the number of threads, so results are bit-identical for any of them.
#pragma once

#include <memory>
#include <mutex>

#include "metricfast/database_gradient.hpp"
#include "metricfast/distance.hpp"
#include "metricfast/losses/row_loss.hpp"
#include "metricfast/product.hpp"
#include "metricfast/symmetric_gradient.hpp"
#include "metricfast/window.hpp"
#include "metricfast/work.hpp"

METRICFAST_NAMESPACE_BEGIN

enum class Reduction { sum, mean, mean_nonzero };

/// Columns that a row needs, in compressed sparse rows; null members: all columns.
struct Candidates {
    Codes row_starts; ///< queries + 1 entries
    Codes columns;
};

/// What the engine runs on. Queries and database are embedded points, (n x p) and (m x p).
template <class T> struct RowProblem {
    View<const T> queries;
    View<const T> database;
    bool symmetric = false; ///< both are the same points: gradients of both roles are added
    Codes exclude;          ///< per query a database row to leave out, -1: none
    RowKind kind = RowKind::distance;
    Candidates candidates;
    Reduction reduction = Reduction::sum;
    std::size_t memory_budget = std::size_t(1) << 30; ///< bytes of working memory, all threads
};

struct RowTotals {
    double value = 0;
    Index terms = 0;
    Index anchors = 0; ///< anchors that took part
    Index skipped = 0;
    Index dropped = 0;
    double weight = 0;         ///< sum of the weights of the anchors that took part
    double weighted_terms = 0; ///< terms, each times its anchor's weight
};

template <class T> class RowEngine {
  public:
    RowEngine(const RowProblem<T> &problem, const RowLoss<T> &loss, const Control &control)
        : problem_(problem), loss_(loss),
          control_(worth_it(control, static_cast<double>(problem.queries.rows) *
                                         static_cast<double>(problem.database.rows) *
                                         static_cast<double>(problem.queries.cols + 32))),
          query_points_(problem.queries), database_points_(problem.database) {
        require(problem.queries.cols == problem.database.cols,
                "row engine: queries and database differ in width");
        const bool same = problem.queries.data == problem.database.data &&
                          problem.queries.rows == problem.database.rows &&
                          problem.queries.stride == problem.database.stride;
        require(!problem.symmetric || same, "row engine: symmetric problems have one set of "
                                            "points: queries and database must be the same view");
        require(problem.candidates.row_starts == nullptr || loss.sparse(),
                "row engine: candidate lists need a loss with sparse weights");
        require(std::max(problem.queries.rows, problem.database.rows) <
                    std::numeric_limits<std::int32_t>::max() / 2,
                "row engine: more than 2^30 points");
        require(problem.kind == RowKind::distance || problem.candidates.row_starts == nullptr,
                "row engine: candidate lists need a loss of distances");
        loss.check(n(), m());
        check_indices();
        require_finite(query_points_, "coordinates must be finite");
        require_finite(database_points_, "coordinates must be finite");
    }

    /// Writes the gradients (same shapes as the points; `grad_database` is ignored when symmetric).
    RowTotals value_and_gradient(View<T> grad_queries, View<T> grad_database) {
        require(grad_queries.rows == n() && grad_queries.cols == p(),
                "row engine: the gradient must have the queries' shape");
        require(problem_.symmetric || (grad_database.rows == m() && grad_database.cols == p()),
                "row engine: the gradient must have the database's shape");
        centre();
        sides_.reset(new EmbeddedSides<T>{problem_.kind, centred_queries(), centred_database_});
        const Index lanes = lane_count();
        std::vector<Lane> work(static_cast<std::size_t>(lanes));
        const double window = loss_.window(m());
        if (whole_rows() && problem_.kind == RowKind::distance && std::isfinite(window))
            near_.reset(new WindowSearch(query_points_, database_points_, problem_.exclude, window,
                                         control_));
        const Index probe = std::min<Index>(n(), TileShape<float>::rows);
        WindowLists found;
        if (near_ && small() && !near_->find(0, probe, probe * m() / 8, found))
            near_.reset(); // few points, and windows hold too many of them
        if (keeps_weights())
            renew(weights_, n(), m() + 64 / static_cast<Index>(sizeof(T)));
        const Index rows = rows_per_block(), blocks = (n() + rows - 1) / rows;
        parallel_blocks(
            lanes, control_,
            [&](Index l, Worker &worker) {
                Lane &lane = work[l];
                lane.database.set_capacity(kept_bytes());
                for (Index b = l; b < blocks; b += lanes) {
                    const Index first = b * rows;
                    run_block(lane, first, std::min(rows, n() - first), grad_queries);
                    worker.advance();
                }
                lane.database.finish(*sides_);
                lane.release_scratch();
            },
            blocks);
        RowTotals totals;
        for (const Lane &lane : work) {
            totals.value += lane.totals.value;
            totals.terms += lane.totals.terms;
            totals.skipped += lane.totals.skipped;
            totals.dropped += lane.totals.dropped;
            totals.weight += lane.totals.weight;
            totals.weighted_terms += lane.totals.weighted_terms;
        }
        totals.anchors = n() - totals.skipped;
        const double factor = reduction_factor(totals);
        totals.value *= factor;
        if (keeps_weights())
            symmetric_gradient<T>(*sides_, weights_, factor, grad_queries, silent());
        else
            gather(work, static_cast<T>(factor), grad_queries, grad_database);
        return totals;
    }

  private:
    struct Lane {
        DatabaseShare<T> database;
        RowTotals totals;
        RowMatrix<T> values;
        AlignedVector<T>
            listed; // aligned: vectorised exp peels unaligned ends, which round otherwise
        WindowLists near;
        Index failures = 0;   ///< window searches in a row that found too much
        Index unsearched = 0; ///< blocks since then

        void release_scratch() {
            values.resize(0, 0);
            near = {};
        }
    };

    bool whole_rows() const { return problem_.candidates.row_starts == nullptr; }
    Index n() const { return problem_.queries.rows; }
    Index m() const { return problem_.database.rows; }
    Index p() const { return problem_.queries.cols; }

    void check_indices() const {
        const auto &c = problem_.candidates;
        require_each(problem_.exclude, n(), "row engine: exclude must have one entry a query");
        for (Index i = 0; problem_.exclude != nullptr && i < n(); ++i)
            require(problem_.exclude[i] < m(),
                    "row engine: exclude holds an index outside the database");
        if (whole_rows())
            return;
        require(c.row_starts.size() == n() + 1,
                "row engine: candidate lists must have queries + 1 starts");
        require(c.row_starts[0] == 0, "row engine: candidate lists must start at 0");
        for (Index i = 0; i < n(); ++i)
            require(c.row_starts[i] <= c.row_starts[i + 1],
                    "row engine: candidate lists must ascend");
        require(c.row_starts[n()] == c.columns.size(),
                "row engine: candidate lists must end where their columns do");
        for (const std::int64_t column : c.columns)
            require(column >= 0 && column < m(), "row engine: a candidate is outside the database");
    }

    /// Gradients of distances do not change with the origin, and lose fewer digits amid the points.
    void centre() {
        Eigen::RowVectorXd origin = Eigen::RowVectorXd::Zero(p());
        if (problem_.kind == RowKind::distance)
            origin = Eigen::Map<const Eigen::RowVectorXd>(middle(database_points_).data(), p());
        const auto centred = [&](View<const T> z) {
            return RowMatrix<T>(
                (z.eigen().template cast<double>().rowwise() - origin).template cast<T>());
        };
        centred_database_ = centred(problem_.database);
        if (!problem_.symmetric)
            centred_queries_ = centred(problem_.queries);
    }

    const RowMatrix<T> &centred_queries() const {
        return problem_.symmetric ? centred_database_ : centred_queries_;
    }

    static constexpr Index lane_limit = 8;

    /// Few points' weights, of both roles, are multiplied at once in the end.
    bool keeps_weights() const { return small() && !near_; }

    bool small() const {
        const std::size_t bytes = static_cast<std::size_t>(n()) * n() * sizeof(T);
        return problem_.symmetric && whole_rows() &&
               bytes <= std::min(problem_.memory_budget / 4, std::size_t(1) << 24);
    }

    /// Fixed by the problem's size and the memory budget alone.
    Index lane_count() const {
        if (!whole_rows() || near_)
            return lane_limit; // accumulators are rarely needed
        const std::size_t each =
            static_cast<std::size_t>(m()) * static_cast<std::size_t>(p() + 1) * sizeof(double);
        const std::size_t fit = problem_.memory_budget / 2 / std::max<std::size_t>(each, 1);
        return static_cast<Index>(std::max<std::size_t>(1, std::min<std::size_t>(fit, lane_limit)));
    }

    /// What a lane's weights may take while they are kept one by one: as much as their sums would.
    std::size_t kept_bytes() const {
        const std::size_t most = problem_.memory_budget / 4 / lane_limit,
                          sums = static_cast<std::size_t>(m() * p()) * sizeof(double);
        return std::min(most, std::max(most / 8, sums));
    }

    Index rows_per_block() const {
        if (!whole_rows())
            return 64;
        if (near_)
            return WindowSearch::block;
        return dense_rows();
    }

    Index dense_rows() const {
        constexpr Index tile = TileShape<T>::rows;
        const std::size_t row = static_cast<std::size_t>(std::max<Index>(m(), 1)) * sizeof(T);
        const std::size_t cached = (std::size_t(1) << 22) / row,
                          allowed = problem_.memory_budget / 16 / row;
        const Index rows =
            static_cast<Index>(std::min(std::max<std::size_t>(cached, 4 * tile), allowed));
        const Index share = (n() + lane_limit - 1) / lane_limit; // every lane gets a block
        return std::max<Index>(tile, std::min({rows, 20 * tile, share + tile - 1}) / tile * tile);
    }

    void run_block(Lane &lane, Index first, Index count, View<T> grad_queries) const {
        const auto &given = problem_.candidates;
        if (!whole_rows()) {
            for (Index i = first; i < first + count; ++i)
                run_listed_row(lane, i, given.columns.data() + given.row_starts[i],
                               given.row_starts[i + 1] - given.row_starts[i], grad_queries);
            return;
        }
        // A listed entry costs about eight times one of a whole row. Where windows hold more, as
        // early in a training, few searches are wasted on finding out, and those end with the
        // block's first rows.
        constexpr Index patience = 2, pause = 16;
        const bool search = near_ && (lane.failures < patience || ++lane.unsearched % pause == 0);
        const auto find = [&](Index rows) {
            return near_->find(first, rows, rows * m() / 8, lane.near);
        };
        if (search && find(std::min<Index>(count, TileShape<float>::rows)) && find(count)) {
            lane.failures = 0;
            for (Index r = 0; r < count; ++r)
                run_listed_row(lane, first + r, lane.near.columns.data() + lane.near.starts[r],
                               lane.near.starts[r + 1] - lane.near.starts[r], grad_queries);
            return;
        }
        lane.failures += search ? 1 : 0;
        for (Index done = 0; done < count; done += dense_rows())
            run_whole_rows(lane, first + done, std::min(dense_rows(), count - done), grad_queries);
    }

    const AllPairs<T> &pairs() const {
        std::call_once(pairs_once_, [this] {
            pairs_.reset(new AllPairs<T>(query_points_, database_points_, {1, {}, {}}));
        });
        return *pairs_;
    }

    void run_whole_rows(Lane &lane, Index first, Index count, View<T> grad_queries) const {
        const bool keeps = keeps_weights();
        if (!keeps)
            renew(lane.values, count, m());
        const View<T> block = keeps
                                  ? View<T>(weights_.row(first).data(), count, m(), weights_.cols())
                                  : view(lane.values);
        const T nowhere = std::numeric_limits<T>::infinity();
        if (problem_.kind == RowKind::distance)
            pairs().fill(first, block, true);
        else
            detail::multiply_nt<T>(view(centred_queries()).middle_rows(first, count),
                                   view(centred_database_), block);
        for (Index r = 0; r < count; ++r) {
            T *values = block.row(r);
            const std::int64_t excluded =
                problem_.exclude != nullptr ? problem_.exclude[first + r] : -1;
            if (excluded >= 0)
                values[excluded] = problem_.kind == RowKind::distance ? nowhere : -nowhere;
            Row<T> row{first + r, m(), nullptr, values};
            count_row(lane, loss_.evaluate(row));
            if (excluded >= 0)
                values[excluded] = T(0);
        }
        if (keeps)
            return;
        if (loss_.sparse() && few(lane.values))
            for (Index r = 0; r < count; ++r)
                spread(lane, {first + r, m(), nullptr, lane.values.row(r).data()}, grad_queries);
        else
            multiply(lane, first, count, grad_queries);
    }

    /// Whether products with these weights cost more than those that are not zero one by one.
    static bool few(const RowMatrix<T> &weights) {
        constexpr Index cost = 32;
        const Index zeros = std::count(weights.data(), weights.data() + weights.size(), T(0));
        return (weights.size() - zeros) * cost < weights.size();
    }

    static void count_row(Lane &lane, const RowValue &value) {
        lane.totals.value += value.value;
        lane.totals.terms += value.terms;
        lane.totals.skipped += value.skipped;
        lane.totals.dropped += value.dropped;
        lane.totals.weighted_terms += value.weight * static_cast<double>(value.terms);
        lane.totals.weight += value.skipped ? 0.0 : value.weight;
    }

    /// Distances to the listed columns only, from differences.
    void run_listed_row(Lane &lane, Index i, const std::int64_t *columns, std::int64_t count,
                        View<T> grad_queries) const {
        lane.listed.resize(static_cast<std::size_t>(count));
        const T *query = problem_.queries.row(i);
        const std::int64_t excluded = problem_.exclude != nullptr ? problem_.exclude[i] : -1;
        for (std::int64_t e = 0; e < count; ++e)
            lane.listed[e] = columns[e] == excluded
                                 ? std::numeric_limits<T>::infinity()
                                 : squared_distance(query, problem_.database.row(columns[e]), p());
        Row<T> row{i, static_cast<Index>(count), columns, lane.listed.data()};
        count_row(lane, loss_.evaluate(row));
        spread(lane, row, grad_queries);
    }

    /// Weights of an anchor one by one: its own gradient now, the database's later.
    void spread(Lane &lane, const Row<T> &weights, View<T> grad_queries) const {
        const Index i = weights.anchor;
        const Index excluded = problem_.exclude != nullptr ? problem_.exclude[i] : -1;
        std::vector<double> own(static_cast<std::size_t>(p()), 0.0);
        for (Index e = 0; e < weights.count; ++e) {
            const Index j = weights.columns != nullptr ? static_cast<Index>(weights.columns[e]) : e;
            const T weight = weights.values[e];
            if (weight == T(0) || j == excluded)
                continue;
            sides_->add_to_query(weight, i, j, own.data());
            lane.database.add(*sides_, i, j, weight);
        }
        for (Index k = 0; k < p(); ++k)
            grad_queries.row(i)[k] = static_cast<T>(own[k]);
    }

    /// Dense weights W of a block: dZq = 2 (diag(W 1) Zq - W Zd), dZd = 2 (diag(1 W) Zd - W^T Zq);
    /// for inner products W Zd and W^T Zq.
    void multiply(Lane &lane, Index first, Index count, View<T> grad_queries) const {
        const auto queries = centred_queries().middleRows(first, count);
        View<T> out(grad_queries.row(first), count, p(), grad_queries.stride);
        lane.database.add(*sides_, lane.values, first);
        if (problem_.kind == RowKind::inner_product) {
            detail::multiply<T>(view(lane.values), view(centred_database_), out);
            return;
        }
        RowMatrix<T> own(count, p());
        detail::multiply<T>(view(lane.values), view(centred_database_), view(own));
        for (Index r = 0; r < count; ++r) {
            const double sum = lane.values.row(r).template cast<double>().sum();
            out.eigen().row(r) = (2.0 * (sum * queries.row(r).template cast<double>() -
                                         own.row(r).template cast<double>()))
                                     .template cast<T>();
        }
    }

    double reduction_factor(const RowTotals &totals) const {
        if (problem_.reduction == Reduction::sum)
            return 1.0;
        const double by =
            problem_.reduction == Reduction::mean ? totals.weight : totals.weighted_terms;
        return by > 0 ? 1.0 / by : 1.0;
    }

    Control silent() const { return {control_.threads, control_.keep_going, {}}; }

    /// Adds the lanes, in order, and the two roles of symmetric problems.
    void gather(const std::vector<Lane> &work, T factor, View<T> grad_queries,
                View<T> grad_database) const {
        std::vector<const DatabaseShare<T> *> shares;
        for (const Lane &lane : work)
            shares.push_back(&lane.database);
        grad_queries.eigen() *= factor;
        sum_shares<T>(*sides_, shares, silent(), [&](Index j, const Eigen::RowVectorXd &sum) {
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
    RowMatrix<T> centred_database_;
    RowMatrix<T> centred_queries_;
    std::unique_ptr<EmbeddedSides<T>> sides_;
};

METRICFAST_NAMESPACE_END
