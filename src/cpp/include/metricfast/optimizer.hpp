/// Where it was: embeddings/optimizer.hpp.
#pragma once

#include "metricfast/embeddings/optimizer.hpp"
