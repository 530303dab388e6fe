#include "arrays.hpp"
#include "common.hpp"
#include "metricfast/distance/distance.hpp"
#include "metricfast/distance/paired.hpp"

namespace metricfast::python {

namespace {

bool all_finite(const py::array &a) {
    const Points all = points(a);
    try {
        detail::largest_magnitude(all);
    } catch (const std::invalid_argument &) {
        return false;
    }
    return true;
}

/// How many different threads a call with `threads` runs on, seen from within its blocks.
int threads_used(int threads) {
    std::atomic<int> highest{0};
    std::atomic<int> running{0};
    const py::gil_scoped_release release;
    parallel_blocks(threads, {threads, {}, {}}, [&](Index, Worker &worker) {
        ++running;
        // Wait a little for the others, so that one thread does not run all blocks.
        for (int i = 0; i < 200 && running < threads; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        for (int seen = highest;
             worker.id() + 1 > seen && !highest.compare_exchange_weak(seen, worker.id() + 1);) {
        }
    });
    return highest;
}

void pairwise(const py::array &x, const py::array &y, const py::object &U, const py::object &V,
              bool squared, py::array out, int threads) {
    const Maps maps(U, V);
    const Points queries = points(x), database = points(y);
    by_precision(out, [&](auto zero) {
        using T = decltype(zero);
        const View<T> result = writable<T>(out);
        const Control run = control(threads);
        const py::gil_scoped_release release;
        with_embedded(queries, database, maps, run, [&](const Points &q, const Points &d) {
            pairwise_distances<T>(q, d, squared, result, run);
        });
    });
}

void paired(const py::array &x, const py::array &y, const py::object &pairs, const py::object &U,
            const py::object &V, bool squared, py::array out, int threads) {
    const Maps maps(U, V);
    const Points left = points(x), right = points(y);
    const Index count = out.size();
    const PairList list{elements<std::int64_t>(pairs, 2 * count, "pairs").data(), count};
    by_precision(out, [&](auto zero) {
        using T = decltype(zero);
        T *result = writable_elements<T>(out, count, "out").data();
        const Control run = control(threads);
        const py::gil_scoped_release release;
        if (maps.any())
            paired_distances<T>(left, right, list, maps.query, maps.of_database(), squared, result,
                                run);
        else
            paired_distances<T>(left, right, list, squared, result, run);
    });
}

} // namespace

void register_distance(py::module_ &m) {
    m.def("default_threads", &default_threads);
    m.def("available_cpus", &available_cpus);
    m.def("threads_used", &threads_used);
    m.def("all_finite", &all_finite, py::arg("x").noconvert());
    m.def("pairwise_distances", &pairwise);
    m.def("paired_distances", &paired);
    py::register_exception_translator([](std::exception_ptr error) {
        try {
            if (error)
                std::rethrow_exception(error);
        } catch (const Cancelled &) {
            if (!PyErr_Occurred())
                PyErr_SetNone(PyExc_KeyboardInterrupt);
        }
    });
}

} // namespace metricfast::python
