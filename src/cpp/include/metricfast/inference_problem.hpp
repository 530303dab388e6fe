/// Where it was: inference/problem.hpp.
#pragma once

#include "metricfast/inference/problem.hpp"
