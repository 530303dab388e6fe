#include <memory>

#include "arrays.hpp"
#include "common.hpp"
#include "metricfast/distance/database.hpp"

namespace metricfast::python {

namespace {

/// A database that keeps what it refers to, and memory for as many searches as there have been at
/// a time.
class SharedDatabase {
  public:
    SharedDatabase(py::array points_, const py::object &U, const py::object &V, bool integers,
                   int threads)
        : source_(std::move(points_)), maps_(U, V) {
        const Points raw = points(source_);
        const Control run = control(threads);
        const py::gil_scoped_release release;
        if (maps_.any()) {
            origin_ = embedding_origin(raw, maps_.query, maps_.of_database());
            embedded_ = embed_finite(raw, maps_.of_database(), origin_, run);
        }
        database_ = std::make_unique<Database>(maps_.any() ? Points(view(embedded_)) : raw,
                                               DatabaseOptions{true, integers}, run);
    }

    void search(const py::array &x, Index k, const py::object &exclude, bool squared,
                py::array distances, py::array indices, int threads) const {
        const Points queries = points(x);
        const auto excluded = elements<std::int64_t>(exclude, queries.rows(), "exclude");
        const View<std::int64_t> rows = writable<std::int64_t>(indices);
        by_precision(distances, [&](auto zero) {
            using T = decltype(zero);
            const View<T> result = writable<T>(distances);
            const Control run = control(threads);
            const py::gil_scoped_release release;
            RowMatrix<double> z;
            if (maps_.any())
                z = embed_finite(queries, maps_.query, origin_, run);
            auto memory = borrow();
            database_->search<T>(maps_.any() ? Points(view(z)) : queries, k, excluded, squared,
                                 result, rows, *memory, run);
            give_back(std::move(memory));
        });
    }

    std::string route() const {
        switch (database_->route()) {
        case SearchRoute::tree:
            return "tree";
        case SearchRoute::integers:
            return "int8";
        default:
            return "float32";
        }
    }
    std::size_t bytes() const {
        return database_->bytes() + sizeof(double) * static_cast<std::size_t>(embedded_.size());
    }

  private:
    std::unique_ptr<DatabaseMemory> borrow() const {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (memories_.empty())
            return std::make_unique<DatabaseMemory>();
        auto memory = std::move(memories_.back());
        memories_.pop_back();
        return memory;
    }
    void give_back(std::unique_ptr<DatabaseMemory> memory) const {
        const std::lock_guard<std::mutex> lock(mutex_);
        memories_.push_back(std::move(memory));
    }

    py::array source_;
    Maps maps_;
    std::vector<double> origin_;
    RowMatrix<double> embedded_;
    std::unique_ptr<Database> database_;
    mutable std::mutex mutex_;
    mutable std::vector<std::unique_ptr<DatabaseMemory>> memories_;
};

} // namespace

void register_database(py::module_ &m) {
    py::class_<SharedDatabase>(m, "PreparedDatabase", py::module_local())
        .def("search", &SharedDatabase::search)
        .def("route", &SharedDatabase::route)
        .def("bytes", &SharedDatabase::bytes);
    m.def("prepare_database", [](py::array points, const py::object &U, const py::object &V,
                                 bool integers, int threads) {
        return std::make_unique<SharedDatabase>(std::move(points), U, V, integers, threads);
    });
}

} // namespace metricfast::python
