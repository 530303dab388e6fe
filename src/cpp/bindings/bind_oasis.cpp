#include "arrays.hpp"
#include "common.hpp"

namespace metricfast::python {

namespace {

py::tuple oasis_pass(const py::array &x, const py::array &triplets, const py::object &weights,
                     const py::array &order, double C, py::array W) {
    require(triplets.ndim() == 2 && triplets.shape(1) == 3, "triplets must be (m, 3)");
    const Index count = triplets.shape(0);
    const Indices rows(triplets, 3 * count, "triplets");
    const auto weight = elements<double>(weights, count, "weights");
    const Indices chosen(order, order.size(), "order");
    OasisTotals totals;
    by_precision(x, [&](auto zero) {
        using T = decltype(zero);
        const auto points = matrix<T>(x);
        const View<T> map = writable<T>(W);
        const Control run = control(1);
        const Released release;
        totals = kernels().of<T>().triplets.oasis(points, rows, weight, chosen, C, map, run);
    });
    return py::make_tuple(totals.loss, totals.updates);
}

} // namespace

void register_oasis(py::module_ &m) { m.def("oasis", &oasis_pass); }

} // namespace metricfast::python
