/// What models are asked for, and what is thrown where there is none.
#pragma once

#include <stdexcept>

namespace metricfast {

/// Thrown where a file is damaged, or is not what it should be.
struct ModelError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// What points are: some models embed queries, and points that are searched, differently.
enum class ModelSide { query, database };

} // namespace metricfast
