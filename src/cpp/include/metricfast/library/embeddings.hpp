/// Embeddings, forward and backward, and solver steps in the compiled library.
#pragma once

#include <vector>

#include "metricfast/core/control.hpp"
#include "metricfast/embeddings/types.hpp"

namespace metricfast {

template <class T> class EmbeddingKernels {
  public:
    virtual ~EmbeddingKernels() = default;

    /// Computes z = x L^T.
    virtual void linear_forward(View<const T> x, View<const T> L, View<T> z,
                                const Control &control = {}) const = 0;
    /// Computes gradient = dz^T x.
    virtual void linear_backward(View<const T> dz, View<const T> x, View<double> gradient,
                                 const Control &control = {}) const = 0;
    virtual void layers_forward(View<const T> x, const std::vector<Layer<T>> &layers,
                                Activation activation, const std::vector<View<T>> &outputs,
                                const Control &control = {}) const = 0;
    virtual void layers_backward(View<const T> x, const std::vector<Layer<T>> &layers,
                                 Activation activation, const std::vector<View<const T>> &outputs,
                                 const std::vector<View<T>> &deltas,
                                 const std::vector<LayerGradient<T>> &gradients,
                                 const Control &control = {}) const = 0;
    virtual void normalize_forward(View<T> z, Span<double> lengths,
                                   const Control &control = {}) const = 0;
    virtual void normalize_backward(View<const T> u, Span<const double> lengths, View<T> gradient,
                                    const Control &control = {}) const = 0;
    virtual void periodic_forward(View<const T> x, const PeriodicMap<T> &map, View<T> z,
                                  const Control &control = {}) const = 0;
    virtual void periodic_backward(View<const T> x, const PeriodicMap<T> &map,
                                   View<const T> upstream, const PeriodicGradient<T> &gradient,
                                   const Control &control = {}) const = 0;
    virtual bool adam_step(Span<const T> x, Span<const T> gradient, Span<T> m, Span<T> v,
                           Span<T> out, const AdamSettings &settings) const = 0;
    virtual void momentum_step(Span<const T> x, Span<const T> gradient, Span<T> v, Span<T> out,
                               double rate, double decay, double momentum) const = 0;
};

} // namespace metricfast
