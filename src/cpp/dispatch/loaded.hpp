/// The level in use: the environment variable METRICFAST_ISA, or the best level that was built and
/// that this processor supports.
#pragma once

#include <string>
#include <vector>

#include "dispatch/level.hpp"

namespace metricfast {

/// Returns the installed levels that this processor supports, best last.
std::vector<std::string> available_levels();

struct Loaded {
    std::string name;
    const Level *level = nullptr; ///< null if none could be loaded
    std::string error;            ///< the reason
};

/// Returns the level in use. The first call chooses and loads it.
const Loaded &loaded();

} // namespace metricfast
