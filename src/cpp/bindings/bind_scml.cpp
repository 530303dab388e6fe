#include <optional>

#include "arrays.hpp"
#include "common.hpp"

namespace metricfast::python {

namespace {

/// \param weights written. \param next_draws called with the number of completed iterations. It
///   returns the triplets of further iterations, of shape (iterations, batch), or None to stop.
void scml(const py::array &x, const py::array &triplets, const py::array &basis, double beta,
          double gamma, Index batch, py::array weights, const py::function &next_draws) {
    require(triplets.ndim() == 2 && triplets.shape(1) == 3, "triplets must be (m, 3)");
    const Indices rows(triplets, triplets.size(), "triplets");
    by_precision(x, [&](auto zero) {
        using T = decltype(zero);
        const auto points = matrix<T>(x), bases = matrix<T>(basis);
        const auto w = writable_elements<T>(weights, bases.rows, "weights");
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
        kernels().of<T>().triplets.scml(points, rows, bases, {beta, gamma, batch}, w, run, next);
    });
}

/// Returns the value and the scale. \param weights one float64 per triplet, or None.
std::pair<double, double> objective(const py::array &x, const py::array &L,
                                    const py::array &triplets, const py::object &weights,
                                    double penalty, int threads) {
    const Index count = triplets.shape(0);
    const Indices rows(triplets, 3 * count, "triplets");
    const auto v = elements<double>(weights, count, "weights");
    const Points all = points(x);
    const View<const double> map = matrix<double>(L);
    const Control run = control(threads);
    const Released release;
    const auto found = kernels().constraints.triplet_objective(all, map, rows, v, penalty, run);
    return {found.value, found.scale};
}

} // namespace

void register_scml(py::module_ &m) {
    m.def("scml", &scml);
    m.def("triplet_objective", &objective);
}

} // namespace metricfast::python
