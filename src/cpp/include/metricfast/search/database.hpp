/// A database of points, packed once and searched many times.
#pragma once

#include "metricfast/search/kd_tree.hpp"
#include "metricfast/search/segment_search.hpp"
#include "metricfast/search/types.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Reusable memory of searches, for one caller at a time. After the first searches, a search by one
/// thread allocates nothing.
struct DatabaseMemory {
    SearchMemory screened;
    std::vector<KdTree::Memory> trees;
};

/// Exact search of the k nearest points under a metric; ties go to the lower row. Refers to the
/// points, which must outlive it and must not change. Several threads may search at the same time,
/// each with its own memory.
class Database {
  public:
    explicit Database(const Points &points, DatabaseOptions options = {},
                      const Control &control = {})
        : space_(points, options.metric, control), route_(fastest(space_, options)) {
        require(points.cols() > 0, "the points of a database must have coordinates");
        Frame frame = space_.frame_with(space_.images());
        frame.exact_scale = std::ldexp(frame.exact_scale, -2 * most_doublings(frame));
        if (route_ == SearchRoute::tree)
            tree_ = std::make_unique<KdTree>(points, frame.exact_scale, control);
        if (route_ == SearchRoute::integers) {
            const Cells whole{space_.by_height(), {0}, {}};
            const Cells cells =
                options.cells ? find_cells(space_.images(), frame, whole, control) : whole;
            prepared_ =
                std::make_unique<PreparedDatabase>(space_, std::move(frame), cells, control);
        } else {
            prepared_ = std::make_unique<PreparedDatabase>(
                space_, std::move(frame), Segments{identity_order(points.rows()), {0}}, false,
                control);
        }
    }

    /// Restores a database from state() and its points, and reads only what searches need.
    /// Under a metric that is not Euclidean, it reads all points.
    Database(const Points &points, const DatabaseState &state, Metric metric = Metric::euclidean)
        : space_(points, metric), route_(SearchRoute::integers) {
        require(QuantizedDatabase::serves(points), "this processor has no products of integers");
        require(static_cast<Index>(state.frame.centre.size()) == points.cols(),
                "the centre does not fit the points");
        bool ordinary = state.frame.scale > 0 && state.frame.exact_scale > 0;
        for (const double c : state.frame.centre)
            ordinary = ordinary && std::isfinite(c * state.frame.scale);
        require(ordinary && std::isfinite(state.frame.exact_scale), "the frame is not of points");
        prepared_ = std::make_unique<PreparedDatabase>(space_, state.frame, state.parts);
    }

    /// Only for the route of integers.
    DatabaseState state() const {
        require(route_ == SearchRoute::integers, "only quantized points have a state to keep");
        return {prepared_->frame(), prepared_->quantized()->parts()};
    }

    const Points &points() const { return space_.points(); }
    SearchRoute route() const { return route_; }
    /// The number of cells; 1 for points without clusters.
    Index cells() const {
        const QuantizedDatabase *quantized = prepared_->quantized();
        return quantized != nullptr ? quantized->segments() : 1;
    }
    /// Bytes in addition to the points; a search may allocate more.
    std::size_t bytes() const {
        const QuantizedDatabase *quantized = prepared_->quantized();
        return space_.bytes() + sizeof(std::int64_t) * prepared_->rows().order.size() +
               (tree_ ? tree_->bytes() : 0) + (quantized != nullptr ? quantized->bytes() : 0);
    }

