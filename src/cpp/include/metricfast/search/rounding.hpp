/// Coordinates rounded to 8 bits, and their rounding errors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "metricfast/simd/packing.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// Relative margin for rounding errors in double.
constexpr double quantized_margin = 1e-12;

/// Upper bound of the rounded D of every point with a D of at most d.
inline double quantized_limit(double d, double norm) {
    return d + 4 * quantized_margin * (d + norm) + std::numeric_limits<double>::min();
}

/// Calls each(k, x) for the coordinates of a point in the frame, where x is a register of
/// coordinates from the k-th on. The last register is padded with zeros.
template <class T, class Each>
METRICFAST_INLINE inline void each_register(const T *point, const Frame &frame, Each &&each) {
    constexpr Index W = Vec<double>::width;
    using V = Vec<double>;
    const Index depth = static_cast<Index>(frame.centre.size());
    const double *const centre = frame.centre.data();
    const V scale = V::broadcast(frame.scale);
    Index k = 0;
    for (; k + W <= depth; k += W)
        each(k, widened(point + k) * scale - V::load(centre + k) * scale);
    if (k == depth)
        return;
    double rest[W] = {};
    for (Index c = k; c < depth; ++c)
        rest[c - k] = frame.apply(static_cast<double>(point[c]), c);
    each(k, V::load(rest));
}

/// The largest magnitude of a point's coordinates in the frame, minus a centroid unless null.
template <class T>
double longest_coordinate(const T *point, const Frame &frame, const double *centroid) {
    using V = Vec<double>;
    const V zero = V::broadcast(0);
    V most = zero;
    each_register(point, frame, [&](Index k, V x) METRICFAST_INLINE {
        const V r = centroid == nullptr ? x : x - V::load(centroid + k);
        most = max(most, max(r, zero - r));
    });
    double lanes[V::width];
    most.store(lanes);
    return *std::max_element(lanes, lanes + V::width);
}

/// Coordinates in the frame minus a centroid m, rounded to multiples of a step.
class Rounding {
  public:
    double norm = 0;    ///< |x|^2
    double apart = 0;   ///< |x - m|^2
    double error = 0;   ///< |x - m - s u|
    double rounded = 0; ///< |s u|

    /// \param centroid null for a centroid of zero.
    void round(const Points &points, Index row, const Frame &frame, double step,
               const double *centroid = nullptr) {
        points.visit([&](auto v) {
            if (centroid == nullptr)
                of_point(v.row(row), frame, step, [](Index, Vec<double> x) { return x; });
            else
                of_point(v.row(row), frame, step, [centroid](Index k, Vec<double> x) {
                    return x - Vec<double>::load(centroid + k);
                });
        });
    }

    const std::vector<std::int8_t> &integers() const { return integers_; }

  private:
    template <class T, class Less>
    void of_point(const T *point, const Frame &frame, double step, Less &&less) {
        constexpr Index most = 8; // maximum number of lanes of a register
        using V = Vec<double>;
        const Index depth = static_cast<Index>(frame.centre.size());
        const Index padded = (depth + most - 1) / most * most;
        whole_.resize(static_cast<std::size_t>(padded));
        integers_.resize(static_cast<std::size_t>(padded));
        std::fill(whole_.begin() + depth, whole_.end(), 0.0);
        // Adding this constant rounds to whole units, and leaves their number in the low bits.
        const V units = V::broadcast(1.5 * 4503599627370496.0), inverse = V::broadcast(1 / step);
        const V high = V::broadcast(127), low = V::broadcast(-127), one = V::broadcast(step);
        V norms = V::broadcast(0), lengths = norms, squares = norms, errors = norms;
        double *const whole = whole_.data();
        each_register(point, frame, [&](Index k, V x) METRICFAST_INLINE {
            const V r = less(k, x);
            const V sum = max(min(r * inverse, high), low) + units;
            const V u = sum - units, left = r - u * one;
            sum.store(whole + k);
            norms = fma(x, x, norms);
            lengths = fma(r, r, lengths);
            squares = fma(u, u, squares);
            errors = fma(left, left, errors);
        });
        std::int8_t *const integers = integers_.data();
        for (Index k = 0; k < padded; ++k) {
            std::uint64_t bits;
            std::memcpy(&bits, whole + k, sizeof bits);
            integers[k] = static_cast<std::int8_t>(bits & 255);
        }
        norm = horizontal_sum(norms);
        apart = horizontal_sum(lengths);
        rounded = std::sqrt(horizontal_sum(squares)) * step;
        error = std::sqrt(horizontal_sum(errors));
        error += quantized_margin * std::sqrt(norm) + std::ldexp(1.0, -500); // underflow
    }

    AlignedVector<double> whole_;
    std::vector<std::int8_t> integers_;
};

} // namespace detail

METRICFAST_NAMESPACE_END
