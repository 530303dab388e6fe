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

/// Returns the argument of a type, or null.
template <class Wanted, class... A> const Wanted *argument(const A &...given) {
    const Wanted *found = nullptr;
    const auto look = [&](const auto &each) {
        if constexpr (std::is_same_v<decltype(each), const Wanted &>)
            found = &each;
    };
    (look(given), ...);
    return found;
}

/// Returns f(queries, database, given...), with the points mapped first if there are maps.
template <class F, class... A>
auto with_mapped(F f, const Points &queries, const Points &database, const Maps &maps,
                 const A &...given) {
    if (!maps.any())
        return f(queries, database, given...);
    const DoubleMaps both(maps);
    const Metric *const metric = argument<Metric>(given...);
    const EmbeddedPair z(queries, database, both.query, both.database(),
                         *argument<Control>(given...),
                         metric == nullptr || *metric == Metric::euclidean);
    return f(Points(view(z.queries)), Points(view(z.database)), given...);
}

class LevelDatabase final : public SearchDatabase {
  public:
    /// \param embed empty if points are not mapped.
    LevelDatabase(std::unique_ptr<Database> database, std::shared_ptr<const void> held,
                  std::size_t bytes, Embed embed)
        : held_(std::move(held)), held_bytes_(bytes), embed_(std::move(embed)),
          database_(std::move(database)) {}

    const Points &points() const override { return database_->points(); }
    SearchRoute route() const override { return database_->route(); }
    Index cells() const override { return database_->cells(); }
    std::size_t bytes() const override { return database_->bytes() + held_bytes_; }
    DatabaseState state() const override { return database_->state(); }

    /// Calls f(images of the queries, database, memory).
    template <class F> void run(const Points &queries, const Control &control, F &&f) const {
        const auto search = [&](const Points &z) {
            const auto memory = memories_.borrow();
            f(z, *database_, *memory);
        };
        if (embed_)
            embed_(queries, control, search);
        else
            search(queries);
    }

  private:
    std::shared_ptr<const void> held_;
    std::size_t held_bytes_;
    Embed embed_;
    std::unique_ptr<Database> database_;
    mutable Pool<DatabaseMemory> memories_;
};

const LevelDatabase &of(const SearchDatabase &database) {
    return static_cast<const LevelDatabase &>(database);
}

} // namespace

