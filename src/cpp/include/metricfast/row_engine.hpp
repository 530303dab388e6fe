/// Where it was: engine/row_engine.hpp.
#pragma once

#include "metricfast/engine/row_engine.hpp"
