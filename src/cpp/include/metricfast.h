/* metricfast in C, and in whatever calls C: models that Python saved, applied and searched under.
 *
 * Functions return 0, or a metricfast_status that says what went wrong; metricfast_last_error() has
 * the words. What they write is undefined then. No C++ exception leaves them, and nothing that they
 * are given is kept: points may be freed once a call returns.
 *
 * Points are row-major and contiguous, n_points x n_features. Functions of a suffix _f32 take
 * float, those of _f64 double; a model of either precision serves both.
 *
 * Any number of threads may use a model or a database at once; free it when none does. A database
 * outlives its model. `n_threads` is how many threads a call may use; 0: as many as the variable
 * METRICFAST_NUM_THREADS says, else as there are CPUs. Results do not depend on it.
 *
 * At the first call the library picks the code for this processor's instruction set, or for the one
 * that the variable METRICFAST_ISA names.
 */
#ifndef METRICFAST_H
#define METRICFAST_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32) && defined(METRICFAST_EXPORTS)
#define METRICFAST_API __declspec(dllexport)
#elif defined(_WIN32)
#define METRICFAST_API __declspec(dllimport)
#elif defined(METRICFAST_EXPORTS)
#define METRICFAST_API __attribute__((visibility("default")))
#else
#define METRICFAST_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum metricfast_status {
    METRICFAST_OK = 0,
    METRICFAST_ERROR_ARGUMENT = 1,  /* sizes that do not fit, null, NaN, numbers that overflow */
    METRICFAST_ERROR_FILE = 2,      /* the file cannot be read */
    METRICFAST_ERROR_MODEL = 3,     /* it is damaged, or no model that this version reads */
    METRICFAST_ERROR_MEMORY = 4,    /* there is not enough */
    METRICFAST_ERROR_PROCESSOR = 5, /* there is no code for this processor, or for METRICFAST_ISA */
    METRICFAST_ERROR_OTHER = 6
} metricfast_status;

/* What points are: some models embed queries and the points of a database differently. */
typedef enum metricfast_side { METRICFAST_QUERY = 0, METRICFAST_DATABASE = 1 } metricfast_side;

/* A learner that metricfast.save wrote. */
typedef struct metricfast_model metricfast_model;

/* Points made ready to be searched under a model. */
typedef struct metricfast_database metricfast_database;

/* The version of the library, such as "0.1.0". */
METRICFAST_API const char *metricfast_version(void);

/* The instruction set level in use: "v2", "v3" or "v4" of x86-64, or "base"; null where
 * there is none for this processor. */
METRICFAST_API const char *metricfast_isa(void);

/* What went wrong last in this thread, in words; empty if nothing did. Valid until the thread's
 * next call. */
METRICFAST_API const char *metricfast_last_error(void);

/* Reads a model file. `*model` is to be freed, and null after an error. */
METRICFAST_API int metricfast_model_load(const char *path, metricfast_model **model);

/* The same of the bytes of such a file. */
METRICFAST_API int metricfast_model_parse(const void *bytes, size_t size, metricfast_model **model);

/* Null is allowed. */
METRICFAST_API void metricfast_model_free(metricfast_model *model);

/* The name of the learner's class in Python, which lives as long as the model; null for null. */
METRICFAST_API const char *metricfast_model_learner(const metricfast_model *model);

/* How many features queries have, points of a database, and embedded points; 0 for null. */
METRICFAST_API int64_t metricfast_model_n_features(const metricfast_model *model);
METRICFAST_API int64_t metricfast_model_n_database_features(const metricfast_model *model);
METRICFAST_API int64_t metricfast_model_n_components(const metricfast_model *model);

/* Embeds points, as `learner.transform` does. Of OASIS, whose similarity is x^T W x', W^T x of
 * queries and the points themselves of a database.
 * embedded: n_points x n_components, written. */
METRICFAST_API int metricfast_transform_f32(const metricfast_model *model, metricfast_side side,
                                            const float *points, int64_t n_points, float *embedded,
                                            int n_threads);
METRICFAST_API int metricfast_transform_f64(const metricfast_model *model, metricfast_side side,
                                            const double *points, int64_t n_points,
                                            double *embedded, int n_threads);

/* How alike pairs of points are, as `learner.pair_score` says: minus their distance, or the
 * similarity of OASIS.
 * x: n_pairs x n_features, queries. y: n_pairs x n_database_features, points of a database.
 * scores: n_pairs, written. */
METRICFAST_API int metricfast_pair_score_f32(const metricfast_model *model, const float *x,
                                             const float *y, int64_t n_pairs, float *scores,
                                             int n_threads);
METRICFAST_API int metricfast_pair_score_f64(const metricfast_model *model, const double *x,
                                             const double *y, int64_t n_pairs, double *scores,
                                             int n_threads);

/* Makes points ready to be searched many times. `*database` is to be freed, and null after an
 * error. A model of OASIS has no distance, and no database. */
METRICFAST_API int metricfast_database_create_f32(const metricfast_model *model,
                                                  const float *points, int64_t n_points,
                                                  int n_threads, metricfast_database **database);
METRICFAST_API int metricfast_database_create_f64(const metricfast_model *model,
                                                  const double *points, int64_t n_points,
                                                  int n_threads, metricfast_database **database);

/* Null is allowed. */
METRICFAST_API void metricfast_database_free(metricfast_database *database);

/* How many points there are; 0 for null. */
METRICFAST_API int64_t metricfast_database_n_points(const metricfast_database *database);

/* Which points each query may find. A null member leaves out none. */
typedef struct metricfast_filter {
    const int64_t *exclude;      /* n_queries: a row to leave out, -1 for none */
    const uint8_t *rows;         /* n_points: 0 for each row that no query may find */
    const int64_t *query_labels; /* n_queries, with `labels`: */
    const int64_t *labels;       /* n_points: a query leaves out the rows with its label */
} metricfast_filter;

/* The nearest points of each query, exactly, nearest first and ties by the lower row.
 * filter: null, or which points may be found.
 * distances, rows: n_queries x n_neighbors, written: infinity and -1 where the filter leaves fewer
 * points. */
METRICFAST_API int metricfast_database_search_f32(const metricfast_database *database,
                                                  const float *queries, int64_t n_queries,
                                                  int64_t n_neighbors,
                                                  const metricfast_filter *filter, float *distances,
                                                  int64_t *rows, int n_threads);
METRICFAST_API int metricfast_database_search_f64(const metricfast_database *database,
                                                  const double *queries, int64_t n_queries,
                                                  int64_t n_neighbors,
                                                  const metricfast_filter *filter,
                                                  double *distances, int64_t *rows, int n_threads);

#ifdef __cplusplus
}
#endif

#endif
