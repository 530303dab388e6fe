#include "arrays.hpp"
#include "common.hpp"

namespace metricfast::python {

namespace {

View<double> square(py::array &scatter, Index size) {
    const View<double> out = writable<double>(scatter);
    require(out.rows == size && out.cols == size, "scatter must be (n_features, n_features)");
    return out;
}

double group_sums_of(const py::array &x, const py::array &weights, const py::array &group,
                     const py::object &origin, py::array sums, int threads) {
    const Points all = points(x);
    const auto w = elements<double>(weights, all.rows(), "weights");
    const Indices g(group, all.rows(), "group");
    const auto o = elements<double>(origin, all.cols(), "origin");
    const View<double> out = writable<double>(sums);
    const Control run = control(threads);
    const Released release;
    return kernels().constraints.group_sums(all, w, g, out, o, run);
}

void group_scatter_of(const py::array &x, const py::array &weights, const py::array &group,
                      const py::array &means, const py::object &scale, const py::object &origin,
                      py::array scatter, int threads) {
    const Points all = points(x);
    const auto w = elements<double>(weights, all.rows(), "weights");
    const Indices g(group, all.rows(), "group");
    const auto s = elements<double>(scale, all.cols(), "scale");
    const auto o = elements<double>(origin, all.cols(), "origin");
    const View<const double> centres = matrix<double>(means);
    const View<double> out = square(scatter, all.cols());
    const Control run = control(threads);
    const Released release;
    kernels().constraints.group_scatter(all, w, g, centres, s, o, out, run);
}

void local_scatter_of(const py::array &x, const py::array &weights, Index k, py::array scatter,
                      int threads) {
    const View<const double> all = matrix<double>(x);
    const auto w = elements<double>(weights, all.rows, "weights");
    const View<double> out = square(scatter, all.cols);
    const Control run = control(threads);
    const Released release;
    kernels().constraints.local_scatter(all, w, k, out, run);
}

} // namespace

void register_scatter(py::module_ &m) {
    m.def("group_sums", &group_sums_of);
    m.def("group_scatter", &group_scatter_of);
    m.def("local_scatter", &local_scatter_of);
}

} // namespace metricfast::python
