/// The losses of the row engine, and functions that do not depend on the precision.
#include "areas.hpp"
#include "metricfast/losses/circle.hpp"
#include "metricfast/losses/class_forms.hpp"
#include "metricfast/losses/compiled.hpp"
#include "metricfast/losses/contrastive.hpp"
#include "metricfast/losses/cosent.hpp"
#include "metricfast/losses/dense_triplet.hpp"
#include "metricfast/losses/given.hpp"
#include "metricfast/losses/ldml.hpp"
#include "metricfast/losses/lmnn.hpp"
#include "metricfast/losses/log_ratio.hpp"
#include "metricfast/losses/mcml.hpp"
#include "metricfast/losses/mlkr.hpp"
#include "metricfast/losses/nca.hpp"
#include "metricfast/losses/ntxent.hpp"
#include "metricfast/losses/rank_n_contrast.hpp"
#include "metricfast/losses/soft_ranks.hpp"
#include "metricfast/losses/tags.hpp"
#include "metricfast/losses/triplet.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace {

template <class T> using Made = std::unique_ptr<Loss<T>>;

void require_positive(double value, const char *name) {
    require(value > 0 && std::isfinite(value), std::string(name) + " must be above 0 and finite");
}

void require_finite(double value, const char *name) {
    require(std::isfinite(value), std::string(name) + " must be finite");
}

void require_ratio(const RatioSettings &settings) {
    require(settings.eps_distance >= 0 && std::isfinite(settings.eps_distance) &&
                settings.eps_log >= 0 && std::isfinite(settings.eps_log),
            "eps_distance and eps_log must be finite and not negative");
}

void check(const ContrastiveSettings &settings, const std::string &mean) {
    require_finite(settings.positive_margin, "positive_margin");
    require_finite(settings.negative_margin, "negative_margin");
    require(mean.empty() || mean == "all" || mean == "active",
            "mean must be all, active or empty, got " + mean);
}

} // namespace

