/// How much work deserves more than one thread.
#pragma once

#include "metricfast/core/parallel.hpp"

METRICFAST_NAMESPACE_BEGIN

/// One thread where the work is less than what starting others costs.
/// \param products multiplications that there are to do.
inline Control worth_it(Control control, double products) {
    if (products < 2e6)
        control.threads = 1;
    return control;
}

METRICFAST_NAMESPACE_END
