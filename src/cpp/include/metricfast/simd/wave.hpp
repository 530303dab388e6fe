/// Cosines and sines of whole registers.
#pragma once

#include "metricfast/simd/polynomial.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// sin(pi h) / h and cos(pi h) as polynomials of h^2, for |h| <= 1/2: interpolated at Chebyshev
/// nodes, with errors below the rounding error of 1.
template <class T> struct WaveSeries;
template <> struct WaveSeries<float> {
    static constexpr float sine[] = {3.14159264F, -5.167710077F, 2.550077387F, -0.5982904113F,
                                     0.07765591228F};
    static constexpr float cosine[] = {1.F,           -4.934802137F, 4.058709155F,
                                       -1.335211949F, 0.2349370686F, -0.0243959321F};
};
template <> struct WaveSeries<double> {
    static constexpr double sine[] = {
        3.141592653589793238,     -5.167712780049969608,      2.550164039877300474,
        -0.5992645293189446813,   0.08214588657310289502,     -0.007370430505916943405,
        0.0004662998161898393801, -0.00002190349707462601719, 7.697826768224190645e-7};
    static constexpr double cosine[] = {1.0,
                                        -4.934802200544676767,
                                        4.058712126416496999,
                                        -1.335262768843447093,
                                        0.2353306301295328539,
                                        -0.02580688873700220327,
                                        0.001929556272481713148,
                                        -0.0001045665533874873817,
                                        4.149564353942585512e-6};
};

} // namespace detail

/// Maximum number of half turns. Up to it, the error is the rounding error of the argument; beyond
/// it, the phase is undetermined.
template <class T>
inline constexpr T most_half_turns = T(1) / (8 * std::numeric_limits<T>::epsilon());

template <class T> struct Wave {
    Vec<T> cosine;
    Vec<T> sine;
};

/// cos(pi a x) and sin(pi a x), for |a x| < most_half_turns. With a fused multiply-add, the
/// fractional part of the product keeps all its digits.
template <class T> Wave<T> wave(Vec<T> a, Vec<T> x) {
    // Adding and subtracting this constant rounds to an integer.
    const Vec<T> round = Vec<T>::broadcast(T(1.5) / std::numeric_limits<T>::epsilon());
    const Vec<T> zero = Vec<T>::broadcast(T(0)), one = Vec<T>::broadcast(T(1));
    const Vec<T> whole = fma(a, x, round) - round;
    const Vec<T> h = fma(a, x, zero - whole), u = h * h;
    const Vec<T> pairs = fma(whole, Vec<T>::broadcast(T(0.5)), round) - round;
    const Vec<T> odd = fma(pairs, Vec<T>::broadcast(T(-2)), whole); // 1 or -1, else 0
    const Vec<T> sign = fma(zero - (odd + odd), odd, one);
    return {sign * detail::polynomial(detail::WaveSeries<T>::cosine, u),
            sign * h * detail::polynomial(detail::WaveSeries<T>::sine, u)};
}

METRICFAST_NAMESPACE_END
