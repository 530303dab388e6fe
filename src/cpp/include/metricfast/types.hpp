/// Views of row-major matrices: what every kernel takes, so that no owning type crosses a boundary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "metricfast/config.hpp" // before Eigen: see there

#include <Eigen/Core>

METRICFAST_NAMESPACE_BEGIN

using Index = std::ptrdiff_t;

template <class T>
using RowMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// A row-major matrix somebody else owns: `rows` x `cols`, consecutive rows `stride` elements
/// apart.
template <class T> struct View {
    T *data = nullptr;
    Index rows = 0;
    Index cols = 0;
    Index stride = 0;

    View() = default;
    View(T *data_, Index rows_, Index cols_) : View(data_, rows_, cols_, cols_) {}
    View(T *data_, Index rows_, Index cols_, Index stride_)
        : data(data_), rows(rows_), cols(cols_), stride(stride_) {}
    /// A view of const elements can be made from a view of mutable ones.
    template <class U, class = std::enable_if_t<std::is_same_v<const U, T>>>
    View(const View<U> &other) : View(other.data, other.rows, other.cols, other.stride) {}

    T *row(Index i) const { return data + i * stride; }

    auto eigen() const {
        using Plain = RowMatrix<std::remove_const_t<T>>;
        using Target = std::conditional_t<std::is_const_v<T>, const Plain, Plain>;
        return Eigen::Map<Target, 0, Eigen::OuterStride<>>(data, rows, cols,
                                                           Eigen::OuterStride<>(stride));
    }
};

template <class T> View<T> view(RowMatrix<T> &m) { return {m.data(), m.rows(), m.cols()}; }
template <class T> View<const T> view(const RowMatrix<T> &m) {
    return {m.data(), m.rows(), m.cols()};
}

/// Points of either precision, read row by row in double: the reference that results are exact to.
class Points {
  public:
    Points(View<const float> v) : single_(v), rows_(v.rows), cols_(v.cols) {}
    Points(View<const double> v) : double_(v), rows_(v.rows), cols_(v.cols) {}

    Index rows() const { return rows_; }
    Index cols() const { return cols_; }

    /// Calls `f` with the typed view.
    template <class F> decltype(auto) visit(F &&f) const {
        return double_.data != nullptr ? f(double_) : f(single_);
    }

    void read_row(Index i, double *out) const {
        visit([&](auto v) {
            const auto *x = v.row(i);
            for (Index c = 0; c < v.cols; ++c)
                out[c] = static_cast<double>(x[c]);
        });
    }

  private:
    View<const float> single_;
    View<const double> double_;
    Index rows_;
    Index cols_;
};

/// Throws std::invalid_argument with `message` unless `condition` holds.
inline void require(bool condition, const char *message) {
    if (!condition)
        throw std::invalid_argument(message);
}

inline void require(bool condition, const std::string &message) {
    if (!condition)
        throw std::invalid_argument(message);
}

METRICFAST_NAMESPACE_END
