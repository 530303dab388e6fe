/// The functions of metricfast.h, which call the code for this processor.
#include "dispatch/loaded.hpp"

namespace {

using metricfast::LevelFunctions;
using metricfast::loaded;

/// Calls a function of the level. Returns `otherwise` if no level is loaded.
template <class Result, class F> Result call(Result otherwise, F &&f) noexcept {
    try {
        const metricfast::Level *const level = loaded().level;
        return level == nullptr ? otherwise : f(level->functions);
    } catch (...) { // out of memory during the choice of the level
        return otherwise;
    }
}

template <class F> int status(F &&f) noexcept { return call<int>(METRICFAST_ERROR_PROCESSOR, f); }

} // namespace

const metricfast::Kernels *metricfast_kernels() {
    try {
        const metricfast::Level *const level = loaded().level;
        return level == nullptr ? nullptr : &level->kernels;
    } catch (...) { // out of memory during the choice of the level
        return nullptr;
    }
}

const char *metricfast_version() { return METRICFAST_VERSION; }

const char *metricfast_isa() {
    return call<const char *>(nullptr,
                              [](const LevelFunctions &) { return loaded().name.c_str(); });
}

const char *metricfast_last_error() {
    try {
        const metricfast::Loaded &found = loaded();
        return found.level == nullptr ? found.error.c_str() : found.level->functions.last_error();
    } catch (...) {
        return "there is not enough memory";
    }
}

int metricfast_model_load(const char *path, metricfast_model **model) {
    return status([=](const auto &f) { return f.model_load(path, model); });
}

int metricfast_model_parse(const void *bytes, size_t size, metricfast_model **model) {
    return status([=](const auto &f) { return f.model_parse(bytes, size, model); });
}

void metricfast_model_free(metricfast_model *model) {
    status([=](const auto &f) { return f.model_free(model), 0; });
}

const char *metricfast_model_learner(const metricfast_model *model) {
    return call<const char *>(nullptr, [=](const auto &f) { return f.model_learner(model); });
}

int64_t metricfast_model_n_features(const metricfast_model *model) {
    return call<int64_t>(0, [=](const auto &f) { return f.model_n_features(model); });
}

int64_t metricfast_model_n_database_features(const metricfast_model *model) {
    return call<int64_t>(0, [=](const auto &f) { return f.model_n_database_features(model); });
}

int64_t metricfast_model_n_components(const metricfast_model *model) {
    return call<int64_t>(0, [=](const auto &f) { return f.model_n_components(model); });
}

void metricfast_database_free(metricfast_database *database) {
    status([=](const auto &f) { return f.database_free(database), 0; });
}

int64_t metricfast_database_n_points(const metricfast_database *database) {
    return call<int64_t>(0, [=](const auto &f) { return f.database_n_points(database); });
}

void metricfast_lists_free(metricfast_lists *lists) {
    status([=](const auto &f) { return f.lists_free(lists), 0; });
}

// Functions in both precisions.
#define METRICFAST_FORWARD(T, suffix)                                                              \
    int metricfast_transform_##suffix(const metricfast_model *model, metricfast_side side,         \
                                      const T *points, int64_t n_points, T *embedded,              \
                                      int n_threads) {                                             \
        return status([=](const auto &f) {                                                         \
            return f.transform_##suffix(model, side, points, n_points, embedded, n_threads);       \
        });                                                                                        \
    }                                                                                              \
    int metricfast_pair_score_##suffix(const metricfast_model *model, const T *x, const T *y,      \
                                       int64_t n_pairs, T *scores, int n_threads) {                \
        return status([=](const auto &f) {                                                         \
            return f.pair_score_##suffix(model, x, y, n_pairs, scores, n_threads);                 \
        });                                                                                        \
    }                                                                                              \
    int metricfast_database_create_##suffix(const metricfast_model *model, const T *points,        \
                                            int64_t n_points, metricfast_metric metric,            \
                                            int n_threads, metricfast_database **database) {       \
        return status([=](const auto &f) {                                                         \
            return f.database_create_##suffix(model, points, n_points, metric, n_threads,          \
                                              database);                                           \
        });                                                                                        \
    }                                                                                              \
    int metricfast_database_search_##suffix(const metricfast_database *database, const T *queries, \
                                            int64_t n_queries, int64_t n_neighbors,                \
                                            const metricfast_filter *filter, T *distances,         \
                                            int64_t *rows, int n_threads) {                        \
        return status([=](const auto &f) {                                                         \
            return f.database_search_##suffix(database, queries, n_queries, n_neighbors, filter,   \
                                              distances, rows, n_threads);                         \
        });                                                                                        \
    }                                                                                              \
    int metricfast_database_radius_##suffix(                                                       \
        const metricfast_database *database, const T *queries, int64_t n_queries, double radius,   \
        const metricfast_filter *filter, int n_threads, metricfast_lists **lists) {                \
        return status([=](const auto &f) {                                                         \
            return f.database_radius_##suffix(database, queries, n_queries, radius, filter,        \
                                              n_threads, lists);                                   \
        });                                                                                        \
    }                                                                                              \
    int metricfast_database_infer_##suffix(const metricfast_database *database, const T *queries,  \
                                           int64_t n_queries, const metricfast_votes *votes,       \
                                           const metricfast_sets *targeted,                        \
                                           const metricfast_sets *augmented, int n_threads) {      \
        return status([=](const auto &f) {                                                         \
            return f.database_infer_##suffix(database, queries, n_queries, votes, targeted,        \
                                             augmented, n_threads);                                \
        });                                                                                        \
    }

METRICFAST_FORWARD(float, f32)
METRICFAST_FORWARD(double, f64)
