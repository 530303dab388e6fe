/// A unit for coordinates in which neither they nor squared distances overflow.
#pragma once

#include <vector>

#include "metricfast/core/views.hpp"

namespace metricfast {

/// A translation and a power-of-two scale. Distances in the frame are `scale` times the original
/// ones.
struct Frame {
    std::vector<double> centre;
    double scale = 1.0;
    /// The largest scale at which neither coordinates nor squared distances overflow. With a few
    /// distant points, squared differences of the others must not underflow.
    double exact_scale = 1.0;

    /// Scaled before subtracting, to avoid overflow; powers of two do not round.
    double apply(double x, Index c) const { return x * scale - centre[c] * scale; }
};

} // namespace metricfast
