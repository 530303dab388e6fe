/// Non-owning views of memory, the arguments of every kernel. The types are the same for every
/// instruction set and do not need Eigen.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace metricfast {

using Index = std::ptrdiff_t;

/// A non-owning view of a row-major matrix, `rows` x `cols`. Consecutive rows are `stride` elements
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
    /// Converts a view of mutable elements into a view of const elements.
    template <class U, class = std::enable_if_t<std::is_same_v<const U, T>>>
    View(const View<U> &other) : View(other.data, other.rows, other.cols, other.stride) {}

    T *row(Index i) const { return data + i * stride; }

    View block(Index row_, Index col, Index height, Index width) const {
        return {row(row_) + col, height, width, stride};
    }
    View middle_rows(Index first, Index count) const { return block(first, 0, count, cols); }
};

/// True for a matrix in memory, false for an expression.
template <class M, class = void> constexpr bool in_memory = false;
template <class M>
constexpr bool in_memory<M, std::void_t<decltype(std::declval<M &>().data())>> = true;

/// Returns a view of an Eigen matrix, map or block with contiguous rows, which must outlive the
/// view.
template <class Matrix> auto view(Matrix &m) {
    constexpr bool column = Matrix::ColsAtCompileTime == 1;
    static_assert(in_memory<Matrix>, "view() of an expression: evaluate it into a RowMatrix first");
    static_assert(Matrix::IsRowMajor || column,
                  "view() of a column-major matrix: copy it into a RowMatrix first");
    static_assert(Matrix::InnerStrideAtCompileTime == 1 || column,
                  "view() of strided rows: copy them into a RowMatrix first");
    if constexpr (in_memory<Matrix>) {
        using T = std::remove_pointer_t<decltype(m.data())>;
        return View<T>(m.data(), m.rows(), m.cols(), column ? m.rowStride() : m.outerStride());
    }
}

/// Returns true if `size` is rows * cols. The product may overflow.
inline bool is_matrix(Index size, Index rows, Index cols) {
    if (rows <= 0 || cols <= 0)
        return size == 0 && rows >= 0 && cols >= 0;
    return size % rows == 0 && size / rows == cols;
}

/// Returns a view of a std::vector, std::array or std::span of rows * cols values, which must
/// outlive the view. Throws std::invalid_argument if the number of values differs.
template <class Values> auto view(Values &values, Index rows, Index cols) {
    if (!is_matrix(static_cast<Index>(values.size()), rows, cols))
        throw std::invalid_argument("view: there are " + std::to_string(values.size()) +
                                    " values, not " + std::to_string(rows) + " x " +
                                    std::to_string(cols));
    return View<std::remove_pointer_t<decltype(values.data())>>(values.data(), rows, cols);
}

// A view of a temporary would dangle.
template <class Matrix> void view(const Matrix &&) = delete;
template <class Values> void view(const Values &&, Index, Index) = delete;

/// A non-owning view of contiguous values. A null span stands for an omitted argument.
template <class T> class Span {
  public:
    Span() = default;
    Span(std::nullptr_t) {}
    /// Empty if the pointer is null, whatever the size.
    Span(T *data, Index size) : data_(data), size_(data != nullptr ? size : 0) {}
    /// Converts a span of mutable elements into a span of const elements.
    template <class U, class = std::enable_if_t<std::is_same_v<const U, T>>>
    Span(const Span<U> &other) : Span(other.data(), other.size()) {}
    template <std::size_t N> Span(T (&values)[N]) : Span(values, static_cast<Index>(N)) {}
    Span(std::vector<std::remove_const_t<T>> &values)
        : Span(values.data(), static_cast<Index>(values.size())) {}
    Span(const std::vector<std::remove_const_t<T>> &values)
        : Span(values.data(), static_cast<Index>(values.size())) {}
    Span(const std::vector<std::remove_const_t<T>> &&) = delete;
    template <std::size_t N>
    Span(std::array<std::remove_const_t<T>, N> &values)
        : Span(values.data(), static_cast<Index>(N)) {}
    template <std::size_t N>
    Span(const std::array<std::remove_const_t<T>, N> &values)
        : Span(values.data(), static_cast<Index>(N)) {}
    template <std::size_t N> Span(const std::array<std::remove_const_t<T>, N> &&values) = delete;

    T &operator[](Index i) const { return data_[i]; }
    T *data() const { return data_; }
    Index size() const { return size_; }
    T *begin() const { return data_; }
    T *end() const { return data_ + size_; }

    friend bool operator==(Span a, std::nullptr_t) { return a.data_ == nullptr; }
    friend bool operator!=(Span a, std::nullptr_t) { return a.data_ != nullptr; }

  private:
    T *data_ = nullptr;
    Index size_ = 0;
};

/// Labels or rows of points, and weights.
using Codes = Span<const std::int64_t>;
using Weights = Span<const double>;

/// Points in float or double. Kernels read them row by row in double, so results are exact for the
/// given values.
class Points {
  public:
    Points() : Points(View<const double>()) {} ///< no points
    Points(View<const float> v) : single_(v), is_double_(false), rows_(v.rows), cols_(v.cols) {}
    Points(View<const double> v) : double_(v), is_double_(true), rows_(v.rows), cols_(v.cols) {}
    Points(View<float> v) : Points(View<const float>(v)) {}
    Points(View<double> v) : Points(View<const double>(v)) {}

    Index rows() const { return rows_; }
    Index cols() const { return cols_; }
    bool is_double() const { return is_double_; }

    /// Calls `f` with the typed view.
    template <class F> decltype(auto) visit(F &&f) const {
        return is_double_ ? f(double_) : f(single_);
    }

    void read_row(Index i, double *out) const {
        visit([&](auto v) {
            const auto *x = v.row(i);
            for (Index c = 0; c < v.cols; ++c)
                out[c] = static_cast<double>(x[c]);
        });
    }

    /// True if both view the same memory in the same shape.
    bool is(const Points &other) const {
        return visit([&](auto v) {
            return other.visit([&](auto w) {
                return static_cast<const void *>(v.data) == static_cast<const void *>(w.data) &&
                       v.rows == w.rows && v.cols == w.cols && v.stride == w.stride &&
                       is_double_ == other.is_double_;
            });
        });
    }

  private:
    View<const float> single_;
    View<const double> double_;
    bool is_double_;
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

/// Throws unless there are `count` values, or none for an omitted argument.
template <class T> void require_each(Span<T> values, Index count, const char *message) {
    require(values == nullptr || values.size() == count, message);
}

/// Throws unless `exclude` is empty or holds, for each query, a row of the points or -1. \param
/// what the start of the message.
inline void require_excluded(Codes exclude, Index queries, Index points, const char *what) {
    if (exclude != nullptr && exclude.size() != queries)
        throw std::invalid_argument(what + std::string(": exclude must have one entry per query"));
    for (const std::int64_t row : exclude)
        if (row < -1 || row >= points)
            throw std::invalid_argument(
                what + std::string(": exclude holds an index outside the database, ") +
                std::to_string(row) + "; -1 leaves out none");
}

/// Throws unless all weights are finite and not negative. \param message names them.
inline void require_weights(Weights weights, const char *message) {
    for (const double weight : weights)
        require(weight >= 0 && weight <= std::numeric_limits<double>::max(), message);
}

} // namespace metricfast
