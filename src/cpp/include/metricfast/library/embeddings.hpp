/// Embeddings, forward and backward, and solver steps in the compiled library.
#pragma once

#include <vector>

#include "metricfast/embeddings/types.hpp"
#include "metricfast/library/kernel.hpp"

namespace metricfast {

// The members of EmbeddingKernels.
#define METRICFAST_EMBEDDING_KERNELS(DO)                                                           \
    DO(linear_forward)                                                                             \
    DO(linear_backward)                                                                            \
    DO(layers_forward)                                                                             \
    DO(layers_backward)                                                                            \
    DO(normalize_forward)                                                                          \
    DO(normalize_backward)                                                                         \
    DO(periodic_forward)                                                                           \
    DO(periodic_backward)                                                                          \
    DO(adam_step)                                                                                  \
    DO(momentum_step)

template <class T> struct EmbeddingKernels {
    /// Computes z = x L^T.
    Kernel<void(View<const T> x, View<const T> L, View<T> z, const Control &control)>
        linear_forward;
    /// Computes gradient = dz^T x.
    Kernel<void(View<const T> dz, View<const T> x, View<double> gradient, const Control &control)>
        linear_backward;
    Kernel<void(View<const T> x, const std::vector<Layer<T>> &layers, Activation activation,
                const std::vector<View<T>> &outputs, const Control &control)>
        layers_forward;
    Kernel<void(View<const T> x, const std::vector<Layer<T>> &layers, Activation activation,
                const std::vector<View<const T>> &outputs, const std::vector<View<T>> &deltas,
                const std::vector<LayerGradient<T>> &gradients, const Control &control)>
        layers_backward;
    Kernel<void(View<T> z, Span<double> lengths, const Control &control)> normalize_forward;
    Kernel<void(View<const T> u, Span<const double> lengths, View<T> gradient,
                const Control &control)>
        normalize_backward;
    Kernel<void(View<const T> x, const PeriodicMap<T> &map, View<T> z, const Control &control)>
        periodic_forward;
    Kernel<void(View<const T> x, const PeriodicMap<T> &map, View<const T> upstream,
                const PeriodicGradient<T> &gradient, const Control &control)>
        periodic_backward;
    Kernel<bool(Span<const T> x, Span<const T> gradient, Span<T> m, Span<T> v, Span<T> out,
                const AdamSettings &settings)>
        adam_step;
    Kernel<void(Span<const T> x, Span<const T> gradient, Span<T> v, Span<T> out, double rate,
                double decay, double momentum)>
        momentum_step;
};

} // namespace metricfast
