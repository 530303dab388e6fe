#include "arrays.hpp"
#include "common.hpp"
#include "metricfast/constrained/lsml.hpp"
#include "metricfast/constrained/mmc.hpp"

namespace metricfast::python {

namespace {

Indices tuple_indices(const py::array &index, Index size) {
    require(index.ndim() == 2 && index.shape(1) == size, "tuples have the wrong size");
    return {index, index.size(), "tuples"};
}

template <class F> py::tuple value_and_scatter(int threads, F &&f) {
    ValueAndScatter result;
    const Control run = control(threads);
    {
        const Released release;
        result = f(run);
    }
    py::array_t<double> scatter({result.scatter.rows(), result.scatter.cols()});
    std::copy(result.scatter.data(), result.scatter.data() + result.scatter.size(),
              scatter.mutable_data());
    return py::make_tuple(result.value, scatter);
}

py::tuple comparison_loss(const py::array &x, const py::array &quadruplets,
                          const py::array &weights, const py::array &L, int threads) {
    const Points all = points(x);
    const Indices index = tuple_indices(quadruplets, 4);
    const TupleList tuples{index.data(), quadruplets.shape(0), 4};
    const auto w = elements<double>(weights, tuples.count, "weights");
    const auto map = matrix<double>(L);
    return value_and_scatter(
        threads, [&](const Control &run) { return lsml_loss(all, tuples, w, map, run); });
}

py::tuple distances_summed(const py::array &x, const py::array &pairs, const py::array &L,
                           bool diagonal, bool squared, int threads) {
    const Points all = points(x);
    const Indices index = tuple_indices(pairs, 2);
    const TupleList tuples{index.data(), pairs.shape(0), 2};
    const auto map = matrix<double>(L);
    return value_and_scatter(threads, [&](const Control &run) {
        return squared ? sum_of_squared_distances(all, tuples, map, diagonal, run)
                       : sum_of_distances(all, tuples, map, diagonal, run);
    });
}

} // namespace

void register_psd_learners(py::module_ &m) {
    m.def("lsml_loss", &comparison_loss);
    m.def("sum_of_distances", &distances_summed);
}

} // namespace metricfast::python
