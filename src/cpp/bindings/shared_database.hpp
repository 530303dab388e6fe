/// A prepared database as an object of Python.
#pragma once

#include <memory>
#include <optional>
#include <type_traits>

#include "casters.hpp"
#include "common.hpp"

namespace metricfast::python {

/// A database, together with the arrays that it refers to.
class SharedDatabase {
  public:
    SharedDatabase(py::array points_, bool integers, Metric metric, int threads)
        : source_(std::move(points_)) {
        const Points raw = points(source_);
        const Control run = control(threads);
        const Released release;
        database_ = kernels().points.prepare_database(raw, {}, {true, integers, true, metric}, run);
    }

    /// \param state the result of state() of an equal database. This object keeps it alive.
    SharedDatabase(py::dict state, Metric metric)
        : source_(state["points"]), state_(std::move(state)) {
        const auto numbers = of_state<double>("frame");
        require(numbers.size() == 2, "frame must have two numbers");
        const auto centre = of_state<double>("centre");
        database_ = kernels().points.restore_database(
            points(source_),
            {{{centre.begin(), centre.end()}, numbers[0], numbers[1]},
             {of_state<std::uint8_t>("codes"), of_state<std::int32_t>("start"),
              of_state<float>("error"), of_state<float>("norm"), of_state<double>("cells"),
              of_state<std::int64_t>("order"), of_state<std::int64_t>("cell_starts")}},
            metric);
    }

    /// Returns the arrays of the prepared database, or None if preparing it again is as fast as
    /// loading.
    py::object state(const py::object &self) const {
        if (database_->route() != SearchRoute::integers)
            return py::none();
        const DatabaseState state = database_->state();
        const auto array = [&](const auto &values) {
            using T = std::remove_const_t<std::remove_reference_t<decltype(values[0])>>;
            return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data(), self);
        };
        py::dict result;
        const std::vector<double> numbers{state.frame.scale, state.frame.exact_scale};
        result["frame"] = py::array_t<double>(2, numbers.data());
        result["centre"] = py::array_t<double>(static_cast<py::ssize_t>(state.frame.centre.size()),
                                               state.frame.centre.data());
        result["codes"] = array(state.parts.data);
        result["start"] = array(state.parts.start);
        result["error"] = array(state.parts.error);
        result["norm"] = array(state.parts.norm);
        result["cells"] = array(state.parts.cells);
        result["order"] = array(state.parts.order);
        result["cell_starts"] = array(state.parts.cell_starts);
        return std::move(result);
    }

    template <class T>
    void search(const Points &queries, Index k, const Filter &filter, bool squared,
                View<T> distances, View<std::int64_t> indices, int threads) const {
        const bool quick = brief(queries);
        const Control run = quick ? control_with_gil(threads) : control(threads);
        std::optional<Released> release;
        if (!quick)
            release.emplace();
        kernels().of<T>().database.kneighbors(queries, *database_, k, filter, squared, distances,
                                              indices, run);
    }

    /// \param single whether distances are float32.
    py::object radius_neighbors(const Points &queries, const RadiusSettings &settings, bool single,
                                const Control &run) const {
        const auto search = [&](auto zero) {
            const auto found = [&] {
                const Released release;
                return kernels().of<decltype(zero)>().database.radius_neighbors(queries, *database_,
                                                                                settings, run);
            };
            return py::cast(found());
        };
        return single ? search(float{}) : search(double{});
    }

    std::string algorithm() const {
        switch (database_->route()) {
        case SearchRoute::tree:
            return "tree";
        case SearchRoute::integers:
            return database_->cells() > 1 ? "cells" : "int8";
        default:
            return "float32";
        }
    }
    std::size_t bytes() const { return database_->bytes(); }
    const SearchDatabase &get() const { return *database_; }

  private:
    /// Returns true if a search takes less time than releasing and reacquiring the GIL.
    bool brief(const Points &queries) const {
        constexpr Index most = 1 << 20; // multiplications
        const Index pairs = queries.rows() * database_->points().rows();
        return pairs < most && pairs * queries.cols() < most;
    }

    template <class T> Span<const T> of_state(const char *name) const {
        const py::array array = state_[name];
        return elements<T>(array, array.size(), name);
    }

    py::array source_;
    py::dict state_;
    std::unique_ptr<SearchDatabase> database_;
};

} // namespace metricfast::python

namespace PYBIND11_NAMESPACE {
namespace detail {

template <> struct type_caster<metricfast::SearchDatabase> {
    static constexpr auto name = const_name("PreparedDatabase");
    template <class> using cast_op_type = const metricfast::SearchDatabase &;
    bool load(handle source, bool) {
        if (!isinstance<metricfast::python::SharedDatabase>(source))
            return false;
        value_ = &source.cast<const metricfast::python::SharedDatabase &>().get();
        return true;
    }
    operator const metricfast::SearchDatabase &() { return *value_; }

  private:
    const metricfast::SearchDatabase *value_ = nullptr;
};

} // namespace detail
} // namespace PYBIND11_NAMESPACE
