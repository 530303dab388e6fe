/// The functions of metricfast.h, compiled for one instruction set level.
#include "c/functions.hpp"

#include <cstdio>

#include "lib/areas.hpp"

using namespace metricfast;

struct metricfast_model {
    std::unique_ptr<SavedModel> model;
};

struct metricfast_database {
    std::unique_ptr<SearchDatabase> points;
    Index n_features; ///< number of features of queries
};

namespace {

thread_local char error_text[2048] = "";

int failed(metricfast_status status, const char *text) {
    std::snprintf(error_text, sizeof error_text, "%s", text);
    return status;
}

/// Calls f() and converts an exception into a status.
template <class F> int guarded(F &&f) {
    try {
        f();
        return METRICFAST_OK;
    } catch (const ModelError &error) {
        return failed(METRICFAST_ERROR_MODEL, error.what());
    } catch (const std::invalid_argument &error) {
        return failed(METRICFAST_ERROR_ARGUMENT, error.what());
    } catch (const std::filesystem::filesystem_error &error) {
        return failed(METRICFAST_ERROR_FILE, error.what());
    } catch (const std::bad_alloc &) {
        return failed(METRICFAST_ERROR_MEMORY, "there is not enough memory");
    } catch (const std::length_error &) {
        return failed(METRICFAST_ERROR_MEMORY, "there is not enough memory");
    } catch (const std::exception &error) {
        return failed(METRICFAST_ERROR_OTHER, error.what());
    } catch (...) {
        return failed(METRICFAST_ERROR_OTHER, "unknown error");
    }
}

/// Views an array of the caller as a matrix.
template <class T> View<T> matrix(const char *name, T *data, std::int64_t rows, Index cols) {
    require(rows >= 0, std::string("there cannot be a negative number of ") + name);
    require(data != nullptr || rows == 0, std::string(name) + " is null");
    return {data, static_cast<Index>(rows), cols};
}

const SavedModel &model_of(const metricfast_model *handle) {
    require(handle != nullptr, "the model is null");
    return *handle->model;
}

template <class Make> int new_model(metricfast_model **model, Make &&make) {
    return guarded([&] {
        require(model != nullptr, "the output pointer `model` is null");
        *model = nullptr;
        *model = new metricfast_model{make()};
    });
}

const char *last_error() { return error_text; }

int model_load(const char *path, metricfast_model **model) {
    return new_model(model, [&] {
        require(path != nullptr, "path is null");
        return model_kernels().load(path);
    });
}

int model_parse(const void *bytes, std::size_t size, metricfast_model **model) {
    return new_model(model, [&] {
        require(bytes != nullptr || size == 0, "bytes is null");
        return model_kernels().parse(std::string(static_cast<const char *>(bytes), size));
    });
}

void model_free(metricfast_model *model) { delete model; }

const char *model_learner(const metricfast_model *model) {
    return model == nullptr ? nullptr : model->model->learner().c_str();
}
std::int64_t model_n_features(const metricfast_model *model) {
    return model == nullptr ? 0 : model->model->n_features();
}
std::int64_t model_n_database_features(const metricfast_model *model) {
    return model == nullptr ? 0 : model->model->n_features(ModelSide::database);
}
std::int64_t model_n_components(const metricfast_model *model) {
    return model == nullptr ? 0 : model->model->n_components();
}

template <class T>
int transform(const metricfast_model *model, metricfast_side side, const T *points,
              std::int64_t n_points, T *embedded, int n_threads) {
    return guarded([&] {
        const SavedModel &m = model_of(model);
        require(side == METRICFAST_QUERY || side == METRICFAST_DATABASE,
                "side must be METRICFAST_QUERY or METRICFAST_DATABASE");
        const ModelSide of = side == METRICFAST_QUERY ? ModelSide::query : ModelSide::database;
        const View<const T> x = matrix("points", points, n_points, m.n_features(of));
        m.transform(x, matrix("embedded", embedded, n_points, m.n_components()), of,
                    {n_threads, {}, {}});
    });
}

template <class T>
int pair_score(const metricfast_model *model, const T *x, const T *y, std::int64_t n_pairs,
               T *scores, int n_threads) {
    return guarded([&] {
        const SavedModel &m = model_of(model);
        const View<T> written = matrix("scores", scores, n_pairs, 1);
        m.pair_score(matrix("x", x, n_pairs, m.n_features()),
                     matrix("y", y, n_pairs, m.n_features(ModelSide::database)),
                     Span<T>(scores, written.rows), {n_threads, {}, {}});
    });
}

template <class T>
int database_create(const metricfast_model *model, const T *points, std::int64_t n_points,
                    metricfast_metric metric, int n_threads, metricfast_database **database) {
    return guarded([&] {
        require(database != nullptr, "the output pointer `database` is null");
        *database = nullptr;
        const SavedModel &m = model_of(model);
        require(metric >= METRICFAST_EUCLIDEAN && metric <= METRICFAST_INNER_PRODUCT,
                "metric must be METRICFAST_EUCLIDEAN, METRICFAST_COSINE or "
                "METRICFAST_INNER_PRODUCT");
        const View<const T> x =
            matrix("points", points, n_points, m.n_features(ModelSide::database));
        *database = new metricfast_database{
            m.prepare_database(x, {n_threads, {}, {}}, static_cast<Metric>(metric)),
            m.n_features()};
    });
}

void database_free(metricfast_database *database) { delete database; }

std::int64_t database_n_points(const metricfast_database *database) {
    return database == nullptr ? 0 : database->points->points().rows();
}

Filter filter_of(const metricfast_filter *given, Index queries, Index points) {
    Filter filter;
    if (given != nullptr) {
        filter.exclude = {given->exclude, queries};
        filter.rows = {given->rows, points};
        filter.query_labels = {given->query_labels, queries};
        filter.labels = {given->labels, points};
    }
    return filter;
}

template <class T>
int database_search(const metricfast_database *database, const T *queries, std::int64_t n_queries,
                    std::int64_t n_neighbors, const metricfast_filter *given, T *distances,
                    std::int64_t *rows, int n_threads) {
    return guarded([&] {
        require(database != nullptr, "the database is null");
        require(n_neighbors >= 1, "n_neighbors must be at least 1");
        const auto k = static_cast<Index>(n_neighbors);
        const View<const T> points = matrix("queries", queries, n_queries, database->n_features);
        const View<T> found = matrix("distances", distances, n_queries, k);
        const View<std::int64_t> found_rows = matrix("rows", rows, n_queries, k);
        const Filter filter = filter_of(given, points.rows, database->points->points().rows());
        database_kernels<T>().kneighbors(points, *database->points, k, filter, false, found,
                                         found_rows, {n_threads, {}, {}});
    });
}

/// Lists that own what they show.
struct OwnedLists : metricfast_lists {
    explicit OwnedLists(NeighborLists<double> found) : lists(std::move(found)) {
        n_queries = static_cast<std::int64_t>(lists.row_starts.size()) - 1;
        row_starts = lists.row_starts.data();
        rows = lists.indices.data();
        distances = lists.distances.data();
    }
    NeighborLists<double> lists;
};

template <class T>
int database_radius(const metricfast_database *database, const T *queries, std::int64_t n_queries,
                    double radius, const metricfast_filter *given, int n_threads,
                    metricfast_lists **lists) {
    return guarded([&] {
        require(lists != nullptr, "the output pointer `lists` is null");
        *lists = nullptr;
        require(database != nullptr, "the database is null");
        const View<const T> points = matrix("queries", queries, n_queries, database->n_features);
        RadiusSettings settings;
        settings.radius = radius;
        settings.filter = filter_of(given, points.rows, database->points->points().rows());
        *lists = new OwnedLists(database_kernels<double>().radius_neighbors(
            points, *database->points, settings, {n_threads, {}, {}}));
    });
}

void lists_free(metricfast_lists *lists) { delete static_cast<OwnedLists *>(lists); }

InferenceOutput sets_of(const metricfast_sets *given, Index queries, Index k) {
    if (given == nullptr)
        return {};
    return {{given->rows, queries * k},
            {given->values, queries},
            {given->costs, queries},
            {given->feasible, queries}};
}

template <class T>
int database_infer(const metricfast_database *database, const T *queries, std::int64_t n_queries,
                   const metricfast_votes *votes, const metricfast_sets *targeted,
                   const metricfast_sets *augmented, int n_threads) {
    return guarded([&] {
        require(database != nullptr, "the database is null");
        require(votes != nullptr, "votes is null");
        require(votes->ties >= METRICFAST_TIES_PESSIMISTIC &&
                    votes->ties <= METRICFAST_TIES_NEAREST,
                "ties must be one of metricfast_ties");
        const View<const T> points = matrix("queries", queries, n_queries, database->n_features);
        const Index n = points.rows, m = database->points->points().rows();
        const auto k = static_cast<Index>(votes->n_neighbors);
        const auto classes = static_cast<Index>(votes->n_classes);
        // Sizes are checked before they are multiplied.
        require(k >= 1 && k <= m, "n_neighbors must be from 1 to the number of points");
        require(classes >= 1 && classes <= std::numeric_limits<std::int32_t>::max(),
                "n_classes must be from 1 to 2^31 - 1");
        InferenceProblem problem;
        problem.query_labels = {votes->query_labels, n};
        problem.database_labels = {votes->database_labels, m};
        problem.exclude = {votes->exclude, n};
        problem.options.k = k;
        problem.options.loss = {{votes->loss_matrix, classes * classes}, classes};
        problem.options.ties = static_cast<Ties>(votes->ties);
        problem.targeted = sets_of(targeted, n, k);
        problem.augmented = sets_of(augmented, n, k);
        point_kernels().infer_prepared(points, *database->points, problem, {n_threads, {}, {}});
    });
}

constexpr auto transform_f32 = &transform<float>;
constexpr auto transform_f64 = &transform<double>;
constexpr auto pair_score_f32 = &pair_score<float>;
constexpr auto pair_score_f64 = &pair_score<double>;
constexpr auto database_create_f32 = &database_create<float>;
constexpr auto database_create_f64 = &database_create<double>;
constexpr auto database_search_f32 = &database_search<float>;
constexpr auto database_search_f64 = &database_search<double>;
constexpr auto database_radius_f32 = &database_radius<float>;
constexpr auto database_radius_f64 = &database_radius<double>;
constexpr auto database_infer_f32 = &database_infer<float>;
constexpr auto database_infer_f64 = &database_infer<double>;

#define METRICFAST_NAME(name) name,
constexpr LevelFunctions functions{METRICFAST_LEVEL_FUNCTIONS(METRICFAST_NAME)};
#undef METRICFAST_NAME

} // namespace

METRICFAST_NAMESPACE_BEGIN
const LevelFunctions &c_functions() { return functions; }
METRICFAST_NAMESPACE_END