    /// \tparam T of the distances.
    /// If the filter allows a query fewer than k rows, inf and -1 are written.
    /// \param squared only for Euclidean distances.
    /// \param within null, or squared distances beyond which a query needs no neighbours; missing
    ///   neighbours are written as inf and -1.
    /// \param distances, indices (queries.rows x k), row-major, written.
    template <class T>
    void search(const Points &queries, Index k, const Filter &filter, bool squared,
                View<T> distances, View<std::int64_t> indices, DatabaseMemory &memory,
                const Control &control = {}, Span<const double> within = nullptr) const {
        detail::check_search(queries, points(), k, distances, indices);
        const Queries asked(space_, queries, control);
        const auto emit = [&](double scale) {
            return [&, scale](Index i, Index, const std::vector<Neighbor> &found) {
                detail::write_neighbors(found, distances.row(i), indices.row(i), k, [&](double d) {
                    return space_.euclidean() ? unscaled<T>(d, scale, squared)
                                              : static_cast<T>(asked.value(i, d));
                });
            };
        };
        with_prepared(asked, control, [&](const PreparedDatabase &prepared) {
            const auto of_prepared = emit(prepared.frame().exact_scale);
            const bool fresh = &prepared != prepared_.get();
            if (!fresh && by_label(asked, k, filter, control, of_prepared))
                return;
            if (!fresh && tree_ && k <= points().rows() / 16)
                by_tree(queries, k, filter, control, memory, of_prepared);
            else
                SegmentSearch(prepared, asked, k, filter, fresh ? nullptr : within)
                    .run(control, memory.screened, of_prepared);
            answer_zeros(asked, k, filter, of_prepared);
        });
    }

    const Space &space() const { return space_; }
    /// Calls f with the prepared database, or with another one for queries that are so far away
    /// that the prepared frame does not fit. Throws unless all queries are finite.
    template <class F>
    void with_prepared(const Queries &queries, const Control &control, F &&f) const {
        if (near_enough(queries.images()))
            return f(*prepared_);
        f(PreparedDatabase(space_, space_.frame_with(queries.images()),
                           {identity_order(points().rows()), {0}}, false, control));
    }

  private:
    static SearchRoute fastest(const Space &space, DatabaseOptions options) {
        constexpr Index tree_columns = 5; // up to which a tree pays
        const Points &points = space.images();
        if (options.tree && space.euclidean() && points.cols() <= tree_columns &&
            points.rows() >= 256)
            return SearchRoute::tree;
        return options.integers && QuantizedDatabase::serves(points) ? SearchRoute::integers
                                                                     : SearchRoute::floats;
    }

    /// Queries may be up to 2^most_doublings times as far from the centre as the points. If squares
    /// of the farthest points overflow, a smaller scale would let squares of the others underflow.
    static int most_doublings(const Frame &frame) {
        return frame.scale < std::ldexp(1.0, -500) ? 1 : 20;
    }

    /// Throws unless all queries are finite.
    bool near_enough(const Points &queries) const {
        const Frame &frame = prepared_->frame();
        double most = 0;
        bool finite = true;
        queries.visit([&](auto v) {
            for (Index i = 0; i < v.rows; ++i)
                for (Index c = 0; c < v.cols; ++c) {
                    const auto x = static_cast<double>(v.row(i)[c]);
                    finite = finite && std::isfinite(x);
                    most = std::max(most, std::abs(frame.apply(x, c)));
                }
        });
        require(finite, "coordinates must be finite");
        return most <= std::ldexp(1.0, most_doublings(frame));
    }

    /// Answers queries of zeros, which are equally far from all points that are not zero.
    void answer_zeros(const Queries &queries, Index k, const Filter &filter,
                      const Emit &emit) const {
        std::vector<Neighbor> found;
        for (const Index i : queries.zeros()) {
            found.clear();
            const auto add = [&](std::int64_t row) {
                if (static_cast<Index>(found.size()) < k && filter(i, row))
                    found.push_back({space_.from_zero(row), row});
            };
            for (const std::int64_t row : space_.zeros())
                add(row);
            for (Index row = 0; row < points().rows() && static_cast<Index>(found.size()) < k;
                 ++row)
                if (space_.zeros().empty() || space_.from_zero(row) > 0)
                    add(row);
            emit(i, 0, found);
        }
    }

    void by_tree(const Points &queries, Index k, const Filter &filter, const Control &control,
                 DatabaseMemory &memory, const Emit &emit) const {
        filter.check(queries.rows(), points().rows());
        constexpr Index block = 32;
        const Index n = queries.rows();
        const Control within = worth_it(control, static_cast<double>(n) * 4e3);
        const Index blocks = (n + block - 1) / block;
        const auto threads = static_cast<std::size_t>(thread_count(within, blocks));
        if (memory.trees.size() < threads)
            memory.trees.resize(threads);
        parallel_blocks(blocks, within, [&](Index b, Worker &worker) {
            KdTree::Memory &thread = memory.trees[static_cast<std::size_t>(worker.id())];
            thread.query.resize(static_cast<std::size_t>(queries.cols()));
            for (Index i = b * block; i < std::min(n, (b + 1) * block); ++i) {
                queries.read_row(i, thread.query.data());
                tree_->search(k, filter, i, thread);
                emit(i, 0, thread.best);
            }
        });
    }

