#include <optional>

#include "casters.hpp"
#include "common.hpp"

namespace metricfast::python {

namespace {

/// \param weights written. \param next_draws called with the number of completed iterations. It
///   returns the triplets of further iterations, of shape (iterations, batch), or None to stop.
template <class T>
void scml(View<const T> points, Codes triplets, View<const T> basis, const ScmlSettings &settings,
          Span<T> weights, const py::function &next_draws) {
    const Control run = control(1);
    PyThreadState *const state = PyThreadState_Get();
    std::optional<Indices> held;
    const auto next = [&](Index done) -> ScmlDraws {
        const Acquired gil(state);
        const py::object draws = call_python(next_draws, done);
        if (draws.is_none())
            return {};
        held.emplace(draws, py::cast<py::array>(draws).size(), "draws");
        return {*held};
    };
    const Released release;
    kernels().of<T>().triplets.scml(points, triplets, basis, settings, weights, next, run);
}

} // namespace

#define METRICFAST_BIND_CONSTRAINT(name) METRICFAST_BIND(name, constraints)
void register_constrained(py::module_ &m) {
    METRICFAST_CONSTRAINT_SUMS(METRICFAST_BIND_CONSTRAINT)
    METRICFAST_BIND_OF_T(oasis, triplets)
    m.def("scml", &scml<float>);
    m.def("scml", &scml<double>);
}

} // namespace metricfast::python
