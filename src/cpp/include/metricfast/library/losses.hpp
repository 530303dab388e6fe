/// Losses of embedded points and their gradients in the compiled library.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "metricfast/core/control.hpp"
#include "metricfast/engine/types.hpp"
#include "metricfast/losses/types.hpp"

namespace metricfast {

/// Reusable memory for evaluations. Several threads may share a workspace.
class Workspace {
  public:
    virtual ~Workspace() = default;
};

template <class T> class LossKernels {
  public:
    using Precision = T;
    using Made = std::unique_ptr<Loss<T>>;
    virtual ~LossKernels() = default;

    /// Returns the value of a loss and writes its gradient by the embedded points.
    /// \param gradient the gradient by the queries; for a symmetric problem, by the points in both
    ///   roles.
    /// \param database_gradient not written for a symmetric problem.
    virtual RowTotals value_and_gradient(const RowProblem<T> &problem, const Loss<T> &loss,
                                         View<T> gradient, View<T> database_gradient,
                                         const Control &control = {},
                                         Workspace *workspace = nullptr) const = 0;

    // Losses with given derivatives by squared distances, for all pairs or for listed pairs.
    virtual Made dense_weights(View<const T> weights) const = 0;
    virtual Made sparse_weights(Codes row_starts, Span<const T> weights) const = 0;

    // Losses of classes.
    virtual Made nca(ClassLabels labels, const NcaSettings &settings = {},
                     Weights column_weights = nullptr) const = 0;
    virtual Made mcml(ClassLabels labels, Weights column_weights) const = 0;
    virtual Made ldml(ClassLabels labels, Weights column_weights, double bias,
                      Span<double> bias_gradient) const = 0;
    virtual Made triplet(ClassLabels labels, const TripletSettings &settings) const = 0;
    /// \param mean over "all" or "active" pairs of each kind, or "" for sums.
    virtual Made contrastive(ClassLabels labels, const ContrastiveSettings &settings,
                             const std::string &mean, const RowProblem<T> &problem,
                             const Control &control = {}) const = 0;
    virtual Made softplus_pairs(ClassLabels labels, Weights column_weights,
                                const SoftplusSettings &settings) const = 0;
    virtual Made supcon(ClassLabels labels, double temperature) const = 0;
    virtual Made ntxent(ClassLabels labels, double temperature) const = 0;
    virtual Made lifted(ClassLabels labels, const LiftedSettings &settings) const = 0;
    virtual Made lmnn(ClassLabels labels, const LmnnSettings &settings) const = 0;
    virtual Made circle(ClassLabels labels, double margin, double gamma) const = 0;
    virtual Made smooth_ap(ClassLabels labels, double temperature) const = 0;
    virtual Made recall_at_k(ClassLabels labels, std::vector<double> k, double temperature,
                             double rank_temperature) const = 0;

    /// Applies a loss of classes to tags. \param make returns the loss of given classes. It is
    /// called for each anchor, by several threads at once.
    virtual Made of_tags(const Tags &tags, std::function<Made(ClassLabels)> make) const = 0;
    /// \param mean over "all" or "active" pairs of each kind, or "" for sums.
    virtual Made contrastive(const Tags &tags, const ContrastiveSettings &settings,
                             const std::string &mean, const RowProblem<T> &problem,
                             const Control &control = {}) const = 0;

    // Losses of continuous labels.
    virtual Made mlkr(View<const double> queries, View<const double> database,
                      Weights column_weights, bool squared) const = 0;
    virtual Made log_ratio(const LabelPairs &labels, const RatioSettings &settings) const = 0;
    virtual Made plain_ratio(const LabelPairs &labels, const RatioSettings &settings) const = 0;
    virtual Made bounded_ratio(const LabelPairs &labels, const RatioSettings &settings) const = 0;
    virtual Made dense_triplet(const LabelPairs &labels, const TripletSettings &settings) const = 0;
    virtual Made rank_n_contrast(const LabelPairs &labels, double temperature) const = 0;

    /// Returns a user-defined loss. The labels are copied.
    virtual Made compiled(metricfast_row_function function, void *data, RowKind kind,
                          std::vector<double> labels,
                          std::vector<double> database_labels) const = 0;
};

/// Functions that do not depend on the precision of points.
class LossTools {
  public:
    virtual ~LossTools() = default;

    virtual std::unique_ptr<Workspace> workspace() const = 0;
    /// Returns the CoSENT loss of pairs with given similarities. \param weights the derivatives,
    /// written.
    /// \param log_weights empty for equal weights.
    virtual double cosent(Span<const double> similarities, Span<const double> scores, double scale,
                          Span<double> weights, std::int64_t &terms, double rounding,
                          Span<const double> log_weights = {}) const = 0;
};

} // namespace metricfast
