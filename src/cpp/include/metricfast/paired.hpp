/// Where it was: distance/paired.hpp.
#pragma once

#include "metricfast/distance/paired.hpp"
