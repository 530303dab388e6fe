/// Steps of first-order solvers, one pass over the parameters each.
#pragma once

#include <cmath>

#include "metricfast/parallel.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// f(first, count) over blocks that stay in the first-level cache.
template <class F> void in_short_blocks(Index size, F &&f) {
    constexpr Index block = 1024;
    for (Index first = 0; first < size; first += block)
        f(first, std::min(block, size - first));
}

template <class T> using Slice = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>>;
template <class T> using ConstSlice = Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>>;

} // namespace detail

/// Adam: with G = gradient + decay x, m += .1 (G - m), v += .001 (G^2 - v),
/// out = x - rate m^ / (sqrt(v^) + 1e-8), where ^ divides by 1 - .9^step and 1 - .999^step.
/// \param step from 1. `out` may not overlap x.
template <class T>
void adam_step(Index size, const T *x, const T *gradient, T *m, T *v, T *out, double rate,
               double decay, double step) {
    const double first = 1 - std::pow(0.9, step), second = 1 - std::pow(0.999, step);
    const T scale = static_cast<T>(rate / first), correct = static_cast<T>(1 / second);
    const T shrink = static_cast<T>(decay);
    detail::in_short_blocks(size, [&](Index i, Index count) {
        const detail::ConstSlice<T> xs(x + i, count), g(gradient + i, count);
        detail::Slice<T> ms(m + i, count), vs(v + i, count), to(out + i, count);
        ms += T(0.1) * (g + shrink * xs - ms);
        vs += T(0.001) * ((g + shrink * xs).square() - vs);
        to = xs - scale * ms / ((vs * correct).sqrt() + T(1e-8));
    });
}

/// Gradient descent with momentum: v = momentum v + gradient + decay x, out = x - rate v.
template <class T>
void momentum_step(Index size, const T *x, const T *gradient, T *v, T *out, double rate,
                   double decay, double momentum) {
    const T r = static_cast<T>(rate), d = static_cast<T>(decay), keep = static_cast<T>(momentum);
    detail::in_short_blocks(size, [&](Index i, Index count) {
        const detail::ConstSlice<T> xs(x + i, count), g(gradient + i, count);
        detail::Slice<T> vs(v + i, count), to(out + i, count);
        vs = keep * vs + g + d * xs;
        to = xs - r * vs;
    });
}

METRICFAST_NAMESPACE_END
