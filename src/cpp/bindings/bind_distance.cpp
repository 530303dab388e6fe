#include "arrays.hpp"
#include "common.hpp"

namespace metricfast::python {

namespace {

bool all_finite(const py::array &a) {
    const Points all = points(a);
    const Released release;
    return kernels().points.all_finite(all);
}

int threads_used(int threads) {
    const Released release;
    return kernels().threads.threads_used(threads);
}

void pairwise(const py::array &x, const py::array &y, const py::object &U, const py::object &V,
              bool squared, py::array out, int threads) {
    const Maps given = maps(U, V);
    const Points queries = points(x), database = points(y);
    by_precision(out, [&](auto zero) {
        using T = decltype(zero);
        const View<T> result = writable<T>(out);
        const Control run = control(threads);
        const Released release;
        kernels().of<T>().search.pairwise_distances(queries, database, given, squared, result, run);
    });
}

/// Returns the largest coordinate and the largest offset from `from`, both times `unit`.
std::pair<double, double> extent(const py::array &x, const py::array &from, double unit) {
    const Points all = points(x);
    return kernels().points.extent(all, elements<double>(from, all.cols(), "from"), unit);
}

/// Returns the centre and the scales of the frame of all points. \param some a sample of the
/// database.
py::tuple frame_of(const py::array &some, double unit, double spread) {
    const Frame frame = kernels().points.frame(points(some), unit, spread);
    return py::make_tuple(copied(frame.centre), frame.scale);
}

void pairwise_of_part(const py::array &x, const py::array &y, const py::array &centre, double scale,
                      Index columns, bool squared, py::array out, const py::object &cancelled,
                      int threads) {
    const Points queries = points(x), part = points(y);
    const auto middle = elements<double>(centre, part.cols(), "centre");
    const Frame frame{{middle.begin(), middle.end()}, scale};
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
        kernels().of<T>().search.pairwise_distances_of_part(queries, part, frame, columns, squared,
                                                            result, counts, run);
    });
}

/// Returns the number of rows for which pairwise_of_part() makes one decision, in the precision of
/// `out`.
Index pairwise_rows(const py::array &out) {
    return by_precision(
        out, [](auto zero) { return kernels().of<decltype(zero)>().search.pairwise_block(); });
}

/// Returns how many of `rows` x `columns` distances may lose too many digits in the matrix product.
Index most_cancelled(const py::array &out, Index rows, Index columns) {
    return by_precision(out, [&](auto zero) {
        return kernels().of<decltype(zero)>().search.most_cancelled(rows, columns);
    });
}

py::array_t<double> origin_of(const py::array &x) {
    return copied(kernels().points.embedding_origin(points(x)));
}

/// Computes out = (x - origin) L^T.
void embed_points(const py::array &x, const py::array &L, const py::array &origin,
                  py::array_t<double> out, int threads) {
    const Points all = points(x), map = points(L);
    const auto from = elements<double>(origin, all.cols(), "origin");
    const View<double> result = writable<double>(out);
    const Control run = control(threads);
    const Released release;
    kernels().points.embed(all, map, from, result, run);
}

void paired(const py::array &x, const py::array &y, const py::object &pairs, const py::object &U,
            const py::object &V, bool squared, py::array out, int threads) {
    const Maps given = maps(U, V);
    const Points left = points(x), right = points(y);
    const Index count = out.size();
    const PairList list{elements<std::int64_t>(pairs, 2 * count, "pairs"), count};
    by_precision(out, [&](auto zero) {
        using T = decltype(zero);
        const Span<T> result = writable_elements<T>(out, count, "out");
        const Control run = control(threads);
        const Released release;
        kernels().of<T>().search.paired_distances(left, right, list, given, squared, result, run);
    });
}

} // namespace

void register_distance(py::module_ &m) {
    m.def("default_threads", [] { return kernels().threads.default_threads(); });
    m.def("available_cpus", [] { return kernels().threads.available_cpus(); });
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
