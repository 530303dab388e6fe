/// Where it was: distance/neighbors.hpp.
#pragma once

#include "metricfast/distance/neighbors.hpp"
