#include "arrays.hpp"
#include "common.hpp"

namespace metricfast::python {

namespace {

/// Runs sweeps that update M and the duals until `after_sweep` returns false. An interrupted call
/// keeps its updates. The arguments of `after_sweep` are the sum of the absolute changes of the
/// duals, the norm of the duals, and the number of pairs skipped because of rounding errors in M.
/// Without points, M is their Gram matrix.
void itml(const py::object &x, const py::object &pairs, Index similar, py::array M, py::array duals,
          double upper, double lower, double gamma, const py::function &after_sweep) {
    const Index count = duals.size();
    const Indices index(pairs, 2 * count, "pairs");
    const auto dual = writable_elements<double>(duals, count, "duals");
    const View<double> metric = writable<double>(M);
    const Control run = control(1);
    const Points of = x.is_none() ? Points(View<const double>(nullptr, metric.rows, 0))
                                  : points(py::cast<py::array>(x));
    const auto solver =
        kernels().constraints.itml({of, index, similar}, {upper, lower, gamma}, metric);
    for (bool more = true; more;) {
        ItmlSweep result;
        try {
            const Released release;
            result = solver->sweep(dual, run);
        } catch (const Cancelled &) {
            solver->read(metric);
            throw;
        }
        solver->read(metric);
        more = call_python(after_sweep, result.moved, result.norm, result.held).cast<bool>();
    }
}

} // namespace

void register_itml(py::module_ &m) { m.def("itml", &itml); }

} // namespace metricfast::python
