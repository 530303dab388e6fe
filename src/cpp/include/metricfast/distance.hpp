/// Where it was: distance/distance.hpp.
#pragma once

#include "metricfast/distance/distance.hpp"
