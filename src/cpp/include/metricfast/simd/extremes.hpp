/// The least and the greatest coordinates.
#pragma once

#include <type_traits>
#include <vector>

#include "metricfast/simd/simd.hpp"

METRICFAST_NAMESPACE_BEGIN

/// The least and the greatest of each coordinate of some points.
class Extremes {
  public:
    /// Throws unless all coordinates are finite.
    explicit Extremes(const Points &points)
        : low_(Eigen::ArrayXd::Zero(points.cols())), high_(low_), none_(points.rows() == 0) {
        if (none_)
            return;
        const bool finite = points.visit([&](auto v) {
            using T = std::remove_const_t<std::remove_pointer_t<decltype(v.data)>>;
            using Array = Eigen::Array<T, Eigen::Dynamic, 1>;
            constexpr int W = Vec<T>::width;
            Array low = Eigen::Map<const Array>(v.row(0), v.cols), high = low;
            const Vec<T> zero = Vec<T>::broadcast(T(0));
            Vec<T> poison = zero; // x * 0 is not 0 for infinities and NaN
            T rest = 0;
            for (Index i = 0; i < v.rows; ++i) {
                const T *x = v.row(i);
                Index k = 0;
                for (; k + W <= v.cols; k += W) {
                    const Vec<T> y = Vec<T>::load(x + k);
                    min(y, Vec<T>::load(low.data() + k)).store(low.data() + k);
                    max(y, Vec<T>::load(high.data() + k)).store(high.data() + k);
                    poison = fma(y, zero, poison);
                }
                for (; k < v.cols; ++k) {
                    low[k] = std::min(low[k], x[k]);
                    high[k] = std::max(high[k], x[k]);
                    rest += x[k] * T(0);
                }
            }
            low_ = low.template cast<double>();
            high_ = high.template cast<double>();
            return horizontal_sum(poison) == 0 && rest == 0;
        });
        require(finite, "coordinates must be finite");
    }

    /// The largest coordinate's magnitude.
    double magnitude() const { return offset(std::vector<double>(low_.size()), 1); }

    /// The largest |x * scale - origin| of a coordinate x.
    double offset(const std::vector<double> &origin, double scale) const {
        const Eigen::Map<const Eigen::ArrayXd> from(origin.data(), low_.size());
        if (none_ || low_.size() == 0)
            return 0;
        return (low_ * scale - from).abs().max((high_ * scale - from).abs()).maxCoeff();
    }

  private:
    Eigen::ArrayXd low_, high_;
    bool none_;
};

METRICFAST_NAMESPACE_END
