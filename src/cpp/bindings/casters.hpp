/// Conversions of Python's arguments into the arguments of kernels, by their types.
#pragma once

#include <tuple>

#include <pybind11/stl.h>

#include "arrays.hpp"

namespace PYBIND11_NAMESPACE { // hidden
namespace detail {

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

/// Flags are booleans.
template <> struct type_caster<metricfast::Span<std::uint8_t>> {
    PYBIND11_TYPE_CASTER(metricfast::Span<std::uint8_t>, const_name("A | None"));
    bool load(handle source, bool) {
        if (source.is_none())
            return true;
        auto given = reinterpret_borrow<array>(source);
        value = python::writable_flags(given, given.size(), "the output array");
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

/// U and V, of a distance |U x - V y|. None stands for the identity.
template <> struct type_caster<metricfast::Maps> {
    PYBIND11_TYPE_CASTER(metricfast::Maps, const_name("Maps"));
    bool load(handle source, bool) {
        const auto given = reinterpret_borrow<tuple>(source);
        const object U = given[0], V = given[1];
        const auto map = [](const object &a) {
            return python::points(reinterpret_borrow<array>(a));
        };
        if (!U.is_none())
            value = U.is(V) ? metricfast::Maps(map(U)) : metricfast::Maps(map(U), map(V));
        return true;
    }
};

/// The rows that each query may find: a row that each excludes; 0 for rows that all exclude (a
/// vector) or that one does (a matrix); labels of queries and of the database, and whether a query
/// finds rows with its own label. Each may be None.
template <> struct type_caster<metricfast::Filter> {
    PYBIND11_TYPE_CASTER(metricfast::Filter, const_name("Filter"));
    bool load(handle source, bool convert) {
        const auto given = reinterpret_borrow<tuple>(source);
        const object allowed = given[1], labels = given[2];
        excluded_.load(given[0], convert);
        value.exclude = excluded_;
        if (!allowed.is_none() && reinterpret_borrow<array>(allowed).ndim() == 2)
            value.pairs = python::matrix<std::uint8_t>(reinterpret_borrow<array>(allowed));
        else if (!allowed.is_none())
            value.rows = python::elements<std::uint8_t>(
                allowed, reinterpret_borrow<array>(allowed).size(), "rows");
        if (!labels.is_none()) {
            const auto both = reinterpret_borrow<tuple>(labels);
            const auto of = [&](int side) {
                const auto codes = reinterpret_borrow<array>(both[side]);
                return python::elements<std::int64_t>(codes, codes.size(), "labels");
            };
            value.query_labels = of(0);
            value.labels = of(1);
            value.equal = both[2].cast<bool>();
        }
        return true;
    }

  private:
    type_caster<metricfast::Codes> excluded_;
};

/// Pairs are not copied: kernels check them when they read them.
template <> struct type_caster<metricfast::PairList> {
    PYBIND11_TYPE_CASTER(metricfast::PairList, const_name("Rows"));
    bool load(handle source, bool) {
        if (source.is_none())
            return true;
        const auto given = reinterpret_borrow<array>(source);
        value.pairs = python::elements<std::int64_t>(given, given.size(), "pairs");
        return true;
    }
};

/// A centre and a scale.
template <> struct type_caster<metricfast::Frame> {
    PYBIND11_TYPE_CASTER(metricfast::Frame, const_name("Frame"));
    bool load(handle source, bool) {
        const auto given = reinterpret_borrow<tuple>(source);
        const auto centre = reinterpret_borrow<array>(given[0]);
        const auto values = python::elements<double>(centre, centre.size(), "centre");
        value = {{values.begin(), values.end()}, given[1].cast<double>()};
        return true;
    }
    static handle cast(const metricfast::Frame &of, return_value_policy, handle) {
        return make_tuple(python::copied(of.centre), of.scale).release();
    }
};

/// Lists (row_starts, columns), or None if they are not complete.
template <> struct type_caster<metricfast::CandidateLists> {
    PYBIND11_TYPE_CASTER(metricfast::CandidateLists, const_name("Lists | None"));
    static handle cast(const metricfast::CandidateLists &of, return_value_policy, handle) {
        if (!of.complete)
            return none().release();
        return make_tuple(python::copied(of.row_starts), python::copied(of.columns)).release();
    }
};

/// Lists (distances, indices, row_starts).
template <class T> struct type_caster<metricfast::NeighborLists<T>> {
    PYBIND11_TYPE_CASTER(metricfast::NeighborLists<T>, const_name("tuple[A, Ids, Ids]"));
    static handle cast(metricfast::NeighborLists<T> &&of, return_value_policy, handle) {
        return make_tuple(python::owning(std::move(of.distances)),
                          python::owning(std::move(of.indices)),
                          python::owning(std::move(of.row_starts)))
            .release();
    }
};

/// A sequence of the fields.
template <class Struct, class... Fields> struct fields_caster {
    PYBIND11_TYPE_CASTER(Struct, const_name("Sequence[Any]"));
    bool load(handle source, bool convert) {
        return load(source, convert, std::index_sequence_for<Fields...>());
    }

  private:
    template <std::size_t... I> bool load(handle source, bool convert, std::index_sequence<I...>) {
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
        const auto given = pybind11::cast<std::string>(source);
        int place = 0;
        for (const char *const each : type_caster<Enum>::names) {
            if (given == each) {
                value = static_cast<Enum>(place);
                return true;
            }
            ++place;
        }
        throw std::invalid_argument("unknown name " + given);
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

template <> struct type_caster<metricfast::Metric> : name_caster<metricfast::Metric> {
    static constexpr const char *names[] = {"euclidean", "cosine", "inner_product"};
};
template <> struct type_caster<metricfast::Ties> : name_caster<metricfast::Ties> {
    static constexpr const char *names[] = {"pessimistic", "optimistic", "label", "nearest"};
};
template <>
struct type_caster<metricfast::VoteLoss>
    : fields_caster<metricfast::VoteLoss, metricfast::Span<const double>, metricfast::Index> {};
template <>
struct type_caster<metricfast::InferenceOptions>
    : fields_caster<metricfast::InferenceOptions, metricfast::Index, metricfast::VoteLoss,
                    metricfast::Ties, bool> {};
template <>
struct type_caster<metricfast::RadiusSettings>
    : fields_caster<metricfast::RadiusSettings, double, metricfast::Filter, bool, bool> {};
template <> struct type_caster<metricfast::Mining> : name_caster<metricfast::Mining> {
    static constexpr const char *names[] = {"all", "semihard", "hardest"};
};
template <> struct type_caster<metricfast::RowKind> : name_caster<metricfast::RowKind> {
    static constexpr const char *names[] = {"sqeuclidean", "euclidean", "inner_product"};
};
template <>
struct type_caster<metricfast::NcaSettings>
    : fields_caster<metricfast::NcaSettings, bool, bool, metricfast::Weights> {};
template <>
struct type_caster<metricfast::TripletSettings>
    : fields_caster<metricfast::TripletSettings, double, metricfast::Mining, bool> {};
template <>
struct type_caster<metricfast::ContrastiveSettings>
    : fields_caster<metricfast::ContrastiveSettings, double, double, bool> {};
template <>
struct type_caster<metricfast::SoftplusSettings>
    : fields_caster<metricfast::SoftplusSettings, double, double, double, double, double, double> {
};
template <>
struct type_caster<metricfast::LiftedSettings>
    : fields_caster<metricfast::LiftedSettings, double, double, bool> {};
template <>
struct type_caster<metricfast::LmnnSettings>
    : fields_caster<metricfast::LmnnSettings, metricfast::Codes, metricfast::Index, double,
                    double> {};
template <>
struct type_caster<metricfast::LmnnPushSettings>
    : fields_caster<metricfast::LmnnPushSettings, metricfast::View<const double>,
                    metricfast::View<double>> {};
template <>
struct type_caster<metricfast::RatioSettings>
    : fields_caster<metricfast::RatioSettings, bool, bool, double, double> {};

template <>
struct type_caster<metricfast::ScmlSettings>
    : fields_caster<metricfast::ScmlSettings, double, double, metricfast::Index> {};
/// Tuples as an array of one row each.
template <> struct type_caster<metricfast::TupleList> {
    PYBIND11_TYPE_CASTER(metricfast::TupleList, const_name("A"));
    bool load(handle source, bool convert) {
        const auto given = reinterpret_borrow<array>(source);
        metricfast::require(given.ndim() == 2, "tuples must have two dimensions");
        codes_.load(source, convert);
        value = {codes_, given.shape(1)};
        return true;
    }

  private:
    type_caster<metricfast::Codes> codes_;
};

template <> struct type_caster<metricfast::OasisTotals> {
    PYBIND11_TYPE_CASTER(metricfast::OasisTotals, const_name("tuple[float, int]"));
    static handle cast(const metricfast::OasisTotals &of, return_value_policy, handle) {
        return make_tuple(of.loss, of.updates).release();
    }
};
template <> struct type_caster<metricfast::TripletObjective> {
    PYBIND11_TYPE_CASTER(metricfast::TripletObjective, const_name("tuple[float, float]"));
    static handle cast(const metricfast::TripletObjective &of, return_value_policy, handle) {
        return make_tuple(of.value, of.scale).release();
    }
};
/// Returns value, terms, anchors, skipped, dropped.
template <> struct type_caster<metricfast::RowTotals> {
    PYBIND11_TYPE_CASTER(metricfast::RowTotals, const_name("Totals"));
    static handle cast(const metricfast::RowTotals &of, return_value_policy, handle) {
        return make_tuple(of.value, of.terms, of.anchors, of.skipped, of.dropped).release();
    }
};

} // namespace detail
} // namespace PYBIND11_NAMESPACE

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