namespace level {

RowTotals cosent(Span<const double> similarities, Span<const double> scores, double scale,
                 Span<double> weights, double rounding, Span<const double> log_weights) {
    const Index n = similarities.size();
    require(scores.size() == n && weights.size() == n &&
                (log_weights == nullptr || log_weights.size() == n),
            "cosent: similarities, scores and weights must have the same length");
    RowTotals totals;
    std::int64_t terms = 0;
    totals.value = metricfast::cosent(similarities.data(), scores.data(), n, scale, weights.data(),
                                      &terms, rounding, log_weights.data());
    totals.terms = static_cast<Index>(terms);
    return totals;
}

template <class T> Made<T> dense_weights(View<const T> weights) {
    return std::make_unique<DenseWeightsLoss<T>>(weights);
}

template <class T> Made<T> sparse_weights(Codes row_starts, Span<const T> weights) {
    return std::make_unique<SparseWeightsLoss<T>>(row_starts, weights);
}

template <class T> Made<T> nca(ClassLabels labels, const NcaSettings &settings) {
    using Nca = NcaLoss<T>;
    return std::make_unique<Nca>(settings.log_form ? Nca::Form::log : Nca::Form::sum, labels,
                                 settings.column_weights, settings.squared);
}

template <class T> Made<T> mcml(ClassLabels labels, Weights columns) {
    return std::make_unique<McmlLoss<T>>(labels, columns);
}

template <class T>
Made<T> ldml(ClassLabels labels, Weights columns, double bias, Span<double> bias_gradient) {
    require_finite(bias, "bias");
    return std::make_unique<LdmlLoss<T>>(bias, bias_gradient, labels, columns);
}

template <class T> Made<T> triplet(ClassLabels labels, const TripletSettings &settings) {
    require_finite(settings.margin, "margin");
    return std::make_unique<TripletLoss<T>>(settings, labels);
}

template <class T>
Made<T> contrastive(ClassLabels labels, const ContrastiveSettings &settings,
                    const std::string &mean, const RowProblem<T> &problem, const Control &control) {
    check(settings, mean);
    auto loss = std::make_unique<ContrastiveLoss<T>>(settings, labels);
    if (mean == "all")
        loss->set_divisors(loss->all_pairs(problem));
    else if (mean == "active")
        loss->set_divisors(loss->active_pairs(problem, control));
    return loss;
}

template <class T>
Made<T> softplus_pairs(ClassLabels labels, Weights columns, const SoftplusSettings &settings) {
    require_positive(settings.alpha, "alpha");
    require_positive(settings.beta, "beta");
    require_finite(settings.base_positive, "base_positive");
    require_finite(settings.base_negative, "base_negative");
    require_finite(settings.f_positive, "f_positive");
    require_finite(settings.f_negative, "f_negative");
    return std::make_unique<TwoSidedLoss<T>>(SoftplusForm(settings), RowKind::inner_product, labels,
                                             columns);
}

template <class T> Made<T> supcon(ClassLabels labels, double temperature) {
    require_positive(temperature, "temperature");
    return std::make_unique<TwoSidedLoss<T>>(SupConForm(temperature), RowKind::inner_product,
                                             labels);
}

template <class T> Made<T> ntxent(ClassLabels labels, double temperature) {
    require_positive(temperature, "temperature");
    return std::make_unique<NtxentLoss<T>>(temperature, labels);
}

template <class T> Made<T> lifted(ClassLabels labels, const LiftedSettings &settings) {
    require_finite(settings.positive_margin, "positive_margin");
    require_finite(settings.negative_margin, "negative_margin");
    return std::make_unique<TwoSidedLoss<T>>(
        LiftedForm(settings.positive_margin, settings.negative_margin),
        settings.squared ? RowKind::squared_distance : RowKind::distance, labels);
}

template <class T> Made<T> lmnn(ClassLabels labels, const LmnnSettings &settings) {
    return std::make_unique<LmnnLoss<T>>(settings, labels);
}

template <class T> Made<T> lmnn_push(ClassLabels, const LmnnPushSettings &settings) {
    return std::make_unique<LmnnPushLoss<T>>(settings);
}

template <class T> Made<T> circle(ClassLabels labels, double margin, double gamma) {
    require_finite(margin, "margin");
    require_positive(gamma, "gamma");
    return std::make_unique<CircleLoss<T>>(margin, gamma, labels);
}

template <class T> Made<T> smooth_ap(ClassLabels labels, double temperature) {
    require_positive(temperature, "temperature");
    return std::make_unique<SoftRankLoss<T>>(PrecisionForm{}, temperature, labels);
}

template <class T>
Made<T> recall_at_k(ClassLabels labels, const std::vector<double> &k, double temperature,
                    double rank_temperature) {
    require_positive(temperature, "temperature");
    require_positive(rank_temperature, "rank_temperature");
    require(!k.empty(), "k must have an entry");
    for (const double each : k)
        require_positive(each, "k");
    return std::make_unique<SoftRankLoss<T>>(RecallForm{k, rank_temperature}, temperature, labels);
}

template <class T> Made<T> of_tags(const Tags &tags, std::function<Made<T>(ClassLabels)> make) {
    return std::make_unique<TagLoss<T>>(tags, std::move(make));
}

template <class T>
Made<T> contrastive_of_tags(const Tags &tags, const ContrastiveSettings &settings,
                            const std::string &mean, const RowProblem<T> &problem,
                            const Control &control) {
    check(settings, mean);
    typename ContrastiveLoss<T>::Pairs by{1, 1};
    if (mean == "all" || mean == "active")
        by = contrastive_pairs(tags, settings, mean == "active", problem, control);
    return level::of_tags<T>(tags, [settings, by](ClassLabels labels) {
        auto loss = std::make_unique<ContrastiveLoss<T>>(settings, labels);
        loss->set_divisors(by);
        return loss;
    });
}

template <class T>
Made<T> mlkr(View<const double> queries, View<const double> database, Weights columns,
             bool squared) {
    return std::make_unique<MlkrLoss<T>>(queries, database, columns, squared);
}

template <class T> Made<T> log_ratio(const LabelPairs &labels, const RatioSettings &settings) {
    require_ratio(settings);
    return std::make_unique<LogRatioLoss<T>>(settings, LabelDistances(labels));
}

template <class T> Made<T> plain_ratio(const LabelPairs &labels, const RatioSettings &settings) {
    require_ratio(settings);
    return std::make_unique<PlainRatioLoss<T>>(settings, LabelDistances(labels));
}

template <class T> Made<T> bounded_ratio(const LabelPairs &labels, const RatioSettings &settings) {
    require_ratio(settings);
    return std::make_unique<BoundedRatioLoss<T>>(settings, LabelDistances(labels));
}

template <class T>
Made<T> dense_triplet(const LabelPairs &labels, const TripletSettings &settings) {
    require_finite(settings.margin, "margin");
    return std::make_unique<DenseTripletLoss<T>>(settings, LabelDistances(labels));
}

template <class T> Made<T> rank_n_contrast(const LabelPairs &labels, double temperature) {
    require_positive(temperature, "temperature");
    return std::make_unique<RankNContrastLoss<T>>(temperature, LabelDistances(labels));
}

template <class T>
Made<T> compiled(metricfast_row_function function, void *data, RowKind kind,
                 const std::vector<double> &labels, const std::vector<double> &database_labels) {
    require(function != nullptr, "compiled: function must not be null");
    return std::make_unique<CompiledLoss<T>>(function, data, kind, labels, database_labels);
}

} // namespace level

METRICFAST_TABLE(LossTools, METRICFAST_LOSS_TOOLS, loss_tools)
METRICFAST_TABLE_OF_T(LossKernels, METRICFAST_LOSS_KERNELS, loss_kernels)

METRICFAST_NAMESPACE_END
