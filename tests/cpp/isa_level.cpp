#include "isa_level.hpp"

int LEVEL_FUNCTION() { return metricfast::isa_level(); }
