/// Value and gradient of any row loss.
#pragma once

#include "metricfast/engine/row_engine.hpp"
