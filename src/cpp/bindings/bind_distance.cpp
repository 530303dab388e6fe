#include "arrays.hpp"
#include "common.hpp"
#include "metricfast/distance/distance.hpp"
#include "metricfast/distance/paired.hpp"

namespace metricfast::python {

namespace {

bool all_finite(const py::array &a) {
    const Points all = points(a);
    const Released release;
    try {
        require_finite(all, "not all are");
    } catch (const std::invalid_argument &) {
        return false;
    }
    return true;
}

/// How many different threads a call with `threads` runs on, seen from within its blocks.
int threads_used(int threads) {
    std::atomic<int> highest{0};
    std::atomic<int> running{0};
    const Released release;
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
        const Released release;
        with_embedded(queries, database, maps, run, [&](const Points &q, const Points &d) {
            pairwise_distances<T>(q, d, squared, result, run);
        });
    });
}

/// (largest coordinate, largest offset from a point, both times `unit`).
py::tuple extent(const py::array &x, const py::array &from, double unit) {
    const Points all = points(x);
    const auto origin = elements<double>(from, all.cols(), "from");
    std::vector<double> scaled(origin.begin(), origin.end());
    for (double &value : scaled)
        value *= unit;
    const Extremes extremes(all);
    return py::make_tuple(extremes.magnitude(), extremes.offset(scaled, unit));
}

/// (centre, scale) of the frame of all points. \param some of the database: see middle().
py::tuple frame_of(const py::array &some, double unit, double spread) {
    const std::vector<double> centre = middle(points(some));
    return py::make_tuple(
        py::array_t<double>(static_cast<py::ssize_t>(centre.size()), centre.data()),
        difference_scale(unit, spread));
}

void pairwise_of_part(const py::array &x, const py::array &y, const py::array &centre, double scale,
                      Index columns, bool squared, py::array out, const py::object &cancelled,
                      int threads) {
    const Points queries = points(x), part = points(y);
    const auto middle = elements<double>(centre, part.cols(), "centre");
    const Frame frame = Frame::at({middle.begin(), middle.end()}, scale);
    Span<std::int64_t> counts = nullptr;
    if (!cancelled.is_none()) {
        auto array = py::cast<py::array>(cancelled);
        counts = writable_elements<std::int64_t>(array, array.size(), "cancelled");
    }
    by_precision(out, [&](auto zero) {
        using T = decltype(zero);
        const View<T> result = writable<T>(out);
        const Control run = control(threads);
        const Released release;
        pairwise_distances_of_part<T>(queries, part, frame, columns, squared, result, counts, run);
    });
}

/// How many rows pairwise_of_part() decides on together, in the precision of an array.
Index pairwise_rows(const py::array &out) {
    return by_precision(out, [](auto zero) { return AllPairs<decltype(zero)>::block; });
}

/// How many distances of so many rows, to a whole database of so many points, products may round
/// too much.
Index most_cancelled(const py::array &out, Index rows, Index columns) {
    return by_precision(
        out, [&](auto zero) { return AllPairs<decltype(zero)>::most_cancelled(rows, columns); });
}

py::array_t<double> origin_of(const py::array &x) {
    const std::vector<double> origin = detail::exact_origin(points(x));
    return py::array_t<double>(static_cast<py::ssize_t>(origin.size()), origin.data());
}

/// out = (x - origin) L^T.
void embed_points(const py::array &x, const py::array &L, const py::array &origin,
                  py::array_t<double> out, int threads) {
    const Points all = points(x);
    const auto from = elements<double>(origin, all.cols(), "origin");
    const View<double> result = writable<double>(out);
    const Control run = control(threads);
    const Released release;
    const RowMatrix<double> z =
        embed_finite(all, to_double(points(L)), {from.begin(), from.end()}, run);
    require(result.rows == z.rows() && result.cols == z.cols(), "embed: out has the wrong shape");
    for (Index i = 0; i < z.rows(); ++i)
        std::copy(z.row(i).data(), z.row(i).data() + z.cols(), result.row(i));
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
        const Released release;
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
    m.def("extent", &extent);
    m.def("frame", &frame_of);
    m.def("pairwise_distances_of_part", &pairwise_of_part);
    m.def("pairwise_rows", &pairwise_rows);
    m.def("most_cancelled", &most_cancelled);
    m.def("embedding_origin", &origin_of);
    m.def("embed", &embed_points);
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
