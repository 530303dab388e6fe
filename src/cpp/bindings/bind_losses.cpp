#include "common.hpp"
#include "engine_call.hpp"

namespace metricfast::python {

namespace {

/// Losses in which every column of a row contributes, optionally with a weight.
void register_all_pairs(py::module_ &m) {
    add_loss<bool, bool>(
        m, "nca",
        [](const auto &of, Call &call, bool log_form, bool squared) {
            const Weights columns = call.column_weights();
            const NcaSettings settings{log_form, squared};
            return of_classes(of, call, [&of, columns, settings](ClassLabels labels) {
                return of.nca(labels, settings, columns);
            });
        },
        "log_form", "squared");
    add_loss(m, "mcml", [](const auto &of, Call &call) {
        const Weights columns = call.column_weights();
        return of_classes(of, call,
                          [&of, columns](ClassLabels labels) { return of.mcml(labels, columns); });
    });
    add_loss<bool>(
        m, "mlkr",
        [](const auto &of, Call &call, bool squared) {
            const auto [queries, database] = call.target_rows();
            return of.mlkr(queries, database, call.column_weights(), squared);
        },
        "squared");
    add_loss<double, py::array>(
        m, "ldml",
        [](const auto &of, Call &call, double bias, py::array gradient) {
            const Weights columns = call.column_weights();
            const auto by_bias = writable_elements<double>(gradient, call.n(), "bias_gradient");
            return of_classes(of, call, [&of, columns, bias, by_bias](ClassLabels labels) {
                return of.ldml(labels, columns, bias, by_bias);
            });
        },
        "bias", "bias_gradient");
}

Mining mining_named(const std::string &name) {
    require(name == "all" || name == "semihard" || name == "hardest",
            "triplet: mining must be all, semihard or hardest");
    return name == "all" ? Mining::all : name == "semihard" ? Mining::semihard : Mining::hardest;
}

void register_class_losses(py::module_ &m) {
    add_loss<double, std::string, bool>(
        m, "triplet",
        [](const auto &of, Call &call, double margin, const std::string &mining, bool squared) {
            const TripletSettings settings{margin, mining_named(mining), squared};
            return of_classes(of, call, [&of, settings](ClassLabels labels) {
                return of.triplet(labels, settings);
            });
        },
        "margin", "mining", "squared");
    // `mean`: "all" or "active" for the mean over these pairs of each kind, or "" for the sum.
    add_loss<double, double, bool, std::string>(
        m, "contrastive",
        [](const auto &of, Call &call, double positive, double negative, bool squared_hinge,
           const std::string &mean) {
            using T = typename std::decay_t<decltype(of)>::Precision;
            call.set_reduction("sum");
            const RowProblem<T> problem = call.problem<T>();
            const Control how = call.control();
            const auto make = [&](const auto &labels) {
                const Released release;
                return of.contrastive(labels, {positive, negative, squared_hinge}, mean, problem,
                                      how);
            };
            return call.kind() == "tags" ? make(call.tags()) : make(call.classes());
        },
        "positive_margin", "negative_margin", "squared_hinge", "mean");
    add_loss<double, double, double, double, double, double>(
        m, "softplus_pairs",
        [](const auto &of, Call &call, double alpha, double base_positive, double f_positive,
           double beta, double base_negative, double f_negative) {
            const SoftplusSettings settings{alpha, base_positive, f_positive,
                                            beta,  base_negative, f_negative};
            const Weights columns = call.column_weights();
            return of_classes(of, call, [&of, columns, settings](ClassLabels labels) {
                return of.softplus_pairs(labels, columns, settings);
            });
        },
        "alpha", "base_positive", "f_positive", "beta", "base_negative", "f_negative");
    add_loss<double>(
        m, "supcon",
        [](const auto &of, Call &call, double temperature) {
            return of_classes(of, call, [&of, temperature](ClassLabels labels) {
                return of.supcon(labels, temperature);
            });
        },
        "temperature");
    add_loss<double>(
        m, "ntxent",
        [](const auto &of, Call &call, double temperature) {
            return of_classes(of, call, [&of, temperature](ClassLabels labels) {
                return of.ntxent(labels, temperature);
            });
        },
        "temperature");
    add_loss<double, double, bool>(
        m, "lifted",
        [](const auto &of, Call &call, double positive, double negative, bool squared) {
            const LiftedSettings settings{positive, negative, squared};
            return of_classes(of, call, [&of, settings](ClassLabels labels) {
                return of.lifted(labels, settings);
            });
        },
        "positive_margin", "negative_margin", "squared");
    add_loss<double, double, py::array, py::object, py::object>(
        m, "lmnn",
        [](const auto &of, Call &call, double regularization, double margin,
           const py::array &targets, const py::object &row_starts, const py::object &columns) {
            require(targets.ndim() == 2, "targets must have two dimensions");
            const Index k = targets.shape(1);
            call.list(row_starts, columns);
            const Codes rows = call.held({targets, call.n() * k, "targets"});
            return of.lmnn(call.classes(), {rows, k, regularization, margin});
        },
        "regularization", "margin", "targets", "row_starts", "columns");
}

void register_retrieval_losses(py::module_ &m) {
    add_loss<double, double>(
        m, "circle",
        [](const auto &of, Call &call, double margin, double gamma) {
            return of_classes(of, call, [&of, margin, gamma](ClassLabels labels) {
                return of.circle(labels, margin, gamma);
            });
        },
        "margin", "gamma");
    add_loss<double>(
        m, "smooth_ap",
        [](const auto &of, Call &call, double temperature) {
            return of_classes(of, call, [&of, temperature](ClassLabels labels) {
                return of.smooth_ap(labels, temperature);
            });
        },
        "temperature");
    add_loss<py::array, double, double>(
        m, "recall_at_k",
        [](const auto &of, Call &call, const py::array &k, double temperature,
           double rank_temperature) {
            const auto some = elements<double>(k, k.size(), "k");
            const std::vector<double> counts(some.begin(), some.end());
            return of_classes(
                of, call, [&of, counts, temperature, rank_temperature](ClassLabels labels) {
                    return of.recall_at_k(labels, counts, temperature, rank_temperature);
                });
        },
        "k", "temperature", "rank_temperature");
}

/// `function` and `data` are passed as addresses.
void register_compiled(py::module_ &m) {
    add_loss<std::uintptr_t, std::uintptr_t, std::string>(
        m, "compiled",
        [](const auto &of, Call &call, std::uintptr_t function, std::uintptr_t data,
           const std::string &metric) {
            const RowKind kind = metric == "sqeuclidean" ? RowKind::squared_distance
                                 : metric == "euclidean" ? RowKind::distance
                                                         : RowKind::inner_product;
            const auto loss = [&](auto labels) {
                return of.compiled(reinterpret_cast<metricfast_row_function>(function),
                                   reinterpret_cast<void *>(data), kind,
                                   {labels.queries.begin(), labels.queries.end()},
                                   {labels.database.begin(), labels.database.end()});
            };
            return call.kind() == "class" ? loss(call.classes()) : loss(call.targets());
        },
        "function", "data", "metric");
}

/// Losses that depend on distances between labels.
void register_label_losses(py::module_ &m) {
    const auto add_ratio = [&m](const char *name, auto make) {
        add_loss<bool, bool, double, double>(
            m, name,
            [make](const auto &of, Call &call, bool squared, bool drop_ties, double eps_distance,
                   double eps_log) {
                return make(of, call.distances(),
                            RatioSettings{squared, drop_ties, eps_distance, eps_log});
            },
            "squared", "drop_ties", "eps_distance", "eps_log");
    };
    add_ratio("log_ratio", [](const auto &of, const auto &labels, const auto &settings) {
        return of.log_ratio(labels, settings);
    });
    add_ratio("plain_ratio", [](const auto &of, const auto &labels, const auto &settings) {
        return of.plain_ratio(labels, settings);
    });
    add_ratio("bounded_ratio", [](const auto &of, const auto &labels, const auto &settings) {
        return of.bounded_ratio(labels, settings);
    });
    add_loss<double, std::string, bool>(
        m, "dense_triplet",
        [](const auto &of, Call &call, double margin, const std::string &mining, bool squared) {
            return of.dense_triplet(call.distances(), {margin, mining_named(mining), squared});
        },
        "margin", "mining", "squared");
    add_loss<double>(
        m, "rank_n_contrast",
        [](const auto &of, Call &call, double temperature) {
            return of.rank_n_contrast(call.distances(), temperature);
        },
        "temperature");
}

py::tuple cosent_of(const py::array &similarities, const py::array &scores, double rounding,
                    double scale, py::array weights, const py::object &log_weights) {
    const Index n = similarities.size();
    const auto s = elements<double>(similarities, n, "similarities");
    const auto y = elements<double>(scores, n, "scores");
    const auto w = writable_elements<double>(weights, n, "weights");
    const auto of_pairs = elements<double>(log_weights, n, "log_weights");
    std::int64_t terms = 0;
    double value = 0;
    {
        const Released release;
        value = kernels().losses.cosent(s, y, scale, w, terms, rounding, of_pairs);
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
          py::arg("rounding"), py::arg("scale"), py::arg("weights"), py::arg("log_weights"));
}

} // namespace metricfast::python
