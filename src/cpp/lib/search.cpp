/// Distances, neighbours and inference.
#include "areas.hpp"
#include "metricfast/core/pool.hpp"
#include "metricfast/distance/soft_votes.hpp"
#include "metricfast/inference/prepared.hpp"
#include "metricfast/search/class_ranks.hpp"
#include "metricfast/search/impostors.hpp"
#include "metricfast/search/neighbors.hpp"
#include "metricfast/search/radius.hpp"
#include "models.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace {

/// Maps converted to double.
struct DoubleMaps {
    RowMatrix<double> query, other;
    bool same;

    explicit DoubleMaps(const Maps &maps) : query(to_double(maps.query)), same(maps.same) {
        if (!same)
            other = to_double(maps.database);
    }
    const RowMatrix<double> &database() const { return same ? query : other; }
};

/// Calls f(queries, database) with the points, mapped first if there are maps.
template <class F>
void with_mapped(const Points &queries, const Points &database, const Maps &maps,
                 const Control &control, F &&f, Metric metric = Metric::euclidean) {
    if (!maps.any()) {
        f(queries, database);
        return;
    }
    const DoubleMaps given(maps);
    const EmbeddedPair z(queries, database, given.query, given.database(), control,
                         metric == Metric::euclidean);
    f(Points(view(z.queries)), Points(view(z.database)));
}

class MappedDatabase final : public SearchDatabase {
  public:
    MappedDatabase(const Points &points, const Maps &maps, DatabaseOptions options,
                   const Control &control)
        : maps_(maps) {
        if (maps.any()) {
            // Only differences do not depend on the origin.
            origin_ = options.metric == Metric::euclidean
                          ? metricfast::embedding_origin(points, maps_.query, maps_.database())
                          : std::vector<double>(static_cast<std::size_t>(points.cols()), 0.0);
            mapped_ = embed_finite(points, maps_.database(), origin_, control);
        }
        database_ = std::make_unique<Database>(maps.any() ? Points(view(mapped_)) : points, options,
                                               control);
    }
    MappedDatabase(const Points &points, const DatabaseState &state, Metric metric)
        : maps_(Maps()), database_(std::make_unique<Database>(points, state, metric)) {}

    void search(const Points &queries, Index k, const Filter &filter, bool squared,
                View<float> distances, View<std::int64_t> indices,
                const Control &control) const override {
        run(queries, k, filter, squared, distances, indices, control);
    }
    void search(const Points &queries, Index k, const Filter &filter, bool squared,
                View<double> distances, View<std::int64_t> indices,
                const Control &control) const override {
        run(queries, k, filter, squared, distances, indices, control);
    }
    void radius_neighbors(const Points &queries, const RadiusSettings &settings,
                          NeighborLists<float> &found, const Control &control) const override {
        with_query(queries, control, [&](const Points &z) {
            found = metricfast::radius_neighbors<float>(z, *database_, settings, control);
        });
    }
    void radius_neighbors(const Points &queries, const RadiusSettings &settings,
                          NeighborLists<double> &found, const Control &control) const override {
        with_query(queries, control, [&](const Points &z) {
            found = metricfast::radius_neighbors<double>(z, *database_, settings, control);
        });
    }
    void infer(const Points &queries, const InferenceProblem &problem,
               const Control &control) const override {
        with_query(queries, control, [&](const Points &z) {
            const auto memory = memories_.borrow();
            metricfast::infer(*database_, z, problem, *memory, control);
        });
    }
    const Points &points() const override { return database_->points(); }
    SearchRoute route() const override { return database_->route(); }
    Index cells() const override { return database_->cells(); }
    std::size_t bytes() const override {
        const Index mapped = maps_.query.size() != 0 ? points().rows() * points().cols() : 0;
        return database_->bytes() + sizeof(double) * static_cast<std::size_t>(mapped);
    }
    DatabaseState state() const override { return database_->state(); }

  private:
    /// Calls f with queries, mapped first if there are maps.
    template <class F> void with_query(const Points &queries, const Control &control, F &&f) const {
        if (maps_.query.size() == 0)
            return f(queries);
        const RowMatrix<double> z = embed_finite(queries, maps_.query, origin_, control);
        f(Points(view(z)));
    }

    template <class T>
    void run(const Points &queries, Index k, const Filter &filter, bool squared, View<T> distances,
             View<std::int64_t> indices, const Control &control) const {
        with_query(queries, control, [&](const Points &z) {
            const auto memory = memories_.borrow();
            database_->search<T>(z, k, filter, squared, distances, indices, *memory, control);
        });
    }

    DoubleMaps maps_;
    std::vector<double> origin_;
    RowMatrix<double> mapped_;
    std::unique_ptr<Database> database_;
    mutable Pool<DatabaseMemory> memories_;
};

