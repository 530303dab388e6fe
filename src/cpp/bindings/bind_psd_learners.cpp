#include "arrays.hpp"
#include "common.hpp"

namespace metricfast::python {

namespace {

Indices tuple_indices(const py::array &index, Index size) {
    require(index.ndim() == 2 && index.shape(1) == size, "tuples have the wrong size");
    return {index, index.size(), "tuples"};
}

/// Returns (value, scatter), where f(scatter, control) writes the scatter and returns the value.
template <class F> py::tuple value_and_scatter(Index rows, Index cols, int threads, F &&f) {
    py::array_t<double> scatter({rows, cols});
    const View<double> out = writable<double>(scatter);
    const Control run = control(threads);
    double value = 0;
    {
        const Released release;
        value = f(out, run);
    }
    return py::make_tuple(value, scatter);
}

py::tuple comparison_loss(const py::array &x, const py::array &quadruplets,
                          const py::array &weights, const py::array &L, int threads) {
    const Points all = points(x);
    const Indices index = tuple_indices(quadruplets, 4);
    const TupleList tuples{index, 4};
    const auto w = elements<double>(weights, tuples.count(), "weights");
    const auto map = matrix<double>(L);
    const Index d = all.cols();
    return value_and_scatter(d, d, threads, [&](View<double> scatter, const Control &run) {
        return kernels().constraints.lsml_loss(all, tuples, w, map, scatter, run);
    });
}

py::tuple distances_summed(const py::array &x, const py::array &pairs, const py::array &L,
                           bool diagonal, bool squared, int threads) {
    const Points all = points(x);
    const Indices index = tuple_indices(pairs, 2);
    const TupleList tuples{index, 2};
    const auto map = matrix<double>(L);
    const Index d = all.cols(), rows = diagonal ? 1 : d;
    return value_and_scatter(rows, d, threads, [&](View<double> scatter, const Control &run) {
        return kernels().constraints.sum_of_distances(all, tuples, map, diagonal, squared, scatter,
                                                      run);
    });
}

} // namespace

void register_psd_learners(py::module_ &m) {
    m.def("lsml_loss", &comparison_loss);
    m.def("sum_of_distances", &distances_summed);
}

} // namespace metricfast::python
