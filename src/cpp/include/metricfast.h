/* metricfast in C, and in languages that call C: load a model that Python saved, transform points,
 * score pairs, search a database.
 *
 * Functions return 0 or a metricfast_status. After an error, metricfast_last_error() returns its
 * text, and outputs are undefined. No C++ exception leaves a function. Functions copy what they
 * need: points may be freed when a call returns.
 *
 * Points are row-major and contiguous, n_points x n_features. Functions with the suffix _f32 take
 * float, with _f64 double. A model of either precision takes both.
 *
 * Any number of threads may use a model or a database at once. Free it when no thread uses it. A
 * model may be freed before its databases. `n_threads` is the number of threads that a call may
 * use. 0 means the environment variable METRICFAST_NUM_THREADS, else the number of CPUs. Results do
 * not depend on it.
 *
 * The first call chooses the code for the instruction set of this processor, or for the one in the
 * environment variable METRICFAST_ISA.
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
    METRICFAST_ERROR_MODEL = 3,     /* the file is damaged, or no model that this version reads */
    METRICFAST_ERROR_MEMORY = 4,    /* out of memory */
    METRICFAST_ERROR_PROCESSOR = 5, /* there is no code for this processor, or for METRICFAST_ISA */
    METRICFAST_ERROR_OTHER = 6
} metricfast_status;

/* The side of points: some models embed queries and database points by different maps. */
typedef enum metricfast_side { METRICFAST_QUERY = 0, METRICFAST_DATABASE = 1 } metricfast_side;

/* The distance of embedded points: Euclidean, one minus the cosine, or minus the inner product. */
typedef enum metricfast_metric {
    METRICFAST_EUCLIDEAN = 0,
    METRICFAST_COSINE = 1,
    METRICFAST_INNER_PRODUCT = 2
} metricfast_metric;

/* A learner from a file of metricfast.save. */
typedef struct metricfast_model metricfast_model;

/* Points under a model, prepared for many searches. */
typedef struct metricfast_database metricfast_database;

/* The version of the library, such as "0.1.0". */
METRICFAST_API const char *metricfast_version(void);

/* The instruction set level in use: "v2", "v3" or "v4" of x86-64, or "base"; null if there is no
 * code for this processor. */
METRICFAST_API const char *metricfast_isa(void);

/* The text of the last error in this thread; empty if there was none. Valid until the next call
 * of this thread. */
METRICFAST_API const char *metricfast_last_error(void);

/* Reads a model file. Free `*model` by metricfast_model_free. It is null after an error. */
METRICFAST_API int metricfast_model_load(const char *path, metricfast_model **model);

/* Reads a model from the bytes of a file. */
METRICFAST_API int metricfast_model_parse(const void *bytes, size_t size, metricfast_model **model);

/* Null is allowed. */
METRICFAST_API void metricfast_model_free(metricfast_model *model);

/* The name of the learner's class in Python. Valid as long as the model; null for null. */
METRICFAST_API const char *metricfast_model_learner(const metricfast_model *model);

/* The number of features of queries, of database points and of embedded points; 0 for null. */
METRICFAST_API int64_t metricfast_model_n_features(const metricfast_model *model);
METRICFAST_API int64_t metricfast_model_n_database_features(const metricfast_model *model);
METRICFAST_API int64_t metricfast_model_n_components(const metricfast_model *model);

/* Embeds points, as `learner.transform` does. OASIS has the similarity x^T W x': it returns W^T x
 * for queries, and database points unchanged.
 * embedded: n_points x n_components, written. */
METRICFAST_API int metricfast_transform_f32(const metricfast_model *model, metricfast_side side,
                                            const float *points, int64_t n_points, float *embedded,
                                            int n_threads);
METRICFAST_API int metricfast_transform_f64(const metricfast_model *model, metricfast_side side,
                                            const double *points, int64_t n_points,
                                            double *embedded, int n_threads);

/* The score of pairs of points, as `learner.pair_score`: minus their distance, or the similarity
 * of OASIS.
 * x: n_pairs x n_features, queries. y: n_pairs x n_database_features, points of a database.
 * scores: n_pairs, written. */
METRICFAST_API int metricfast_pair_score_f32(const metricfast_model *model, const float *x,
                                             const float *y, int64_t n_pairs, float *scores,
                                             int n_threads);
METRICFAST_API int metricfast_pair_score_f64(const metricfast_model *model, const double *x,
                                             const double *y, int64_t n_pairs, double *scores,
                                             int n_threads);

/* Prepares points for many searches. Free `*database` by metricfast_database_free. It is null after
 * an error. A model of OASIS has a similarity, so its metric is METRICFAST_INNER_PRODUCT. */