    /// Adds the rows with a query's label that the filter allows.
    void add_labelled(const Filter &filter, Index query, std::vector<Neighbor> &found) const {
        constexpr Index block = 16; // most blocks have none of them
        const std::int64_t label = filter.query_labels[query], *const labels = filter.labels.data();
        for (Index first = 0; first < points().rows(); first += block) {
            const Index end = std::min(first + block, points().rows());
            std::int64_t same = 0;
            for (Index row = first; row < end; ++row)
                same |= labels[row] == label ? 1 : 0;
            for (Index row = first; same != 0 && row < end; ++row)
                if (labels[row] == label && filter(query, row))
                    found.push_back({0, row});
        }
    }

    /// Computes the distances of all rows with a query's label, if the filter asks for equal labels
    /// and there are few such rows. Returns whether it has answered the queries.
    bool by_label(const Queries &queries, Index k, const Filter &filter, const Control &control,
                  const Emit &emit) const {
        // A bound of a row costs a small fraction of its distance. For many queries, sorting the
        // labels costs less than to read them once for each.
        constexpr Index fraction = 32, many = 256;
        const Index n = queries.rows(), m = points().rows();
        if (filter.labels == nullptr || !filter.equal)
            return false;
        filter.check(n, m);
        // A sample shows how many rows have a query's label.
        const Index query_step = n / 64 + 1, row_step = m / 1024 + 1;
        Index seen = 0, same = 0;
        for (Index i = 0; i < n; i += query_step)
            for (Index row = 0; row < m; row += row_step, ++seen)
                same += filter.labels[row] == filter.query_labels[i] ? 1 : 0;
        if (same > seen / fraction)
            return false;
        using Labelled = std::pair<std::int64_t, std::int64_t>;
        std::vector<Labelled> rows(static_cast<std::size_t>(n < many ? 0 : m));
        for (Index i = 0; n >= many && i < m; ++i)
            rows[static_cast<std::size_t>(i)] = {filter.labels[i], i};
        std::sort(rows.begin(), rows.end());
        const auto with_label = [&](Index query) {
            const std::int64_t label = filter.query_labels[query];
            const auto begin = std::lower_bound(rows.begin(), rows.end(), Labelled{label, 0});
            return std::pair{begin, std::lower_bound(begin, rows.end(), Labelled{label, m})};
        };
        std::int64_t distances = 0;
        for (Index i = 0; i < n; ++i) {
            const auto [begin, end] = with_label(i);
            distances += end - begin;
        }
        if (distances > static_cast<std::int64_t>(n) * m / fraction)
            return false;
        constexpr Index block = 32;
        const double products =
            static_cast<double>(std::max<Index>(distances, rows.empty() ? n * m / fraction : 0)) *
            static_cast<double>(queries.cols());
        parallel_blocks((n + block - 1) / block, worth_it(control, products),
                        [&](Index b, Worker &) {
                            std::vector<double> coordinates;
                            std::vector<Neighbor> found;
                            for (Index i = b * block; i < std::min(n, (b + 1) * block); ++i) {
                                found.clear();
                                const auto [begin, end] = with_label(i);
                                for (auto row = begin; row != end; ++row)
                                    if (filter(i, row->second))
                                        found.push_back({0, row->second});
                                if (rows.empty())
                                    add_labelled(filter, i, found);
                                rank_nearest(queries, i, space_, prepared_->frame().exact_scale, k,
                                             coordinates, found);
                                emit(i, 0, found);
                            }
                        });
        return true;
    }

    Space space_;
    SearchRoute route_;
    std::unique_ptr<KdTree> tree_;
    std::unique_ptr<PreparedDatabase> prepared_;
};

METRICFAST_NAMESPACE_END
