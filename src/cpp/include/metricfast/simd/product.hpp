/// Matrix products whose results do not depend on the memory alignment.
#pragma once

#include "metricfast/simd/thin_product.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace detail {

/// Eigen vectorises small products only if `out` is aligned, and scalar code rounds differently. So
/// small products are computed in aligned memory and copied to `out`.
template <class A, class B, class Out> void multiply_eigen(const A &a, const B &b, Out out) {
    if (a.rows() + a.cols() + b.cols() < EIGEN_GEMM_TO_COEFFBASED_THRESHOLD)
        out = (a * b).eval();
    else
        out.noalias() = a * b;
}

// Only for views, because Eigen's products are compiled again for each type of operand.

/// Computes out = a b.
template <class T> void multiply(View<const T> a, View<const T> b, View<T> out) {
    if (ThinProducts<T>::fit(a, b))
        return ThinProducts<T>::multiply(a, b, out);
    multiply_eigen(eigen(a), eigen(b), eigen(out));
}

/// Computes out = a b^T.
template <class T> void multiply_nt(View<const T> a, View<const T> b, View<T> out) {
    multiply_eigen(eigen(a), eigen(b).transpose(), eigen(out));
}

/// Computes out = a^T b.
template <class T> void multiply_tn(View<const T> a, View<const T> b, View<T> out) {
    multiply_eigen(eigen(a).transpose(), eigen(b), eigen(out));
}

/// Computes out = a^T b^T.
template <class T> void multiply_tt(View<const T> a, View<const T> b, View<T> out) {
    multiply_eigen(eigen(a).transpose(), eigen(b).transpose(), eigen(out));
}

/// Computes out += a b^T.
template <class T> void add_product_nt(View<const T> a, View<const T> b, View<T> out) {
    eigen(out).noalias() += eigen(a) * eigen(b).transpose();
}

/// Computes out += a^T b.
template <class T> void add_product_tn(View<const T> a, View<const T> b, View<T> out) {
    if (ThinProducts<T>::fit(a, b))
        return ThinProducts<T>::add_transposed(a, b, out);
    eigen(out).noalias() += eigen(a).transpose() * eigen(b);
}

/// Computes out += a^T b^T.
template <class T> void add_product_tt(View<const T> a, View<const T> b, View<T> out) {
    eigen(out).noalias() += eigen(a).transpose() * eigen(b).transpose();
}

} // namespace detail

METRICFAST_NAMESPACE_END
