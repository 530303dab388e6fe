/// Steps of first-order solvers, one pass over the parameters each.
#pragma once

#include <cmath>

#include "metricfast/core/types.hpp"
#include "metricfast/embeddings/types.hpp"

METRICFAST_NAMESPACE_BEGIN

/// Takes a step of Adam. With G = gradient + decay x, it updates m += .1 (G - m) and
/// v += .001 (G^2 - v), and computes out = x - rate m^ / (sqrt(v^) + least), where ^ divides by 1 -
/// .9^step and 1 - .999^step. `least` is 1e-8. With relative steps it is 1e-12 of the largest root,
/// and gradients below 1e-13 of the largest gradient count as zero.
/// Returns whether squares of the gradient are finite. If they are not, no step is taken.
template <class T>
bool adam_step(Span<const T> x, Span<const T> gradient, Span<T> m, Span<T> v, Span<T> out,
               const AdamSettings &settings) {
    const Index size = x.size();
    require(gradient.size() == size && m.size() == size && v.size() == size && out.size() == size,
            "adam_step: the parameters, their gradient and the moments differ in size");
    const double unbiased = 1 - std::pow(0.999, settings.step);
    T floor = T(1e-8), rounding = 0;
    if (settings.relative && size > 0) {
        using Values = Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>>;
        const Values g(gradient.data(), size), old(v.data(), size);
        const double square = (T(0.999) * old + T(0.001) * g.square()).maxCoeff();
        if (!std::isfinite(square))
            return false;
        floor = static_cast<T>(1e-12 * std::sqrt(square / unbiased) + 1e-30);
        rounding = static_cast<T>(1e-13 * static_cast<double>(g.abs().maxCoeff()));
    }
    const T scale = static_cast<T>(settings.rate / (1 - std::pow(0.9, settings.step)));
    const T correct = static_cast<T>(1 / unbiased), shrink = static_cast<T>(settings.decay);
    for (Index i = 0; i < size; ++i) {
        const T g = (std::abs(gradient[i]) < rounding ? T(0) : gradient[i]) + shrink * x[i];
        m[i] += T(0.1) * (g - m[i]);
        v[i] += T(0.001) * (g * g - v[i]);
        out[i] = x[i] - scale * m[i] / (std::sqrt(v[i] * correct) + floor);
    }
    return true;
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
