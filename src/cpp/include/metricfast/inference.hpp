/// Where it was: inference/sets.hpp.
#pragma once

#include "metricfast/inference/sets.hpp"
