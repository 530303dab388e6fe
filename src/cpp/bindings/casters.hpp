/// Conversions of Python's arguments into the arguments of kernels, by their types.
#pragma once

#include <tuple>

#include <pybind11/stl.h>

#include "arrays.hpp"

namespace pybind11::detail {

namespace python = metricfast::python;

/// None is a matrix without rows. Another precision is not converted: the other overload takes it.
template <class T> struct type_caster<metricfast::View<T>> {
    using Element = std::remove_const_t<T>;
    PYBIND11_TYPE_CASTER(metricfast::View<T>, const_name("A"));
    bool load(handle source, bool) {
        if (source.is_none() && std::is_const_v<T>)
            return true;
        if (!isinstance<array_t<Element>>(source))
            return false;
        auto given = reinterpret_borrow<array>(source);
        if constexpr (std::is_const_v<T>)
            value = python::matrix<Element>(given);
        else
            value = python::writable<Element>(given);
        return true;
    }
};

/// None is a null span.
template <class T> struct type_caster<metricfast::Span<T>> {
    using Element = std::remove_const_t<T>;
    PYBIND11_TYPE_CASTER(metricfast::Span<T>, const_name("A | None"));
    bool load(handle source, bool) {
        if (source.is_none())
            return true;
        if (!isinstance<array_t<Element>>(source))
            return false;
        auto given = reinterpret_borrow<array>(source);
        if constexpr (std::is_const_v<T>)
            value = python::elements<Element>(given, given.size(), "the array");
        else
            value = python::writable_elements<Element>(given, given.size(), "the output array");
        return true;
    }
};

/// Indices are copied.
template <> struct type_caster<metricfast::Codes> {
    PYBIND11_TYPE_CASTER(metricfast::Codes, const_name("Rows"));
    bool load(handle source, bool) {
        if (source.is_none())
            return true;
        const auto given = reinterpret_borrow<array>(source);
        held_.emplace(given, given.size(), "the array of indices");
        value = *held_;
        return true;
    }

  private:
    std::optional<python::Indices> held_;
};

template <> struct type_caster<metricfast::Points> {
    PYBIND11_TYPE_CASTER(metricfast::Points, const_name("A"));
    bool load(handle source, bool) {
        if (!isinstance<array>(source))
            return false;
        value = python::points(reinterpret_borrow<array>(source));
        return true;
    }
};

/// The number of threads.
template <> struct type_caster<metricfast::Control> {
    PYBIND11_TYPE_CASTER(metricfast::Control, const_name("int"));
    bool load(handle source, bool) {
        value = python::control(pybind11::cast<int>(source));
        return true;
    }
};

/// A sequence of the fields.
template <class Struct, class... Fields> struct fields_caster {
    PYBIND11_TYPE_CASTER(Struct, const_name("Sequence[Any]"));
    bool load(handle source, bool convert) {
        return load(source, convert, std::index_sequence_for<Fields...>());
    }

  private:
    template <std::size_t... I>
    bool load(handle source, bool convert, std::index_sequence<I...>) {
        if (!isinstance<sequence>(source) || pybind11::len(source) != sizeof...(Fields))
            return false;
        const auto given = reinterpret_borrow<sequence>(source);
        if (!(std::get<I>(fields_).load(object(given[I]), convert) && ...))
            return false;
        value = Struct{cast_op<Fields>(std::get<I>(fields_))...};
        return true;
    }

    std::tuple<make_caster<Fields>...> fields_;
};

/// A name of a value, in the order of the values.
template <class Enum> struct name_caster {
    PYBIND11_TYPE_CASTER(Enum, const_name("str"));
    bool load(handle source, bool) {
        const auto name = pybind11::cast<std::string>(source);
        int place = 0;
        for (const char *const each : type_caster<Enum>::names) {
            if (name == each) {
                value = static_cast<Enum>(place);
                return true;
            }
            ++place;
        }
        throw std::invalid_argument("unknown name " + name);
    }
};

template <> struct type_caster<metricfast::Activation> : name_caster<metricfast::Activation> {
    static constexpr const char *names[] = {"identity", "relu", "tanh"};
};

template <class T>
struct type_caster<metricfast::Layer<T>>
    : fields_caster<metricfast::Layer<T>, metricfast::View<const T>, metricfast::Span<const T>> {};
template <class T>
struct type_caster<metricfast::LayerGradient<T>>
    : fields_caster<metricfast::LayerGradient<T>, metricfast::View<T>, metricfast::Span<T>> {};
template <class T>
struct type_caster<metricfast::PeriodicMap<T>>
    : fields_caster<metricfast::PeriodicMap<T>, metricfast::View<const T>,
                    metricfast::View<const T>, metricfast::Span<const T>,
                    metricfast::View<const T>> {};
template <class T>
struct type_caster<metricfast::PeriodicGradient<T>>
    : fields_caster<metricfast::PeriodicGradient<T>, metricfast::View<T>, metricfast::View<T>,
                    metricfast::Span<T>, metricfast::View<T>> {};
template <>
struct type_caster<metricfast::AdamSettings>
    : fields_caster<metricfast::AdamSettings, double, double, double, bool> {};

} // namespace pybind11::detail

namespace metricfast::python {

/// Binds a kernel as the function `name`, with the arguments of its type. \param find returns the
/// kernel of the level in use, once a call has loaded it.
template <class Find, class R, class... A>
void bind(py::module_ &m, const char *name, Find find, const Kernel<R(A...)> *) {
    m.def(
        name, [find](A... given) -> R { return find()(std::forward<A>(given)...); },
        py::call_guard<Released>());
}

// Binds a kernel of each precision: the arrays of a call decide.
#define METRICFAST_BIND_OF_T(name, area)                                                           \
    METRICFAST_BIND(name, of<float>().area)                                                        \
    METRICFAST_BIND(name, of<double>().area)
#define METRICFAST_BIND(name, area)                                                                \
    bind(                                                                                          \
        m, #name, []() -> const auto & { return kernels().area.name; },                            \
        static_cast<const decltype(kernels().area.name) *>(nullptr));

} // namespace metricfast::python
