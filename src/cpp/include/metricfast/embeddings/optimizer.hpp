/// Steps of first-order solvers, one pass over the parameters each.
#pragma once

#include <cmath>

#include "metricfast/core/types.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Takes a step of Adam. With G = gradient + decay x, it updates m += .1 (G - m) and
/// v += .001 (G^2 - v), and computes out = x - rate m^ / (sqrt(v^) + least), where ^ divides by 1 -
/// .9^step and 1 - .999^step.
/// \param step from 1.
template <class T>
void adam_step(Span<const T> x, Span<const T> gradient, Span<T> m, Span<T> v, Span<T> out,
               double rate, double decay, double step, double least = 1e-8) {
    const Index size = x.size();
    require(gradient.size() == size && m.size() == size && v.size() == size && out.size() == size,
            "adam_step: the parameters, their gradient and the moments differ in size");
    const T scale = static_cast<T>(rate / (1 - std::pow(0.9, step)));
    const T correct = static_cast<T>(1 / (1 - std::pow(0.999, step)));
    const T shrink = static_cast<T>(decay), floor = static_cast<T>(least);
    for (Index i = 0; i < size; ++i) {
        const T g = gradient[i] + shrink * x[i];
        m[i] += T(0.1) * (g - m[i]);
        v[i] += T(0.001) * (g * g - v[i]);
        out[i] = x[i] - scale * m[i] / (std::sqrt(v[i] * correct) + floor);
    }
}

/// Gradient descent with momentum: v = momentum v + gradient + decay x, out = x - rate v.
template <class T>
void momentum_step(Span<const T> x, Span<const T> gradient, Span<T> v, Span<T> out, double rate,
                   double decay, double momentum) {
    const Index size = x.size();
    require(gradient.size() == size && v.size() == size && out.size() == size,
            "momentum_step: the parameters, their gradient and the momentum differ in size");
    const T r = static_cast<T>(rate), d = static_cast<T>(decay), keep = static_cast<T>(momentum);
    for (Index i = 0; i < size; ++i) {
        v[i] = keep * v[i] + gradient[i] + d * x[i];
        out[i] = x[i] - r * v[i];
    }
}

METRICFAST_NAMESPACE_END
