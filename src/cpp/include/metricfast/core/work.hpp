/// The amount of work that justifies more than one thread.
#pragma once

#include "metricfast/core/parallel.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Limits a call to one thread if starting others costs more than the work.
/// \param products number of multiplications.
inline Control worth_it(Control control, double products) {
    if (products < 2e6)
        control.threads = 1;
    return control;
}

METRICFAST_NAMESPACE_END
