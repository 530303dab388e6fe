/// Groups of kernels of a level. Each is one file of this folder. Some files are compiled as one
/// unit, so names in their anonymous namespaces must differ.
#pragma once

#include "c/functions.hpp"
#include "metricfast/core/config.hpp"
#include "metricfast/library.hpp"
#include "products.hpp"

METRICFAST_NAMESPACE_BEGIN

const PointKernels &point_kernels();
const LossTools &loss_tools();
std::unique_ptr<Workspace> make_workspace();
const ConstraintKernels &constraint_kernels();
const ModelKernels &model_kernels();
const LevelFunctions &c_functions();
template <class T> const SearchKernels<T> &search_kernels();
template <class T> const LossKernels<T> &loss_kernels();
template <class T>
RowTotals run_engine(const RowProblem<T> &problem, const Loss<T> &loss, View<T> gradient,
                     View<T> database_gradient, const Control &control, Workspace *workspace);
template <class T> const EmbeddingKernels<T> &embedding_kernels();
template <class T> const TripletKernels<T> &triplet_kernels();

METRICFAST_NAMESPACE_END
