#include "arrays.hpp"
#include "common.hpp"
#include "metricfast/constrained/itml.hpp"

namespace metricfast::python {

namespace {

/// One sweep, which updates M and the duals; what it did until then stays when it is interrupted.
/// Returns the sum of the changes of the duals, their norm, the largest trace that M has had, and
/// the number of pairs that its rounding errors held up.
py::tuple itml_sweep(const py::array &x, const py::object &pairs, Index similar, py::array M,
                     double trace, py::array duals, double upper, double lower, double gamma) {
    const Points all = points(x);
    const Index count = duals.size();
    const auto *index = elements<std::int64_t>(pairs, 2 * count, "pairs");
    double *dual = writable_elements<double>(duals, count, "duals");
    const View<double> metric = writable<double>(M);
    const Control run = control(1);
    ItmlSweep result;
    Itml itml(metric, trace);
    {
        const py::gil_scoped_release release;
        try {
            result = itml.sweep({all, index, count, similar}, {upper, lower, gamma}, dual, run);
        } catch (const Cancelled &) {
            itml.read(metric);
            throw;
        }
        itml.read(metric);
    }
    return py::make_tuple(result.moved, result.norm, itml.largest_trace(), result.held);
}

} // namespace

void register_itml(py::module_ &m) { m.def("itml_sweep", &itml_sweep); }

} // namespace metricfast::python
