/// Minimum and maximum of coordinates.
#pragma once

#include <type_traits>
#include <vector>

#include "metricfast/simd/simd.hpp"

METRICFAST_NAMESPACE_BEGIN

/// The minimum and maximum of each coordinate of some points.
class Extremes {
  public:
    /// Throws unless all coordinates are finite.
    explicit Extremes(const Points &points)
        : low_(Eigen::ArrayXd::Zero(points.cols())), high_(low_), none_(points.rows() == 0) {
        if (none_)
            return;
        const bool finite = points.visit([&](auto v) {
            using T = std::remove_const_t<std::remove_pointer_t<decltype(v.data)>>;
            Strips<T> strips(v);
            low_ = strips.low.template cast<double>();
            high_ = strips.high.template cast<double>();
            return strips.finite;
        });
        require(finite, "coordinates must be finite");
    }

    /// The largest absolute value of a coordinate.
    double magnitude() const { return offset(std::vector<double>(low_.size()), 1); }

    /// The largest |x * scale - origin| of a coordinate x.
    double offset(const std::vector<double> &origin, double scale) const {
        const Eigen::Map<const Eigen::ArrayXd> from(origin.data(), low_.size());
        if (none_ || low_.size() == 0)
            return 0;
        return (low_ * scale - from).abs().max((high_ * scale - from).abs()).maxCoeff();
    }

  private:
    /// Processes blocks of rows that fit into the cache, by strips of columns in registers.
    template <class T> struct Strips {
        static constexpr int width = Vec<T>::width;

        explicit Strips(View<const T> points)
            : low(Eigen::Map<const Array>(points.row(0), points.cols)), high(low) {
            const Index rows =
                std::max<Index>(1, (1 << 15) / (static_cast<Index>(sizeof(T)) * points.cols + 1));
            for (Index begin = 0; begin < points.rows; begin += rows) {
                const Index end = std::min(points.rows, begin + rows);
                Index k = 0;
                for (; k + 4 * width <= points.cols; k += 4 * width)
                    stretch<4>(points, begin, end, k);
                for (; k + width <= points.cols; k += width)
                    stretch<1>(points, begin, end, k);
                for (Index i = begin; i < end; ++i)
                    for (Index c = k; c < points.cols; ++c) {
                        const T x = points.row(i)[c];
                        low[c] = std::min(low[c], x);
                        high[c] = std::max(high[c], x);
                        finite = finite && std::isfinite(x);
                    }
            }
        }

        Eigen::Array<T, Eigen::Dynamic, 1> low, high;
        bool finite = true;

      private:
        using Array = Eigen::Array<T, Eigen::Dynamic, 1>;

        template <int Registers>
        void stretch(View<const T> points, Index begin, Index end, Index k) {
            const Vec<T> zero = Vec<T>::broadcast(T(0));
            Vec<T> least[Registers], most[Registers], poison[Registers];
            unrolled<Registers>([&](auto r) METRICFAST_INLINE {
                least[r] = Vec<T>::load(low.data() + k + r * width);
                most[r] = Vec<T>::load(high.data() + k + r * width);
                poison[r] = zero; // x * 0 is not 0 for infinities and NaN
            });
            for (Index i = begin; i < end; ++i) {
                const T *x = points.row(i) + k;
                unrolled<Registers>([&](auto r) METRICFAST_INLINE {
                    const Vec<T> y = Vec<T>::load(x + r * width);
                    least[r] = min(y, least[r]);
                    most[r] = max(y, most[r]);
                    poison[r] = fma(y, zero, poison[r]);
                });
            }
            unrolled<Registers>([&](auto r) METRICFAST_INLINE {
                least[r].store(low.data() + k + r * width);
                most[r].store(high.data() + k + r * width);
                finite = finite && horizontal_sum(poison[r]) == 0;
            });
        }
    };

    Eigen::ArrayXd low_, high_;
    bool none_;
};

METRICFAST_NAMESPACE_END
