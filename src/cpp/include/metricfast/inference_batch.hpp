/// Where it was: inference/batch.hpp.
#pragma once

#include "metricfast/inference/batch.hpp"
