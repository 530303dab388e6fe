/// Views of NumPy arrays for the kernels. Arrays of another layout raise an error; only indices are
/// copied.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "gil.hpp"
#include "kernels.hpp"

namespace metricfast::python {

namespace py = pybind11;

template <class T> bool holds(const py::array &a) { return py::isinstance<py::array_t<T>>(a); }

/// Views a matrix with contiguous rows. Other strides raise an error: the Python layer copies such
/// arrays first.
template <class T> View<const T> matrix(const py::array &a) {
    require(holds<T>(a) && a.ndim() == 2,
            "expected a two-dimensional array of the right precision");
    const Index item = static_cast<Index>(sizeof(T));
    require(a.shape(1) <= 1 || a.strides(1) == item, "expected an array with contiguous rows");
    require(a.shape(0) <= 1 || (a.strides(0) >= item * a.shape(1) && a.strides(0) % item == 0),
            "expected an array in row order");
    const Index stride = a.shape(0) <= 1 ? a.shape(1) : a.strides(0) / item;
    return {static_cast<const T *>(a.data()), a.shape(0), a.shape(1), stride};
}

template <class T> View<T> writable(py::array &a) {
    require(a.writeable(), "the output array is read-only");
    const View<const T> v = matrix<T>(a);
    return {const_cast<T *>(v.data), v.rows, v.cols, v.stride};
}

inline Points points(const py::array &a) {
    return holds<float>(a) ? Points(matrix<float>(a)) : Points(matrix<double>(a));
}

/// Views a contiguous array of exactly `size` elements. The view is null for None.
template <class T> Span<const T> elements(const py::object &object, Index size, const char *name) {
    if (object.is_none())
        return nullptr;
    const auto a = py::cast<py::array>(object);
    require(holds<T>(a) && (a.flags() & py::array::c_style) != 0 && a.size() == size,
            std::string(name) + " has the wrong type, layout or size");
    return {static_cast<const T *>(a.data()), size};
}

template <class T> Span<T> writable_elements(py::array &a, Index size, const char *name) {
    require(a.writeable(), std::string(name) + " is read-only");
    return {const_cast<T *>(elements<T>(a, size, name).data()), size};
}

/// Views a boolean array, in which a kernel writes 0 or 1.
inline Span<std::uint8_t> writable_flags(py::array &a, Index size, const char *name) {
    return {reinterpret_cast<std::uint8_t *>(writable_elements<bool>(a, size, name).data()), size};
}

/// A copy of integers that a kernel uses as indices. Another Python thread could otherwise change
/// the array after the kernel has checked it.
class Indices {
  public:
    Indices(const py::object &object, Index size, const char *name) : given_(!object.is_none()) {
        const auto values = elements<std::int64_t>(object, size, name);
        // One more, so that data() is not null for an empty array.
        values_.reserve(static_cast<std::size_t>(values.size()) + 1);
        values_.assign(values.begin(), values.end());
    }

    operator Codes() const {
        return given_ ? Codes(values_.data(), static_cast<Index>(values_.size())) : Codes();
    }

  private:
    bool given_;
    std::vector<std::int64_t> values_;
};

/// Calls f(T{}) with the array's precision.
template <class F> auto by_precision(const py::array &a, F &&f) {
    require(holds<float>(a) || holds<double>(a), "expected float32 or float64");
    return holds<float>(a) ? f(float{}) : f(double{});
}

/// An array that owns a copy of the values.
template <class T> py::array_t<T> copied(const std::vector<T> &values) {
    return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

/// Moves a vector into an array.
template <class T> py::array_t<T> owning(std::vector<T> values) {
    auto *kept = new std::vector<T>(std::move(values));
    const py::capsule owner(kept, [](void *p) { delete static_cast<std::vector<T> *>(p); });
    return py::array_t<T>(static_cast<py::ssize_t>(kept->size()), kept->data(), owner);
}

} // namespace metricfast::python