METRICFAST_API int metricfast_database_create_f32(const metricfast_model *model,
                                                  const float *points, int64_t n_points,
                                                  metricfast_metric metric, int n_threads,
                                                  metricfast_database **database);
METRICFAST_API int metricfast_database_create_f64(const metricfast_model *model,
                                                  const double *points, int64_t n_points,
                                                  metricfast_metric metric, int n_threads,
                                                  metricfast_database **database);

/* Null is allowed. */
METRICFAST_API void metricfast_database_free(metricfast_database *database);

/* The number of points; 0 for null. */
METRICFAST_API int64_t metricfast_database_n_points(const metricfast_database *database);

/* The points that each query may find. A null member excludes none. */
typedef struct metricfast_filter {
    const int64_t *exclude;      /* n_queries: a row to leave out, -1 for none */
    const uint8_t *rows;         /* n_points: 0 for each row that no query may find */
    const int64_t *query_labels; /* n_queries: given together with `labels` */
    const int64_t *labels;       /* n_points: a query does not find the rows with its label */
} metricfast_filter;

/* The nearest points of each query, exactly, nearest first and ties by the lower row.
 * filter: null, or the points that may be found.
 * distances, rows: n_queries x n_neighbors, written. If the filter leaves fewer points, the last
 * ones are infinity and -1. */
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

/* Neighbours of queries: those of query i have the places from row_starts[i] to
 * row_starts[i + 1] - 1 of the other two. */
typedef struct metricfast_lists {
    int64_t n_queries;
    const int64_t *row_starts; /* n_queries + 1 */
    const int64_t *rows;
    const double *distances;
} metricfast_lists;

/* All points within a radius of each query, nearest first and ties by the lower row. Free `*lists`
 * by metricfast_lists_free. It is null after an error. */
METRICFAST_API int metricfast_database_radius_f32(const metricfast_database *database,
                                                  const float *queries, int64_t n_queries,
                                                  double radius, const metricfast_filter *filter,
                                                  int n_threads, metricfast_lists **lists);
METRICFAST_API int metricfast_database_radius_f64(const metricfast_database *database,
                                                  const double *queries, int64_t n_queries,
                                                  double radius, const metricfast_filter *filter,
                                                  int n_threads, metricfast_lists **lists);

/* Null is allowed. */
METRICFAST_API void metricfast_lists_free(metricfast_lists *lists);

/* The winner among classes with equally many votes: the one with the highest or the lowest cost,
 * the lowest class, or the class of the nearest member of the set. */
typedef enum metricfast_ties {
    METRICFAST_TIES_PESSIMISTIC = 0,
    METRICFAST_TIES_OPTIMISTIC = 1,
    METRICFAST_TIES_LABEL = 2,
    METRICFAST_TIES_NEAREST = 3
} metricfast_ties;

/* Votes of sets of neighbours. Labels are from 0 to n_classes - 1. */
typedef struct metricfast_votes {
    const int64_t *query_labels;    /* n_queries */
    const int64_t *database_labels; /* n_points */
    int64_t n_classes;
    int64_t n_neighbors;       /* size of a set */
    const double *loss_matrix; /* n_classes x n_classes, the cost of each answer; null for 0 and 1 */
    metricfast_ties ties;
    const int64_t *exclude; /* n_queries: a row to leave out, -1 for none; or null */
} metricfast_votes;

/* The best set of each query, written. A null member is not needed. */
typedef struct metricfast_sets {
    int64_t *rows;     /* n_queries x n_neighbors, nearest first; -1 if there is no set */
    double *values;    /* n_queries: minus the sum of squared distances, plus the cost of the vote */
    double *costs;     /* n_queries: the cost of the vote */
    uint8_t *feasible; /* n_queries: 0 if there is no set */
} metricfast_sets;

/* The nearest sets that vote right (targeted), and the sets of the highest value, in which a wrong
 * vote counts for them (augmented). Either may be null. Under METRICFAST_COSINE, squared distances
 * are those of points of length 1: twice the distances of the metric. METRICFAST_INNER_PRODUCT is
 * an error. */
METRICFAST_API int metricfast_database_infer_f32(const metricfast_database *database,
                                                 const float *queries, int64_t n_queries,
                                                 const metricfast_votes *votes,
                                                 const metricfast_sets *targeted,
                                                 const metricfast_sets *augmented, int n_threads);
METRICFAST_API int metricfast_database_infer_f64(const metricfast_database *database,
                                                 const double *queries, int64_t n_queries,
                                                 const metricfast_votes *votes,
                                                 const metricfast_sets *targeted,
                                                 const metricfast_sets *augmented, int n_threads);

#ifdef __cplusplus
}
#endif

#endif
