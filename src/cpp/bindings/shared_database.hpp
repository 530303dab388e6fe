/// A prepared database as an object of Python.
#pragma once

#include <memory>
#include <optional>
#include <type_traits>

#include "arrays.hpp"
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

    void search(const py::array &x, Index k, const py::object &exclude, const py::object &allowed,
                const py::object &labels, bool squared, py::array distances, py::array indices,
                int threads) const {
        const Points queries = points(x);
        const RowFilter filter(exclude, allowed, labels, queries.rows(),
                               database_->points().rows());
        const View<std::int64_t> rows = writable<std::int64_t>(indices);
        by_precision(distances, [&](auto zero) {
            using T = decltype(zero);
            const View<T> result = writable<T>(distances);
            const bool quick = brief(queries);
            const Control run = quick ? control_with_gil(threads) : control(threads);
            std::optional<Released> release;
            if (!quick)
                release.emplace();
            database_->search(queries, k, filter, squared, result, rows, run);
        });
    }

    /// Returns the result of lists().
    py::object radius_neighbors(const py::array &x, double radius, const py::object &exclude,
                                const py::object &allowed, const py::object &labels, bool sorted,
                                bool squared, bool single, int threads) const {
        const Points queries = points(x);
        const RowFilter filter(exclude, allowed, labels, queries.rows(),
                               database_->points().rows());
        const RadiusSettings settings{radius, filter, sorted, squared};
        return by_radius(single, [&](auto &found) {
            const Control run = control(threads);
            const Released release;
            database_->radius_neighbors(queries, settings, found, run);
        });
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
    Index size() const { return database_->points().rows(); }

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
