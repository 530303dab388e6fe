/// Groups of kernels of a level. Each is one file of this folder. Some files are compiled as one
/// unit, so names in their anonymous namespaces must differ.
#pragma once

#include "c/functions.hpp"
#include "metricfast/core/config.hpp"
#include "metricfast/library.hpp"
#include "products.hpp"

// Defines `const Table &function()`, and of T `function<T>()`: the members of LIST are the
// functions of these names in the namespace `level`, else in `metricfast`.
#define METRICFAST_TABLE(Table, LIST, function)                                                    \
    const Table &function() { METRICFAST_FILLED(Table, LIST, METRICFAST_ENTER) }
#define METRICFAST_TABLE_OF_T(Table, LIST, function)                                               \
    template <class T> const Table<T> &function() {                                                \
        METRICFAST_FILLED(Table<T>, LIST, METRICFAST_ENTER_OF_T)                                   \
    }                                                                                              \
    template const Table<float> &function();                                                       \
    template const Table<double> &function();
#define METRICFAST_FILLED(Table, LIST, ENTER)                                                      \
    static const Table table = [] {                                                                \
        Table kernels;                                                                             \
        LIST(ENTER)                                                                                \
        static_assert(sizeof kernels == (LIST(METRICFAST_COUNT)) * sizeof(Kernel<void()>),         \
                      "the list must name every member");                                          \
        return kernels;                                                                            \
    }();                                                                                           \
    return table;
#define METRICFAST_ENTER(name) kernels.name = &level::name;
#define METRICFAST_ENTER_OF_T(name) kernels.name = &level::name<T>;
#define METRICFAST_COUNT(name) +1

METRICFAST_NAMESPACE_BEGIN

namespace level {
using namespace metricfast;

// The row engine.
std::unique_ptr<Workspace> workspace();
template <class T>
RowTotals value_and_gradient(const RowProblem<T> &problem, const Loss<T> &loss, View<T> gradient,
                             View<T> database_gradient, const Control &control,
                             Workspace *workspace);
} // namespace level

const ThreadKernels &thread_kernels();
const PointKernels &point_kernels();
const LossTools &loss_tools();
const ConstraintKernels &constraint_kernels();
const ModelKernels &model_kernels();
const LevelFunctions &c_functions();
template <class T> const SearchKernels<T> &search_kernels();
template <class T> const DatabaseKernels<T> &database_kernels();
/// Calls the last argument with the images of queries.
using Embed = std::function<void(const Points &queries, const Control &control,
                                 const std::function<void(const Points &)> &search)>;
/// Prepares images of points.
/// \param held owns the images, of this size.
std::unique_ptr<SearchDatabase> prepare_images(const Points &images, DatabaseOptions options,
                                               std::shared_ptr<const void> held, std::size_t bytes,
                                               Embed embed, const Control &control);
template <class T> const LossKernels<T> &loss_kernels();
template <class T> const EmbeddingKernels<T> &embedding_kernels();
template <class T> const TripletKernels<T> &triplet_kernels();

METRICFAST_NAMESPACE_END
