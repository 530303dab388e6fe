#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "check.hpp"
#include "metricfast/simd/exponential.hpp"
#include "metricfast/simd/product.hpp"

namespace test_simd {

using namespace metricfast;

/// Of a result that is to be `truth`, in units in its last place.
template <class T> long double error(T result, long double truth) {
    using Limits = std::numeric_limits<T>;
    int exponent = 0;
    std::frexp(truth, &exponent);
    const int last = std::max(exponent, Limits::min_exponent) - Limits::digits;
    return std::abs(static_cast<long double>(result) - truth) / std::ldexp(1.0L, last);
}

template <class T> T exponential_of(T x) {
    exponentials(&x, 1);
    return x;
}

template <class T> void exponentials_are_right(T lowest, T highest) {
    using Limits = std::numeric_limits<T>;
    constexpr int n = 100000;
    std::vector<T> x;
    for (int i = 0; i <= n; ++i) {
        const T share = static_cast<T>(i) / n;
        x.push_back(lowest + share * (highest - lowest)); // from 0 by denormal numbers to infinity
        x.push_back(share - T(0.5));
        x.push_back(-std::pow(share, T(8)));
    }
    std::vector<T> y = x;
    exponentials(y.data(), static_cast<Index>(y.size()));
    long double worst = 0;
    bool infinite = true;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const long double truth = std::exp(static_cast<long double>(x[i]));
        if (truth > static_cast<long double>(Limits::max()))
            infinite = infinite && y[i] > Limits::max();
        else
            worst = std::max(worst, error(y[i], truth));
    }
    CHECK(worst <= 1);
    CHECK(infinite);
    constexpr T infinity = Limits::infinity();
    CHECK(exponential_of(-infinity) == 0 && exponential_of(infinity) == infinity);
    CHECK(exponential_of(Limits::lowest()) == 0 && exponential_of(Limits::max()) == infinity);
    CHECK(exponential_of(T(0)) == 1 && exponential_of(T(-0.0)) == 1);
    CHECK(std::isnan(exponential_of(Limits::quiet_NaN())));
    for (Index count = 1; count <= 3 * Vec<T>::width; ++count) { // wherever a number stands
        std::vector<T> same(static_cast<std::size_t>(count), T(-0.7));
        exponentials(same.data(), count);
        CHECK(same == std::vector<T>(same.size(), exponential_of(T(-0.7))));
    }
}

TEST(exponentials_are_right_to_the_last_place) {
    exponentials_are_right<float>(-105, 90);
    exponentials_are_right<double>(-750, 711);
}

template <class T> void logarithms_are_right() {
    using Limits = std::numeric_limits<T>;
    const auto log_of = [](T a, T b) {
        T lanes[Vec<T>::width];
        log_of_quotient(Vec<T>::broadcast(a), Vec<T>::broadcast(b)).store(lanes);
        return lanes[0];
    };
    long double worst = 0;
    for (int i = 1; i <= 300; ++i)
        for (int j = 1; j <= 300; ++j) {
            const T a = std::pow(T(i), T(7)), b = T(1) / static_cast<T>(j * j);
            for (const T other : {b, std::nextafter(a, T(0))}) {
                const long double truth =
                    std::log(static_cast<long double>(a) / static_cast<long double>(other));
                const long double size = std::max(1.0L, std::abs(truth));
                const long double eps = static_cast<long double>(Limits::epsilon());
                const long double apart = static_cast<long double>(log_of(a, other)) - truth;
                worst = std::max(worst, std::abs(apart) / (size * eps));
            }
        }
    CHECK(worst <= 1);
    // quotients that are no numbers of T
    const T most = log_of(Limits::max(), Limits::min());
    CHECK(std::abs(most - T(2) * std::log(T(2)) * Limits::max_exponent) < 4);
    CHECK(log_of(Limits::min(), Limits::max()) == -most);
    CHECK(log_of(T(3), T(3)) == 0);
}

TEST(logarithms_of_quotients_do_not_overflow) {
    logarithms_are_right<float>();
    logarithms_are_right<double>();
}

template <class T> void thin_products_are_right() {
    for (const Index p : {1, 3, 8, 16, 17, 33, 70})
        for (const Index n : {7, 12, 61}) {
            const Index m = 300;
            const RowMatrix<T> a = RowMatrix<T>::Random(n, m), b = RowMatrix<T>::Random(m, p);
            const RowMatrix<T> c = RowMatrix<T>::Random(n, p);
            RowMatrix<T> ab(n, p), ac = RowMatrix<T>::Ones(m, p);
            detail::multiply<T>(view(a), view(b), view(ab));
            detail::add_product_tn<T>(view(a), view(c), view(ac));
            const auto far = [](const RowMatrix<T> &found, const RowMatrix<double> &truth) {
                return (found.template cast<double>() - truth).cwiseAbs().maxCoeff() /
                       static_cast<double>(std::numeric_limits<T>::epsilon());
            };
            const RowMatrix<double> wide = a.template cast<double>();
            CHECK(far(ab, wide * b.template cast<double>()) < 300);
            const RowMatrix<double> sum = wide.transpose() * c.template cast<double>();
            CHECK(far(ac, (sum.array() + 1).matrix()) < 300);
        }
}

TEST(products_with_few_columns_are_right) {
    thin_products_are_right<float>();
    thin_products_are_right<double>();
}

} // namespace test_simd
