#include "common.hpp"
#include "engine_call.hpp"
#include "metricfast/losses/circle.hpp"
#include "metricfast/losses/class_forms.hpp"
#include "metricfast/losses/compiled.hpp"
#include "metricfast/losses/contrastive.hpp"
#include "metricfast/losses/cosent.hpp"
#include "metricfast/losses/dense_triplet.hpp"
#include "metricfast/losses/ldml.hpp"
#include "metricfast/losses/lmnn.hpp"
#include "metricfast/losses/log_ratio.hpp"
#include "metricfast/losses/mcml.hpp"
#include "metricfast/losses/mlkr.hpp"
#include "metricfast/losses/nca.hpp"
#include "metricfast/losses/ntxent.hpp"
#include "metricfast/losses/rank_n_contrast.hpp"
#include "metricfast/losses/soft_ranks.hpp"
#include "metricfast/losses/triplet.hpp"

namespace metricfast::python {

namespace {

/// Losses to which every column of a row contributes, and may have a weight.
void register_all_pairs(py::module_ &m) {
    add_loss<bool, bool>(
        m, "nca",
        [](Call &call, auto zero, bool log_form, bool squared) {
            using Loss = NcaLoss<decltype(zero)>;
            return Loss(log_form ? Loss::Form::log : Loss::Form::sum, call.classes(),
                        call.column_weights(), squared);
        },
        "log_form", "squared");
    add_loss(m, "mcml", [](Call &call, auto zero) {
        return McmlLoss<decltype(zero)>(call.classes(), call.column_weights());
    });
    add_loss<bool>(
        m, "mlkr",
        [](Call &call, auto zero, bool squared) {
            const auto [queries, database] = call.target_rows();
            return MlkrLoss<decltype(zero)>(queries, database, call.column_weights(), squared);
        },
        "squared");
    add_loss<double, py::array>(
        m, "ldml",
        [](Call &call, auto zero, double bias, py::array gradient) {
            return LdmlLoss<decltype(zero)>(
                bias, writable_elements<double>(gradient, call.n(), "bias_gradient"),
                call.classes(), call.column_weights());
        },
        "bias", "bias_gradient");
}

void register_class_losses(py::module_ &m) {
    add_loss<double, std::string, bool>(
        m, "triplet",
        [](Call &call, auto zero, double margin, const std::string &mining, bool squared) {
            return TripletLoss<decltype(zero)>({margin, mining_named(mining), squared},
                                               call.classes());
        },
        "margin", "mining", "squared");
    // The mean over "all" or "active" pairs of each kind, or "" for sums.
    add_loss<double, double, bool, std::string>(
        m, "contrastive",
        [](Call &call, auto zero, double positive, double negative, bool squared_hinge,
           const std::string &mean) {
            using T = decltype(zero);
            ContrastiveLoss<T> loss({positive, negative, squared_hinge}, call.classes());
            call.set_reduction("sum");
            const RowProblem<T> problem = call.problem<T>();
            const Control how = call.control();
            const Released release;
            if (mean == "all")
                loss.set_divisors(loss.all_pairs(problem));
            else if (mean == "active")
                loss.set_divisors(loss.active_pairs(problem, how));
            return loss;
        },
        "positive_margin", "negative_margin", "squared_hinge", "mean");
    add_loss<double, double, double, double, double, double>(
        m, "softplus_pairs",
        [](Call &call, auto zero, double alpha, double base_positive, double f_positive,
           double beta, double base_negative, double f_negative) {
            return TwoSidedLoss<decltype(zero), SoftplusForm>(
                {alpha, base_positive, f_positive, beta, base_negative, f_negative},
                RowKind::inner_product, call.classes(), call.column_weights());
        },
        "alpha", "base_positive", "f_positive", "beta", "base_negative", "f_negative");
    add_loss<double>(
        m, "supcon",
        [](Call &call, auto zero, double temperature) {
            return TwoSidedLoss<decltype(zero), SupConForm>(SupConForm(temperature),
                                                            RowKind::inner_product, call.classes());
        },
        "temperature");
    add_loss<double>(
        m, "ntxent",
        [](Call &call, auto zero, double temperature) {
            return NtxentLoss<decltype(zero)>(temperature, call.classes());
        },
        "temperature");
    add_loss<double, double, bool>(
        m, "lifted",
        [](Call &call, auto zero, double positive, double negative, bool squared) {
            return TwoSidedLoss<decltype(zero), LiftedForm>(
                {positive, negative}, squared ? RowKind::squared_distance : RowKind::distance,
                call.classes());
        },
        "positive_margin", "negative_margin", "squared");
    add_loss<double, double, py::array, py::object, py::object>(
        m, "lmnn",
        [](Call &call, auto zero, double regularization, double margin, const py::array &targets,
           const py::object &row_starts, const py::object &columns) {
            require(targets.ndim() == 2, "targets must have two dimensions");
            const Index k = targets.shape(1);
            call.list(row_starts, columns);
            return LmnnLoss<decltype(zero)>(regularization, margin,
                                            call.held({targets, call.n() * k, "targets"}), k,
                                            call.classes());
        },
        "regularization", "margin", "targets", "row_starts", "columns");
}

void register_retrieval_losses(py::module_ &m) {
    add_loss<double, double>(
        m, "circle",
        [](Call &call, auto zero, double margin, double gamma) {
            return CircleLoss<decltype(zero)>(margin, gamma, call.classes());
        },
        "margin", "gamma");
    add_loss<double>(
        m, "smooth_ap",
        [](Call &call, auto zero, double temperature) {
            return SoftRankLoss<decltype(zero), PrecisionForm>({}, temperature, call.classes());
        },
        "temperature");
    add_loss<py::array, double, double>(
        m, "recall_at_k",
        [](Call &call, auto zero, const py::array &k, double temperature, double rank_temperature) {
            const auto some = elements<double>(k, k.size(), "k");
            return SoftRankLoss<decltype(zero), RecallForm>(
                {{some.begin(), some.end()}, rank_temperature}, temperature, call.classes());
        },
        "k", "temperature", "rank_temperature");
}

/// `function` and `data` are addresses.
void register_compiled(py::module_ &m) {
    add_loss<std::uintptr_t, std::uintptr_t, std::string>(
        m, "compiled",
        [](Call &call, auto zero, std::uintptr_t function, std::uintptr_t data,
           const std::string &metric) {
            const RowKind kind = metric == "sqeuclidean" ? RowKind::squared_distance
                                 : metric == "euclidean" ? RowKind::distance
                                                         : RowKind::inner_product;
            const auto loss = [&](auto labels) {
                return CompiledLoss<decltype(zero)>(
                    reinterpret_cast<metricfast_row_function>(function),
                    reinterpret_cast<void *>(data), kind,
                    {labels.queries.begin(), labels.queries.end()},
                    {labels.database.begin(), labels.database.end()});
            };
            return call.kind() == "class" ? loss(call.classes()) : loss(call.targets());
        },
        "function", "data", "metric");
}

/// Losses of how far labels are apart.
void register_label_losses(py::module_ &m) {
    const auto add_ratio = [&m](const char *name, auto of) {
        add_loss<bool, bool, double, double>(
            m, name,
            [of](Call &call, auto zero, bool squared, bool drop_ties, double eps_distance,
                 double eps_log) {
                return of(zero, RatioSettings{squared, drop_ties, eps_distance, eps_log},
                          call.distances());
            },
            "squared", "drop_ties", "eps_distance", "eps_log");
    };
    add_ratio("log_ratio", [](auto zero, const RatioSettings &settings, LabelDistances labels) {
        return LogRatioLoss<decltype(zero)>(settings, std::move(labels));
    });
    add_ratio("plain_ratio", [](auto zero, const RatioSettings &settings, LabelDistances labels) {
        return PlainRatioLoss<decltype(zero)>(settings, std::move(labels));
    });
    add_ratio("bounded_ratio", [](auto zero, const RatioSettings &settings, LabelDistances labels) {
        return BoundedRatioLoss<decltype(zero)>(settings, std::move(labels));
    });
    add_loss<double, std::string, bool>(
        m, "dense_triplet",
        [](Call &call, auto zero, double margin, const std::string &mining, bool squared) {
            return DenseTripletLoss<decltype(zero)>({margin, mining_named(mining), squared},
                                                    call.distances());
        },
        "margin", "mining", "squared");
    add_loss<double>(
        m, "rank_n_contrast",
        [](Call &call, auto zero, double temperature) {
            return RankNContrastLoss<decltype(zero)>(temperature, call.distances());
        },
        "temperature");
}

py::tuple cosent_of(const py::array &similarities, const py::array &scores, double rounding,
                    double scale, py::array weights) {
    const Index n = similarities.size();
    const auto s = elements<double>(similarities, n, "similarities");
    const auto y = elements<double>(scores, n, "scores");
    const auto w = writable_elements<double>(weights, n, "weights");
    std::int64_t terms = 0;
    double value = 0;
    {
        const Released release;
        value = cosent(s.data(), y.data(), n, scale, w.data(), &terms, rounding);
    }
    return py::make_tuple(value, terms);
}

} // namespace

void register_losses(py::module_ &m) {
    register_all_pairs(m);
    register_class_losses(m);
    register_label_losses(m);
    register_retrieval_losses(m);
    register_compiled(m);
    m.def("cosent", &cosent_of, py::arg("similarities"), py::arg("scores"), py::kw_only(),
          py::arg("rounding"), py::arg("scale"), py::arg("weights"));
}

} // namespace metricfast::python
