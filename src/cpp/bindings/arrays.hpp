/// numpy arrays seen as the core's views. What does not fit is refused; indices alone are copied.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include "gil.hpp"
#include "metricfast/embeddings/linear.hpp"

namespace metricfast::python {

namespace py = pybind11;

template <class T> bool holds(const py::array &a) { return py::isinstance<py::array_t<T>>(a); }

/// A matrix whose rows are contiguous; other strides are refused (the Python layer copies those).
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

/// A contiguous vector or row-major block of exactly `size` elements; null for None.
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

/// Integers by which a kernel finds its memory, copied: another thread of Python may write into the
/// array after the kernel has checked it.
class Indices {
  public:
    Indices(const py::object &object, Index size, const char *name) : given_(!object.is_none()) {
        const auto values = elements<std::int64_t>(object, size, name);
        values_.reserve(static_cast<std::size_t>(values.size()) + 1); // not null where it is empty
        values_.assign(values.begin(), values.end());
    }

    operator Codes() const {
        return given_ ? Codes(values_.data(), static_cast<Index>(values_.size())) : Codes();
    }
    const std::int64_t *data() const { return Codes(*this).data(); }

  private:
    bool given_;
    std::vector<std::int64_t> values_;
};

/// Calls f(T{}) with the array's precision.
template <class F> auto by_precision(const py::array &a, F &&f) {
    require(holds<float>(a) || holds<double>(a), "expected float32 or float64");
    return holds<float>(a) ? f(float{}) : f(double{});
}

/// U and V of a distance ||Ux - Vy||; the same object for a Mahalanobis distance, empty for none.
struct Maps {
    RowMatrix<double> query;
    RowMatrix<double> database;
    bool same = true;

    Maps(const py::object &U, const py::object &V) {
        if (U.is_none())
            return;
        query = to_double(points(py::cast<py::array>(U)));
        same = U.is(V);
        if (!same)
            database = to_double(points(py::cast<py::array>(V)));
    }
    bool any() const { return query.size() != 0; }
    const RowMatrix<double> &of_database() const { return same ? query : database; }
};

/// f(queries, database) with both sides embedded first where there are maps.
template <class F>
void with_embedded(const Points &x, const Points &y, const Maps &maps, const Control &control,
                   F &&f) {
    if (!maps.any()) {
        f(x, y);
        return;
    }
    const EmbeddedPair z(x, y, maps.query, maps.of_database(), control);
    f(Points(view(z.queries)), Points(view(z.database)));
}

} // namespace metricfast::python
