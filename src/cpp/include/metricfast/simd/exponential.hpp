/// Exponentials, and logarithms of quotients, of whole registers.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "metricfast/simd/polynomial.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// ln 2 = high + low. The product of `high` and an exponent is exact.
///
/// exponential: (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2; logarithm: (2 atanh(s) - 2 s) / s^3, of
/// s^2, for 0 <= s <= 1/3. Both polynomials interpolate at Chebyshev nodes.
template <class T> struct ExponentialSeries;
template <> struct ExponentialSeries<float> {
    static constexpr float high = 0.693359375F, low = -0.00021219444005F;
    static constexpr float vanishing = -150.F, overflowing = 150.F; ///< e^x is 0, or infinite
    static constexpr float exponential[] = {0.5F, 0.1666657685F, 0.04166655444F, 0.008363202972F,
                                            0.001392621347F};
    static constexpr float logarithm[] = {0.6666666732F, 0.3999970633F, 0.2859235799F, 0.217065758F,
                                          0.2322432922F};
};
template <> struct ExponentialSeries<double> {
    static constexpr double high = 0x1.62e42feep-1, low = 1.908214929270587816e-10;
    static constexpr double vanishing = -1000.0, overflowing = 1000.0;
    static constexpr double exponential[] = {0.50000000000000010262,     0.16666666666666667456,
                                             0.041666666666623991516,    0.0083333333333300513464,
                                             0.0013888888917281793308,   0.00019841269863105968748,
                                             0.000024801521190217727651, 2.7557268378684192873e-6,
                                             2.7620138719733995569e-7,   2.5100424157005066788e-8};
    static constexpr double logarithm[] = {
        0.66666666666666666886,  0.39999999999999522505, 0.28571428571600099292,
        0.22222222198236770557,  0.18181819897962714383, 0.15384543964860549287,
        0.13335178631449255837,  0.1173427906130319746,  0.10845178394880014822,
        0.074921437955507673008, 0.15630577800922850446};
};

#if METRICFAST_ISA_LEVEL == 4

/// a 2^whole, rounded once.
inline Vec<float> scaled(Vec<float> a, Vec<float> whole) {
    return {_mm512_scalef_ps(a.v, whole.v)};
}
inline Vec<double> scaled(Vec<double> a, Vec<double> whole) {
    return {_mm512_scalef_pd(a.v, whole.v)};
}

/// For positive normal numbers, a = fraction 2^exponent with 1 <= fraction < 2.
inline Vec<float> exponent(Vec<float> a) { return {_mm512_getexp_ps(a.v)}; }
inline Vec<double> exponent(Vec<double> a) { return {_mm512_getexp_pd(a.v)}; }
inline Vec<float> fraction(Vec<float> a) {
    return {_mm512_getmant_ps(a.v, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero)};
}
inline Vec<double> fraction(Vec<double> a) {
    return {_mm512_getmant_pd(a.v, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero)};
}

#else

/// Applies `change` to the bits of each number. Compilers vectorise the loop.
template <class T, class F> Vec<T> with_bits(Vec<T> a, F &&change) {
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    constexpr int W = Vec<T>::width;
    T values[W];
    Bits bits[W];
    a.store(values);
    std::memcpy(bits, values, sizeof bits);
    for (int i = 0; i < W; ++i)
        bits[i] = change(bits[i]);
    std::memcpy(values, bits, sizeof bits);
    return Vec<T>::load(values);
}

template <class T> constexpr int fraction_bits = std::numeric_limits<T>::digits - 1;
/// A number whose last bits hold an integer that is added to it.
template <class T> constexpr T whole_bits = T(1.5) / std::numeric_limits<T>::epsilon();
/// The bias of exponents.
template <class T> constexpr T bias = T(std::numeric_limits<T>::max_exponent - 1);

/// Returns a 2^whole, rounded once. The power of 2 is the product of two normal numbers.
template <class T> Vec<T> scaled(Vec<T> a, Vec<T> whole) {
    const Vec<T> shift = Vec<T>::broadcast(whole_bits<T> + bias<T>);
    const auto power = [](Vec<T> shifted) {
        return with_bits(shifted, [](auto bits) { return bits << fraction_bits<T>; });
    };
    const Vec<T> half = fma(whole, Vec<T>::broadcast(T(0.5)), shift);
    return a * power(half) * power((whole - (half - shift)) + shift);
}

/// For positive normal numbers, a = fraction 2^exponent with 1 <= fraction < 2.
template <class T> Vec<T> exponent(Vec<T> a) {
    // 2^fraction_bits + exponent + bias
    const Vec<T> shifted = with_bits(a, [](auto bits) {
        using Bits = decltype(bits);
        constexpr Bits base = Bits(Bits(bias<T>) + fraction_bits<T>) << fraction_bits<T>;
        return bits >> fraction_bits<T> | base;
    });
    const Vec<T> base = Vec<T>::broadcast(1 / std::numeric_limits<T>::epsilon() + bias<T>);
    return (shifted - base) + (a - a); // NaN for infinity
}
template <class T> Vec<T> fraction(Vec<T> a) {
    return with_bits(a, [](auto bits) {
        using Bits = decltype(bits);
        constexpr Bits exponents = Bits(bias<T>) << fraction_bits<T>; // bits of 1
        return (bits & ((Bits(1) << fraction_bits<T>)-1)) | exponents;
    });
}

#endif

} // namespace detail

/// Returns e^x, accurate to one unit in the last place. The result is 0 for -infinity and NaN for
/// NaN.
template <class T> METRICFAST_INLINE inline Vec<T> exponential(Vec<T> x) {
    using V = Vec<T>;
    using Series = detail::ExponentialSeries<T>;
    // Adding and subtracting this number rounds to an integer.
    const V round = V::broadcast(T(1.5) / std::numeric_limits<T>::epsilon());
    const V zero = V::broadcast(T(0));
    // If an operand is NaN, min and max return the second.
    x = min(V::broadcast(Series::overflowing), max(V::broadcast(Series::vanishing), x));
    const V whole = fma(x, V::broadcast(T(1.4426950408889634074)), round) - round;
    const V high = fma(whole, V::broadcast(-Series::high), x); // exact
    const V low = whole * V::broadcast(Series::low);
    const V r = high - low;
    const V rest = fma(detail::polynomial(Series::exponential, r), r * r, zero - low);
    return detail::scaled(V::broadcast(T(1)) + (high + rest), whole);
}

/// Returns log(a / b) for positive normal numbers, even if the quotient overflows or underflows.
/// With the fractions f and g of a and b, the logarithm of f / g is 2 atanh((f - g) / (f + g)).
template <class T> METRICFAST_INLINE inline Vec<T> log_of_quotient(Vec<T> a, Vec<T> b) {
    using V = Vec<T>;
    using Series = detail::ExponentialSeries<T>;
    const V f = detail::fraction(a), g = detail::fraction(b);
    const V exponent = detail::exponent(a) - detail::exponent(b);
    const V s = (f - g) / (f + g), u = s * s;
    const V low =
        fma(exponent, V::broadcast(Series::low), s * u * detail::polynomial(Series::logarithm, u));
    return fma(exponent, V::broadcast(Series::high), (s + s) + low);
}

/// Replaces values by their exponentials.
template <class T> void exponentials(T *values, Index count) {
    detail::for_registers(values, count,
                          [](Vec<T> x, Index) METRICFAST_INLINE { return exponential(x); });
}

METRICFAST_NAMESPACE_END
