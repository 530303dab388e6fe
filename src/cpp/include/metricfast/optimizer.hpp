/// Steps of first-order solvers, one pass over the parameters each.
#pragma once

#include <cmath>

#include "metricfast/aligned.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Adam: with G = gradient + decay x, m += .1 (G - m), v += .001 (G^2 - v),
/// out = x - rate m^ / (sqrt(v^) + 1e-8), where ^ divides by 1 - .9^step and 1 - .999^step.
/// \param step from 1.
template <class T>
void adam_step(Index size, const T *x, const T *gradient, T *m, T *v, T *out, double rate,
               double decay, double step) {
    const T scale = static_cast<T>(rate / (1 - std::pow(0.9, step)));
    const T correct = static_cast<T>(1 / (1 - std::pow(0.999, step)));
    const T shrink = static_cast<T>(decay);
    detail::Aligned<T> xs, gs, ms, vs;
    for (Index i = 0; i < size; i += xs.size) {
        const Index count = std::min(size - i, xs.size);
        xs.read(x + i, count);
        gs.read(gradient + i, count);
        ms.read(m + i, count);
        vs.read(v + i, count);
        gs.values += shrink * xs.values;
        ms.values += T(0.1) * (gs.values - ms.values);
        vs.values += T(0.001) * (gs.values.square() - vs.values);
        xs.values -= scale * ms.values / ((vs.values * correct).sqrt() + T(1e-8));
        ms.write(m + i, count);
        vs.write(v + i, count);
        xs.write(out + i, count);
    }
}

/// Gradient descent with momentum: v = momentum v + gradient + decay x, out = x - rate v.
template <class T>
void momentum_step(Index size, const T *x, const T *gradient, T *v, T *out, double rate,
                   double decay, double momentum) {
    const T r = static_cast<T>(rate), d = static_cast<T>(decay), keep = static_cast<T>(momentum);
    detail::Aligned<T> xs, gs, vs;
    for (Index i = 0; i < size; i += xs.size) {
        const Index count = std::min(size - i, xs.size);
        xs.read(x + i, count);
        gs.read(gradient + i, count);
        vs.read(v + i, count);
        vs.values = keep * vs.values + gs.values + d * xs.values;
        xs.values -= r * vs.values;
        vs.write(v + i, count);
        xs.write(out + i, count);
    }
}

METRICFAST_NAMESPACE_END
