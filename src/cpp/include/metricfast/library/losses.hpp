/// Losses of embedded points and their gradients in the compiled library.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "metricfast/engine/types.hpp"
#include "metricfast/library/kernel.hpp"
#include "metricfast/losses/types.hpp"

namespace metricfast {

/// Reusable memory for evaluations. Several threads may share a workspace.
class Workspace {
  public:
    virtual ~Workspace() = default;
};

// The members of LossKernels. Those of the second list have the arguments labels and settings.
#define METRICFAST_LOSS_KERNELS(DO)                                                                \
    DO(value_and_gradient)                                                                         \
    DO(dense_weights)                                                                              \
    DO(sparse_weights)                                                                             \
    DO(contrastive)                                                                                \
    DO(contrastive_of_tags)                                                                        \
    DO(of_tags)                                                                                    \
    DO(mlkr)                                                                                       \
    DO(compiled)                                                                                   \
    METRICFAST_LABEL_LOSSES(DO)
#define METRICFAST_LABEL_LOSSES(DO)                                                                \
    DO(nca)                                                                                        \
    DO(mcml)                                                                                       \
    DO(ldml)                                                                                       \
    DO(triplet)                                                                                    \
    DO(softplus_pairs)                                                                             \
    DO(supcon)                                                                                     \
    DO(ntxent)                                                                                     \
    DO(lifted)                                                                                     \
    DO(lmnn)                                                                                       \
    DO(lmnn_push)                                                                                  \
    DO(circle)                                                                                     \
    DO(smooth_ap)                                                                                  \
    DO(recall_at_k)                                                                                \
    DO(log_ratio)                                                                                  \
    DO(plain_ratio)                                                                                \
    DO(bounded_ratio)                                                                              \
    DO(dense_triplet)                                                                              \
    DO(rank_n_contrast)

template <class T> struct LossKernels {
    using Precision = T;
    using Made = std::unique_ptr<Loss<T>>;

    /// Returns the value of a loss and writes its gradient by the embedded points.
    /// \param gradient the gradient by the queries; for a symmetric problem, by the points in both
    ///   roles.
    /// \param database_gradient not written for a symmetric problem.
    Kernel<RowTotals(const RowProblem<T> &problem, const Loss<T> &loss, View<T> gradient,
                     View<T> database_gradient, const Control &control, Workspace *workspace)>
        value_and_gradient;

    // Losses with given derivatives by squared distances, for all pairs or for listed pairs.
    Kernel<Made(View<const T> weights)> dense_weights;
    Kernel<Made(Codes row_starts, Span<const T> weights)> sparse_weights;

    // Losses of classes.
    Kernel<Made(ClassLabels labels, const NcaSettings &settings)> nca;
    Kernel<Made(ClassLabels labels, Weights column_weights)> mcml;
    Kernel<Made(ClassLabels labels, Weights column_weights, double bias,
                Span<double> bias_gradient)>
        ldml;
    Kernel<Made(ClassLabels labels, const TripletSettings &settings)> triplet;
    /// \param mean over "all" or "active" pairs of each kind, or "" for sums.
    Kernel<Made(ClassLabels labels, const ContrastiveSettings &settings, const std::string &mean,
                const RowProblem<T> &problem, const Control &control)>
        contrastive;
    Kernel<Made(ClassLabels labels, Weights column_weights, const SoftplusSettings &settings)>
        softplus_pairs;
    Kernel<Made(ClassLabels labels, double temperature)> supcon, ntxent, smooth_ap;
    Kernel<Made(ClassLabels labels, const LiftedSettings &settings)> lifted;
    Kernel<Made(ClassLabels labels, const LmnnSettings &settings)> lmnn;
    Kernel<Made(ClassLabels labels, const LmnnPushSettings &settings)> lmnn_push;
    Kernel<Made(ClassLabels labels, double margin, double gamma)> circle;
    Kernel<Made(ClassLabels labels, const std::vector<double> &k, double temperature,
                double rank_temperature)>
        recall_at_k;

    /// Applies a loss of classes to tags. \param make returns the loss of given classes. It is
    /// called for each anchor, by several threads at once.
    Kernel<Made(const Tags &tags, std::function<Made(ClassLabels)> make)> of_tags;
    Kernel<Made(const Tags &tags, const ContrastiveSettings &settings, const std::string &mean,
                const RowProblem<T> &problem, const Control &control)>
        contrastive_of_tags;

    // Losses of continuous labels.
    Kernel<Made(View<const double> queries, View<const double> database, Weights column_weights,
                bool squared)>
        mlkr;
    Kernel<Made(const LabelPairs &labels, const RatioSettings &settings)> log_ratio, plain_ratio,
        bounded_ratio;
    Kernel<Made(const LabelPairs &labels, const TripletSettings &settings)> dense_triplet;
    Kernel<Made(const LabelPairs &labels, double temperature)> rank_n_contrast;

    /// Returns a user-defined loss. The labels are copied.
    Kernel<Made(metricfast_row_function function, void *data, RowKind kind,
                const std::vector<double> &labels, const std::vector<double> &database_labels)>
        compiled;
};

// The members of LossTools.
#define METRICFAST_LOSS_TOOLS(DO)                                                                  \
    DO(workspace)                                                                                  \
    DO(cosent)

/// Functions that do not depend on the precision of points.
struct LossTools {
    Kernel<std::unique_ptr<Workspace>()> workspace;
    /// Returns the CoSENT loss of pairs with given similarities. \param weights the derivatives,
    /// written.
    /// \param log_weights null for equal weights.
    Kernel<RowTotals(Span<const double> similarities, Span<const double> scores, double scale,
                     Span<double> weights, double rounding, Span<const double> log_weights)>
        cosent;
};

} // namespace metricfast
