/// Everything: learned distances, their neighbours, and the losses that train them.
#pragma once

#include "metricfast/constrained/oasis.hpp"
#include "metricfast/constrained/scml.hpp"
#include "metricfast/database_gradient.hpp"
#include "metricfast/distance.hpp"
#include "metricfast/embeddings/linear.hpp"
#include "metricfast/impostors.hpp"
#include "metricfast/losses/given.hpp"
#include "metricfast/losses/lmnn.hpp"
#include "metricfast/losses/nca.hpp"
#include "metricfast/neighbors.hpp"
#include "metricfast/paired.hpp"
#include "metricfast/row_engine.hpp"
#include "metricfast/window.hpp"
