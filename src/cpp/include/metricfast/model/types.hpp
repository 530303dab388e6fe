/// The sides of a model, and the error of a damaged file.
#pragma once

#include <stdexcept>

namespace metricfast {

/// Thrown if a file is damaged, or is not a valid model file.
struct ModelError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Queries or database points, which some models embed differently.
enum class ModelSide { query, database };

} // namespace metricfast
