/// The interface between the C library, which runs on any processor, and its code for one
/// instruction set.
#pragma once

#include "metricfast.h"

// The functions that each level provides: metricfast_<name> in the header.
#define METRICFAST_LEVEL_FUNCTIONS(DO)                                                             \
    DO(last_error)                                                                                 \
    DO(model_load)                                                                                 \
    DO(model_parse)                                                                                \
    DO(model_free)                                                                                 \
    DO(model_learner)                                                                              \
    DO(model_n_features)                                                                           \
    DO(model_n_database_features)                                                                  \
    DO(model_n_components)                                                                         \
    DO(transform_f32)                                                                              \
    DO(transform_f64)                                                                              \
    DO(pair_score_f32)                                                                             \
    DO(pair_score_f64)                                                                             \
    DO(database_create_f32)                                                                        \
    DO(database_create_f64)                                                                        \
    DO(database_free)                                                                              \
    DO(database_n_points)                                                                          \
    DO(database_search_f32)                                                                        \
    DO(database_search_f64)                                                                        \
    DO(database_radius_f32)                                                                        \
    DO(database_radius_f64)                                                                        \
    DO(lists_free)                                                                                 \
    DO(database_infer_f32)                                                                         \
    DO(database_infer_f64)

namespace metricfast {

struct LevelFunctions {
#define METRICFAST_DECLARE(name) decltype(&metricfast_##name) name;
    METRICFAST_LEVEL_FUNCTIONS(METRICFAST_DECLARE)
#undef METRICFAST_DECLARE
};

} // namespace metricfast
