/// The level in use: the best that is built and that this processor supports, or the one that the
/// environment variable METRICFAST_ISA names.
#pragma once

#include <string>
#include <vector>

#include "dispatch/level.hpp"

namespace metricfast {

/// Levels whose libraries are there and that run here, best last.
std::vector<std::string> available_levels();

struct Loaded {
    std::string name;
    const Level *level = nullptr; ///< null: none could be loaded
    std::string error;            ///< why
};

/// Chosen and loaded at the first call, once and for all.
const Loaded &loaded();

} // namespace metricfast