class LevelPoints final : public PointKernels {
  public:
    bool all_finite(const Points &points) const override {
        try {
            require_finite(points, "not all are");
        } catch (const std::invalid_argument &) {
            return false;
        }
        return true;
    }
    std::pair<double, double> extent(const Points &points, Span<const double> from,
                                     double unit) const override {
        require(from.size() == points.cols(), "extent: from must have one entry per feature");
        std::vector<double> scaled(from.begin(), from.end());
        for (double &value : scaled)
            value *= unit;
        const Extremes extremes(points);
        return {extremes.magnitude(), extremes.offset(scaled, unit)};
    }
    Frame frame(const Points &some, double unit, double spread) const override {
        return frame_at(middle(some), difference_scale(unit, spread));
    }
    std::vector<double> embedding_origin(const Points &points) const override {
        return detail::exact_origin(points);
    }
    void embed(const Points &x, const Points &L, Span<const double> origin, View<double> out,
               const Control &control) const override {
        require_each(origin, x.cols(), "embed: origin must have one entry per feature");
        std::vector<double> from(static_cast<std::size_t>(x.cols()));
        std::copy(origin.begin(), origin.end(), from.begin());
        const RowMatrix<double> z = embed_finite(x, to_double(L), std::move(from), control);
        require(out.rows == z.rows() && out.cols == z.cols(), "embed: out has the wrong shape");
        for (Index i = 0; i < z.rows(); ++i)
            std::copy(z.row(i).data(), z.row(i).data() + z.cols(), out.row(i));
    }
    CandidateLists find_impostors(const Points &points, Codes labels, Index classes, Weights radius,
                                  std::size_t limit, const Control &control) const override {
        return metricfast::find_impostors(points, labels, classes, radius, limit, control);
    }
    std::unique_ptr<SearchDatabase> prepare_database(const Points &points, const Maps &maps,
                                                     DatabaseOptions options,
                                                     const Control &control) const override {
        return std::make_unique<MappedDatabase>(points, maps, options, control);
    }
    std::unique_ptr<SearchDatabase> restore_database(const Points &points,
                                                     const DatabaseState &state,
                                                     Metric metric) const override {
        return std::make_unique<MappedDatabase>(points, state, metric);
    }
    void rank_classes(const Points &queries, const Points &database, const Maps &maps,
                      Codes query_labels, Codes labels, const Filter &filter, Metric metric,
                      Span<RankSummary> out, const Control &control) const override {
        with_mapped(
            queries, database, maps, control,
            [&](const Points &q, const Points &d) {
                metricfast::rank_classes(q, d, query_labels, labels, filter, metric, out, control);
            },
            metric);
    }
    bool has_int8() const override { return metricfast::has_int8(); }
    void infer(const Points &queries, const Points &database, const InferenceProblem &problem,
               const Control &control) const override {
        InferenceSearch(queries, database, problem).run(control);
    }
};

template <class T> class LevelSearch final : public SearchKernels<T> {
  public:
    void pairwise_distances(const Points &queries, const Points &database, const Maps &maps,
                            bool squared, View<T> out, const Control &control) const override {
        with_mapped(queries, database, maps, control, [&](const Points &q, const Points &d) {
            metricfast::pairwise_distances<T>(q, d, squared, out, control);
        });
    }
    void pairwise_distances_of_part(const Points &queries, const Points &part, const Frame &frame,
                                    Index columns, bool squared, View<T> out,
                                    Span<std::int64_t> cancelled,
                                    const Control &control) const override {
        metricfast::pairwise_distances_of_part<T>(queries, part,
                                                  frame_at(frame.centre, frame.scale), columns,
                                                  squared, out, cancelled, control);
    }
    Index pairwise_block() const override { return AllPairs<T>::block; }
    Index most_cancelled(Index rows, Index columns) const override {
        return AllPairs<T>::most_cancelled(rows, columns);
    }
    void paired_distances(const Points &x, const Points &y, const PairList &pairs, const Maps &maps,
                          bool squared, Span<T> out, const Control &control) const override {
        if (!maps.any()) {
            metricfast::paired_distances<T>(x, y, pairs, squared, out, control);
            return;
        }
        const DoubleMaps given(maps);
        metricfast::paired_distances<T>(x, y, pairs, given.query, given.database(), squared, out,
                                        control);
    }
    void kneighbors(const Points &queries, const Points &database, Index k, const Maps &maps,
                    const Filter &filter, bool squared, View<T> distances,
                    View<std::int64_t> indices, const Control &control, Span<const double> within,
                    Metric metric) const override {
        with_mapped(
            queries, database, maps, control,
            [&](const Points &q, const Points &d) {
                metricfast::kneighbors<T>(q, d, k, filter, squared, distances, indices, control,
                                          within, metric);
            },
            metric);
    }
    void kneighbors_per_class(const Points &queries, const Points &database, Codes labels,
                              Index classes, Index k, const Maps &maps, Codes exclude, bool squared,
                              Span<T> distances, Span<std::int64_t> indices,
                              const Control &control) const override {
        with_mapped(queries, database, maps, control, [&](const Points &q, const Points &d) {
            metricfast::kneighbors_per_class<T>(q, d, labels, classes, k, exclude, squared,
                                                distances, indices, control);
        });
    }
    NeighborLists<T> radius_neighbors(const Points &queries, const Points &database,
                                      const RadiusSettings &settings, const Maps &maps,
                                      const Control &control, Metric metric) const override {
        NeighborLists<T> lists;
        with_mapped(
            queries, database, maps, control,
            [&](const Points &q, const Points &d) {
                lists = metricfast::radius_neighbors<T>(q, d, settings, control, metric);
            },
            metric);
        return lists;
    }
    void soft_votes(const Points &queries, const Points &database, View<const T> values,
                    Weights log_weight, Codes exclude, View<double> out,
                    const Control &control) const override {
        metricfast::soft_votes<T>(queries, database, values, log_weight, exclude, out, control);
    }
    void infer(View<const T> distances, const InferenceProblem &problem,
               const Control &control) const override {
        infer_from_distances(distances, problem, control);
    }
};

} // namespace

const PointKernels &point_kernels() {
    static const LevelPoints kernels;
    return kernels;
}

template <class T> const SearchKernels<T> &search_kernels() {
    static const LevelSearch<T> kernels;
    return kernels;
}
template const SearchKernels<float> &search_kernels();
template const SearchKernels<double> &search_kernels();

METRICFAST_MODEL_DISTANCES(, float)
METRICFAST_MODEL_DISTANCES(, double)

METRICFAST_NAMESPACE_END
