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

class LevelTools final : public LossTools {
  public:
    std::unique_ptr<Workspace> workspace() const override { return make_workspace(); }
    double cosent(Span<const double> similarities, Span<const double> scores, double scale,
                  Span<double> weights, std::int64_t &terms, double rounding,
                  Span<const double> log_weights) const override {
        const Index n = similarities.size();
        require(scores.size() == n && weights.size() == n &&
                    (log_weights == nullptr || log_weights.size() == n),
                "cosent: similarities, scores and weights must have the same length");
        return metricfast::cosent(similarities.data(), scores.data(), n, scale, weights.data(),
                                  &terms, rounding, log_weights.data());
    }
};

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

template <class T> class LevelLosses final : public LossKernels<T> {
    using Made = std::unique_ptr<Loss<T>>;

  public:
    RowTotals value_and_gradient(const RowProblem<T> &problem, const Loss<T> &loss,
                                 View<T> gradient, View<T> database_gradient,
                                 const Control &control, Workspace *workspace) const override {
        return run_engine(problem, loss, gradient, database_gradient, control, workspace);
    }

    Made dense_weights(View<const T> weights) const override {
        return std::make_unique<DenseWeightsLoss<T>>(weights);
    }
    Made sparse_weights(Codes row_starts, Span<const T> weights) const override {
        return std::make_unique<SparseWeightsLoss<T>>(row_starts, weights);
    }

    Made nca(ClassLabels labels, const NcaSettings &settings, Weights columns) const override {
        using Nca = NcaLoss<T>;
        return std::make_unique<Nca>(settings.log_form ? Nca::Form::log : Nca::Form::sum, labels,
                                     columns, settings.squared);
    }
    Made mcml(ClassLabels labels, Weights columns) const override {
        return std::make_unique<McmlLoss<T>>(labels, columns);
    }
    Made ldml(ClassLabels labels, Weights columns, double bias,
              Span<double> bias_gradient) const override {
        require_finite(bias, "bias");
        return std::make_unique<LdmlLoss<T>>(bias, bias_gradient, labels, columns);
    }
    Made triplet(ClassLabels labels, const TripletSettings &settings) const override {
        require_finite(settings.margin, "margin");
        return std::make_unique<TripletLoss<T>>(settings, labels);
    }
    Made contrastive(ClassLabels labels, const ContrastiveSettings &settings,
                     const std::string &mean, const RowProblem<T> &problem,
                     const Control &control) const override {
        check(settings, mean);
        auto loss = std::make_unique<ContrastiveLoss<T>>(settings, labels);
        if (mean == "all")
            loss->set_divisors(loss->all_pairs(problem));
        else if (mean == "active")
            loss->set_divisors(loss->active_pairs(problem, control));
        return loss;
    }
    Made softplus_pairs(ClassLabels labels, Weights columns,
                        const SoftplusSettings &settings) const override {
        require_positive(settings.alpha, "alpha");
        require_positive(settings.beta, "beta");
        require_finite(settings.base_positive, "base_positive");
        require_finite(settings.base_negative, "base_negative");
        require_finite(settings.f_positive, "f_positive");
        require_finite(settings.f_negative, "f_negative");
        return std::make_unique<TwoSidedLoss<T>>(SoftplusForm(settings), RowKind::inner_product,
                                                 labels, columns);
    }
    Made supcon(ClassLabels labels, double temperature) const override {
        require_positive(temperature, "temperature");
        return std::make_unique<TwoSidedLoss<T>>(SupConForm(temperature), RowKind::inner_product,
                                                 labels);
    }
    Made ntxent(ClassLabels labels, double temperature) const override {
        require_positive(temperature, "temperature");
        return std::make_unique<NtxentLoss<T>>(temperature, labels);
    }
    Made lifted(ClassLabels labels, const LiftedSettings &settings) const override {
        require_finite(settings.positive_margin, "positive_margin");
        require_finite(settings.negative_margin, "negative_margin");
        return std::make_unique<TwoSidedLoss<T>>(
            LiftedForm(settings.positive_margin, settings.negative_margin),
            settings.squared ? RowKind::squared_distance : RowKind::distance, labels);
    }
    Made lmnn(ClassLabels labels, const LmnnSettings &settings) const override {
        return std::make_unique<LmnnLoss<T>>(settings, labels);
    }
    Made circle(ClassLabels labels, double margin, double gamma) const override {
        require_finite(margin, "margin");
        require_positive(gamma, "gamma");
        return std::make_unique<CircleLoss<T>>(margin, gamma, labels);
    }
    Made smooth_ap(ClassLabels labels, double temperature) const override {
        require_positive(temperature, "temperature");
        return std::make_unique<SoftRankLoss<T>>(PrecisionForm{}, temperature, labels);
    }
    Made recall_at_k(ClassLabels labels, std::vector<double> k, double temperature,
                     double rank_temperature) const override {
        require_positive(temperature, "temperature");
        require_positive(rank_temperature, "rank_temperature");
        require(!k.empty(), "k must have an entry");
        for (const double each : k)
            require_positive(each, "k");
        return std::make_unique<SoftRankLoss<T>>(RecallForm{std::move(k), rank_temperature},
                                                 temperature, labels);
    }

    Made of_tags(const Tags &tags, std::function<Made(ClassLabels)> make) const override {
        return std::make_unique<TagLoss<T>>(tags, std::move(make));
    }
    Made contrastive(const Tags &tags, const ContrastiveSettings &settings, const std::string &mean,
                     const RowProblem<T> &problem, const Control &control) const override {
        check(settings, mean);
        typename ContrastiveLoss<T>::Pairs by{1, 1};
        if (mean == "all" || mean == "active")
            by = contrastive_pairs(tags, settings, mean == "active", problem, control);
        return of_tags(tags, [settings, by](ClassLabels labels) {
            auto loss = std::make_unique<ContrastiveLoss<T>>(settings, labels);
            loss->set_divisors(by);
            return loss;
        });
    }

    Made mlkr(View<const double> queries, View<const double> database, Weights columns,
              bool squared) const override {
        return std::make_unique<MlkrLoss<T>>(queries, database, columns, squared);
    }
    Made log_ratio(const LabelPairs &labels, const RatioSettings &settings) const override {
        require_ratio(settings);
        return std::make_unique<LogRatioLoss<T>>(settings, LabelDistances(labels));
    }
    Made plain_ratio(const LabelPairs &labels, const RatioSettings &settings) const override {
        require_ratio(settings);
        return std::make_unique<PlainRatioLoss<T>>(settings, LabelDistances(labels));
    }
    Made bounded_ratio(const LabelPairs &labels, const RatioSettings &settings) const override {
        require_ratio(settings);
        return std::make_unique<BoundedRatioLoss<T>>(settings, LabelDistances(labels));
    }
    Made dense_triplet(const LabelPairs &labels, const TripletSettings &settings) const override {
        require_finite(settings.margin, "margin");
        return std::make_unique<DenseTripletLoss<T>>(settings, LabelDistances(labels));
    }
    Made rank_n_contrast(const LabelPairs &labels, double temperature) const override {
        require_positive(temperature, "temperature");
        return std::make_unique<RankNContrastLoss<T>>(temperature, LabelDistances(labels));
    }

    Made compiled(metricfast_row_function function, void *data, RowKind kind,
                  std::vector<double> labels, std::vector<double> database_labels) const override {
        require(function != nullptr, "compiled: function must not be null");
        return std::make_unique<CompiledLoss<T>>(function, data, kind, std::move(labels),
                                                 std::move(database_labels));
    }

  private:
    static void check(const ContrastiveSettings &settings, const std::string &mean) {
        require_finite(settings.positive_margin, "positive_margin");
        require_finite(settings.negative_margin, "negative_margin");
        require(mean.empty() || mean == "all" || mean == "active",
                "mean must be all, active or empty, got " + mean);
    }
};

} // namespace

const LossTools &loss_tools() {
    static const LevelTools tools;
    return tools;
}

template <class T> const LossKernels<T> &loss_kernels() {
    static const LevelLosses<T> kernels;
    return kernels;
}
template const LossKernels<float> &loss_kernels();
template const LossKernels<double> &loss_kernels();

METRICFAST_NAMESPACE_END