namespace level {

bool all_finite(const Points &points) {
    try {
        require_finite(points, "not all are");
    } catch (const std::invalid_argument &) {
        return false;
    }
    return true;
}

std::pair<double, double> extent(const Points &points, Span<const double> from, double unit) {
    require(from.size() == points.cols(), "extent: from must have one entry per feature");
    std::vector<double> scaled(from.begin(), from.end());
    for (double &value : scaled)
        value *= unit;
    const Extremes extremes(points);
    return {extremes.magnitude(), extremes.offset(scaled, unit)};
}

Frame frame(const Points &some, double unit, double spread) {
    return frame_at(middle(some), difference_scale(unit, spread));
}

std::vector<double> embedding_origin(const Points &points) { return detail::exact_origin(points); }

void embed(const Points &x, const Points &L, Span<const double> origin, View<double> out,
           const Control &control) {
    require_each(origin, x.cols(), "embed: origin must have one entry per feature");
    std::vector<double> from(static_cast<std::size_t>(x.cols()));
    std::copy(origin.begin(), origin.end(), from.begin());
    const RowMatrix<double> z = embed_finite(x, to_double(L), std::move(from), control);
    require(out.rows == z.rows() && out.cols == z.cols(), "embed: out has the wrong shape");
    for (Index i = 0; i < z.rows(); ++i)
        std::copy(z.row(i).data(), z.row(i).data() + z.cols(), out.row(i));
}

std::unique_ptr<SearchDatabase> prepare_database(const Points &points, const Maps &maps,
                                                 DatabaseOptions options, const Control &control) {
    if (!maps.any())
        return prepare_images(points, options, nullptr, 0, nullptr, control);
    struct Held {
        DoubleMaps maps;
        std::vector<double> origin;
        RowMatrix<double> images;
    };
    const auto held = std::make_shared<Held>(Held{DoubleMaps(maps), {}, {}});
    // Only differences do not depend on the origin.
    held->origin =
        options.metric == Metric::euclidean
            ? metricfast::embedding_origin(points, held->maps.query, held->maps.database())
            : std::vector<double>(static_cast<std::size_t>(points.cols()), 0.0);
    held->images = embed_finite(points, held->maps.database(), held->origin, control);
    const auto embed = [held](const Points &queries, const Control &how, const auto &search) {
        const RowMatrix<double> z = embed_finite(queries, held->maps.query, held->origin, how);
        search(Points(view(z)));
    };
    const auto size = static_cast<std::size_t>(held->images.size());
    return prepare_images(view(held->images), options, held, sizeof(double) * size, embed, control);
}

std::unique_ptr<SearchDatabase> restore_database(const Points &points, const DatabaseState &state,
                                                 Metric metric) {
    return std::make_unique<LevelDatabase>(std::make_unique<Database>(points, state, metric),
                                           nullptr, 0, nullptr);
}

void infer_prepared(const Points &queries, const SearchDatabase &database,
                    const InferenceProblem &problem, const Control &control) {
    of(database).run(queries, control, [&](const Points &z, const Database &all, auto &memory) {
        metricfast::infer(all, z, problem, memory, control);
    });
}

template <class T>
void kneighbors(const Points &queries, const SearchDatabase &database, Index k,
                const Filter &filter, bool squared, View<T> distances, View<std::int64_t> indices,
                const Control &control) {
    of(database).run(queries, control, [&](const Points &z, const Database &all, auto &memory) {
        all.search<T>(z, k, filter, squared, distances, indices, memory, control);
    });
}

template <class T>
NeighborLists<T> radius_neighbors(const Points &queries, const SearchDatabase &database,
                                  const RadiusSettings &settings, const Control &control) {
    NeighborLists<T> found;
    of(database).run(queries, control, [&](const Points &z, const Database &all, auto &) {
        found = metricfast::radius_neighbors<T>(z, all, settings, control);
    });
    return found;
}

template <class T>
void kneighbors_per_class(const Points &queries, const SearchDatabase &database, Codes labels,
                          Index classes, Index k, Codes exclude, bool squared, Span<T> distances,
                          Span<std::int64_t> indices, const Control &control) {
    of(database).run(queries, control, [&](const Points &z, const Database &all, auto &memory) {
        metricfast::kneighbors_per_class<T>(z, all, labels, classes, k, exclude, squared, distances,
                                            indices, memory, control);
    });
}

template <class T>
void soft_votes(const Points &queries, const SearchDatabase &database, View<const T> values,
                Weights log_weight, Codes exclude, View<double> out, const Control &control) {
    of(database).run(queries, control, [&](const Points &z, const Database &all, auto &) {
        require(all.space().euclidean(),
                "soft_votes: the metric of the database must be euclidean");
        metricfast::soft_votes<T>(z, all.points(), values, log_weight, exclude, out, control);
    });
}

void infer(const Points &queries, const Points &database, const InferenceProblem &problem,
           const Control &control) {
    InferenceSearch(queries, database, problem).run(control);
}

template <class T>
void pairwise_distances_of_part(const Points &queries, const Points &part, const Frame &frame,
                                Index columns, bool squared, View<T> out,
                                Span<std::int64_t> cancelled, const Control &control) {
    metricfast::pairwise_distances_of_part<T>(queries, part, frame_at(frame.centre, frame.scale),
                                              columns, squared, out, cancelled, control);
}

template <class T> Index pairwise_block() { return AllPairs<T>::block; }

template <class T> Index most_cancelled(Index rows, Index columns) {
    return AllPairs<T>::most_cancelled(rows, columns);
}

template <class T>
void paired_distances(const Points &x, const Points &y, const Maps &maps, const PairList &pairs,
                      bool squared, Span<T> out, const Control &control) {
    const PairList list{pairs.pairs, out.size()};
    if (!maps.any())
        return metricfast::paired_distances<T>(x, y, list, squared, out, control);
    const DoubleMaps both(maps);
    metricfast::paired_distances<T>(x, y, list, both.query, both.database(), squared, out, control);
}

// Kernels of two sets of points, which are mapped first.
#define METRICFAST_MAP(name)                                                                       \
    template <class T, class... A>                                                                 \
    auto name(const Points &queries, const Points &database, const Maps &maps, A... given) {       \
        return with_mapped([](const auto &...each) { return metricfast::name<T>(each...); },       \
                           queries, database, maps, given...);                                     \
    }
METRICFAST_MAP(pairwise_distances)
METRICFAST_MAP(kneighbors)
METRICFAST_MAP(kneighbors_per_class)
METRICFAST_MAP(radius_neighbors)
using metricfast::soft_votes;

template <class... A>
void rank_classes(const Points &queries, const Points &database, const Maps &maps, A... given) {
    with_mapped([](const auto &...each) { metricfast::rank_classes(each...); }, queries, database,
                maps, given...);
}

} // namespace level

std::unique_ptr<SearchDatabase> prepare_images(const Points &images, DatabaseOptions options,
                                               std::shared_ptr<const void> held, std::size_t bytes,
                                               Embed embed, const Control &control) {
    return std::make_unique<LevelDatabase>(std::make_unique<Database>(images, options, control),
                                           std::move(held), bytes, std::move(embed));
}

METRICFAST_TABLE(PointKernels, METRICFAST_POINT_KERNELS, point_kernels)
METRICFAST_TABLE_OF_T(SearchKernels, METRICFAST_SEARCH_KERNELS, search_kernels)
METRICFAST_TABLE_OF_T(DatabaseKernels, METRICFAST_DATABASE_KERNELS, database_kernels)

METRICFAST_MODEL_DISTANCES(, float)
METRICFAST_MODEL_DISTANCES(, double)

METRICFAST_NAMESPACE_END
