/// The library of metricfast.h: finds the code for this processor beside itself, and calls it.
#include "functions.hpp"

#include <algorithm>
#include <cstdlib>

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

#include "cpu/levels.hpp"
#include "metricfast/version.hpp"

namespace {

using metricfast::LevelFunctions;

/// The folder that this library was loaded from, with the separator.
std::string folder() {
#ifdef _WIN32
    HMODULE self = nullptr;
    char path[32768] = "";
    GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS |
                           GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                       reinterpret_cast<LPCSTR>(&metricfast_version), &self);
    GetModuleFileNameA(self, path, sizeof path);
#else
    Dl_info self{};
    dladdr(reinterpret_cast<const void *>(&metricfast_version), &self);
    const char *const path = self.dli_fname != nullptr ? self.dli_fname : "";
#endif
    const std::string file(path);
    return file.substr(0, file.find_last_of("/\\") + 1);
}

/// The functions of a level; null where its file is missing or does not load, and `error` why.
const LevelFunctions *open_level(const std::string &level, std::string &error) {
    const std::string file = folder() + METRICFAST_LEVEL_PREFIX + level + METRICFAST_LEVEL_SUFFIX;
#ifdef _WIN32
    const HMODULE library = LoadLibraryA(file.c_str());
    error = library == nullptr ? "cannot load " + file : "";
    void *const symbol =
        library == nullptr
            ? nullptr
            : reinterpret_cast<void *>(GetProcAddress(library, METRICFAST_LEVEL_SYMBOL));
#else
    void *const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (const char *const why = library == nullptr ? dlerror() : nullptr)
        error = why;
    void *const symbol = library == nullptr ? nullptr : dlsym(library, METRICFAST_LEVEL_SYMBOL);
#endif
    return symbol == nullptr ? nullptr : reinterpret_cast<const LevelFunctions *(*)()>(symbol)();
}

/// What is in use, once and for all: the best level that was built and that this machine supports,
/// or the one that METRICFAST_ISA names.
struct Level {
    std::string name;
    const LevelFunctions *functions = nullptr;
    std::string error;

    Level() {
        const std::vector<std::string> built{METRICFAST_LEVELS}; // best last
        const std::vector<std::string> supported = metricfast::supported_levels();
        const auto runs = [&](const std::string &level) {
            return level == "base" || std::count(supported.begin(), supported.end(), level) > 0;
        };
        const char *const variable = std::getenv("METRICFAST_ISA");
        const std::string wanted = variable != nullptr ? variable : "";
        for (const std::string &level : built)
            if (wanted.empty() ? runs(level) : level == wanted && runs(level))
                name = level;
        if (name.empty())
            error = wanted.empty()
                        ? "this processor supports no instruction set that metricfast is built for"
                        : "METRICFAST_ISA is '" + wanted +
                              "', which metricfast is not built for, or this processor does not "
                              "support";
        else
            functions = open_level(name, error);
    }

    static const Level &in_use() {
        static const Level level;
        return level;
    }
};

/// What a function of the level returns, or `otherwise` where there is none.
template <class Result, class F> Result call(Result otherwise, F &&f) noexcept {
    try {
        const LevelFunctions *const functions = Level::in_use().functions;
        return functions == nullptr ? otherwise : f(*functions);
    } catch (...) { // memory that ran out where the level was chosen
        return otherwise;
    }
}

template <class F> int status(F &&f) noexcept { return call<int>(METRICFAST_ERROR_PROCESSOR, f); }

} // namespace

const char *metricfast_version() { return METRICFAST_VERSION; }

const char *metricfast_isa() {
    return call<const char *>(nullptr,
                              [](const LevelFunctions &) { return Level::in_use().name.c_str(); });
}

const char *metricfast_last_error() {
    try {
        const Level &level = Level::in_use();
        return level.functions == nullptr ? level.error.c_str() : level.functions->last_error();
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

int64_t metricfast_model_n_components(const metricfast_model *model) {
    return call<int64_t>(0, [=](const auto &f) { return f.model_n_components(model); });
}

void metricfast_database_free(metricfast_database *database) {
    status([=](const auto &f) { return f.database_free(database), 0; });
}

int64_t metricfast_database_n_points(const metricfast_database *database) {
    return call<int64_t>(0, [=](const auto &f) { return f.database_n_points(database); });
}

// Of either precision.
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
                                            int64_t n_points, int n_threads,                       \
                                            metricfast_database **database) {                      \
        return status([=](const auto &f) {                                                         \
            return f.database_create_##suffix(model, points, n_points, n_threads, database);       \
        });                                                                                        \
    }                                                                                              \
    int metricfast_database_search_##suffix(                                                       \
        const metricfast_database *database, const T *queries, int64_t n_queries,                  \
        int64_t n_neighbors, const int64_t *exclude, T *distances, int64_t *rows, int n_threads) { \
        return status([=](const auto &f) {                                                         \
            return f.database_search_##suffix(database, queries, n_queries, n_neighbors, exclude,  \
                                              distances, rows, n_threads);                         \
        });                                                                                        \
    }

METRICFAST_FORWARD(float, f32)
METRICFAST_FORWARD(double, f64)
