/// Centring of points, and scaling by powers of two, so that differences and their squares neither
/// overflow nor underflow.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "metricfast/core/frame.hpp"
#include "metricfast/simd/extremes.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {
/// 2^e with x <= 2^e < 2x; 1 for zero.
inline double power_of_two_above(double x) {
    if (!(x > 0) || !std::isfinite(x))
        return 1.0;
    int exponent = 0;
    std::frexp(x, &exponent);
    return std::ldexp(1.0, std::max(-1020, std::min(exponent, 1020)));
}

/// |scale z|^2, and the scale.
struct ScaledSquare {
    double square, scale;
    double root() const { return std::sqrt(square) / scale; }
};

/// The squared length of z(0), ..., z(count - 1), rescaled if squares overflow or underflow.
template <class Z> ScaledSquare squared_length(Index count, const Z &z) {
    const auto sum = [&](double scale) {
        double result = 0;
        for (Index k = 0; k < count; ++k)
            result += (z(k) * scale) * (z(k) * scale);
        return result;
    };
    const double plain = sum(1);
    if (plain > 1e-280 && plain < 1e280)
        return {plain, 1};
    double largest = 0;
    for (Index k = 0; k < count; ++k)
        largest = std::max(largest, std::abs(z(k)));
    const double scale = 1.0 / power_of_two_above(largest);
    return {sum(scale), scale};
}
} // namespace detail

/// A power of two that scales the largest coordinate to about 1.
inline double magnitude_scale(double largest) { return 1.0 / detail::power_of_two_above(largest); }

/// A power of two that scales the largest difference of coordinates to about 1, so that its square
/// neither overflows nor underflows, for any unit and origin.
/// \param spread the largest offset from some point, of coordinates times `unit`.
inline double difference_scale(double unit, double spread) {
    // Scaled coordinates must be finite, too.
    const double factor = std::min(1.0 / detail::power_of_two_above(spread), std::ldexp(1.0, 1000));
    return std::min(unit * factor, std::ldexp(1.0, 1020));
}

inline double difference_scale(const Points &x, const Points &y) {
    const Extremes of_y(y), of_x = x.is(y) ? of_y : Extremes(x);
    const double unit = magnitude_scale(std::max(of_x.magnitude(), of_y.magnitude()));
    if (y.rows() == 0)
        return unit;
    std::vector<double> origin(static_cast<std::size_t>(y.cols()));
    y.read_row(0, origin.data());
    for (double &value : origin)
        value *= unit;
    return difference_scale(unit, std::max(of_x.offset(origin, unit), of_y.offset(origin, unit)));
}

/// The distance, or its square, of points whose squared distance is d after scaling.
template <class T> T unscaled(double d, double scale, bool squared) {
    return static_cast<T>(squared ? d / scale / scale : std::sqrt(d) / scale);
}

/// A central point that is robust to outliers: the median of each column, from a sample if there
/// are many rows.
inline std::vector<double> middle(const Points &points) {
    const Index p = points.cols(), n = points.rows(), count = std::min<Index>(n, 63);
    RowMatrix<double> sample(count, p);
    for (Index i = 0; i < count; ++i)
        points.read_row(i * n / count, sample.row(i).data());
    std::vector<double> result(static_cast<std::size_t>(p), 0.0);
    std::vector<double> column(static_cast<std::size_t>(count));
    for (Index c = 0; c < p && count > 0; ++c) {
        for (Index i = 0; i < count; ++i)
            column[i] = std::isnan(sample(i, c)) ? 0.0 : sample(i, c); // NaN cannot be sorted
        std::nth_element(column.begin(), column.begin() + count / 2, column.end());
        result[c] = column[count / 2];
    }
    return result;
}

/// A frame with a given centre and scale.
inline Frame frame_at(std::vector<double> centre, double scale) {
    Frame frame{std::move(centre), scale};
    double largest = 0;
    for (const double c : frame.centre)
        largest = std::max(largest, std::abs(c));
    frame.exact_scale = std::min(std::min(frame.scale, std::ldexp(1.0, 500)) * std::ldexp(1.0, 500),
                                 std::ldexp(1.0, 1000) / detail::power_of_two_above(largest));
    return frame;
}

/// A frame centred in `database`; no centred coordinate exceeds 2.
inline Frame frame_of(const Points &database, const Points &queries) {
    return frame_at(middle(database), difference_scale(queries, database));
}

METRICFAST_NAMESPACE_END
