/// Coordinates rounded to 8 bits, and by how much they are wrong.
#pragma once

#include <cstdint>
#include <cstring>

#include "metricfast/simd/packing.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// By which what doubles have rounded is enlarged.
constexpr double quantized_margin = 1e-12;

/// Coordinates in the frame rounded to multiples of a step.
class Rounding {
  public:
    double norm = 0;    ///< |x|^2
    double error = 0;   ///< |x - s u|
    double rounded = 0; ///< |s u|

    void round(const Points &points, Index row, const Frame &frame, double step) {
        constexpr Index W = Vec<double>::width;
        using V = Vec<double>;
        const Index depth = points.cols();
        point_.resize(static_cast<std::size_t>((depth + W - 1) / W * W)); // the rest stays 0
        integers_.resize(static_cast<std::size_t>((depth + 3) / 4 * 4));
        double *const point = point_.data();
        points.visit([&](auto v) {
            const auto *x = v.row(row);
            const double *const centre = frame.centre.data();
            const double scale = frame.scale;
            for (Index k = 0; k < depth; ++k)
                point[k] = static_cast<double>(x[k]) * scale - centre[k] * scale;
        });
        // A double of so many units has none of their fractions, and ends with the bits of their
        // number.
        const V units = V::broadcast(1.5 * 4503599627370496.0), inverse = V::broadcast(1 / step);
        const V most = V::broadcast(127), least = V::broadcast(-127), one = V::broadcast(step);
        V norms = V::broadcast(0), squares = norms, errors = norms;
        for (Index k = 0; k < depth; k += W) {
            const V x = V::load(point + k), whole = max(min(x * inverse, most), least) + units;
            const V u = whole - units, left = x - u * one;
            whole.store(point + k);
            norms = fma(x, x, norms);
            squares = fma(u, u, squares);
            errors = fma(left, left, errors);
        }
        std::int8_t *const integers = integers_.data();
        for (Index k = 0; k < depth; ++k) {
            std::uint64_t bits;
            std::memcpy(&bits, point + k, sizeof bits);
            integers[k] = static_cast<std::int8_t>(bits & 255);
        }
        norm = horizontal_sum(norms);
        rounded = std::sqrt(horizontal_sum(squares)) * step;
        error = std::sqrt(horizontal_sum(errors));
        error += quantized_margin * std::sqrt(norm) + std::ldexp(1.0, -500); // squares may vanish
        std::fill(point_.begin() + depth, point_.end(), 0.0);
    }

    const std::vector<std::int8_t> &integers() const { return integers_; }

  private:
    AlignedVector<double> point_;
    std::vector<std::int8_t> integers_;
};

} // namespace detail

METRICFAST_NAMESPACE_END
