/// Where it was: inference/bounds.hpp.
#pragma once

#include "metricfast/inference/bounds.hpp"
