#include "common.hpp"
#include "engine_call.hpp"
#include "metricfast/losses/cosent.hpp"
#include "metricfast/losses/log_ratio.hpp"
#include "metricfast/losses/rank_n_contrast.hpp"
#include "metricfast/losses/triplet.hpp"

namespace metricfast::python {

namespace {

/// A call of a loss of continuous labels.
struct LabelCall : Call {
    std::string metric; ///< of the labels; else they are the distances themselves
    py::array query_labels;
    py::array database_labels;
    py::object anchor_weights;

    LabelDistances labels() const {
        using Metric = LabelDistances::Metric;
        if (metric == "precomputed")
            return LabelDistances(matrix<double>(query_labels));
        return {metric == "sqeuclidean" ? Metric::sqeuclidean
                : metric == "euclidean" ? Metric::euclidean
                                        : Metric::cityblock,
                matrix<double>(query_labels), matrix<double>(database_labels)};
    }
    Codes left_out() const { return elements<std::int64_t>(exclude, n(), "exclude"); }
    Weights weights() const { return elements<double>(anchor_weights, n(), "sample_weight"); }
};

py::tuple ratio(LabelCall &call, const std::string &form, bool squared, bool drop_ties,
                double eps_distance, double eps_log) {
    return by_precision(call.queries, [&](auto zero) {
        using T = decltype(zero);
        const RatioSettings settings{squared, drop_ties, eps_distance, eps_log};
        if (form == "logarithm")
            return call.run<T>(
                LogRatioLoss<T>(settings, call.labels(), call.left_out(), call.weights()));
        if (form == "bounded")
            return call.run<T>(
                BoundedRatioLoss<T>(settings, call.labels(), call.left_out(), call.weights()));
        return call.run<T>(
            PlainRatioLoss<T>(settings, call.labels(), call.left_out(), call.weights()));
    });
}

py::tuple dense_triplet(LabelCall &call, double margin, const std::string &mining, bool squared) {
    return by_precision(call.queries, [&](auto zero) {
        using T = decltype(zero);
        return call.run<T>(DenseTripletLoss<T>({margin, mining_named(mining), squared},
                                               call.labels(), call.left_out(), call.weights()));
    });
}

py::tuple rank_n_contrast(LabelCall &call, double temperature) {
    return by_precision(call.queries, [&](auto zero) {
        using T = decltype(zero);
        return call.run<T>(
            RankNContrastLoss<T>(temperature, call.labels(), call.left_out(), call.weights()));
    });
}

template <class... Parameters>
void add_label_loss(py::module_ &m, const char *name,
                    py::tuple (*loss)(LabelCall &, Parameters...)) {
    m.def(name, [loss](py::array q, py::object d, py::object exclude, std::string reduction,
                       py::array gq, py::object gd, int threads, std::string metric, py::array yq,
                       py::array yd, py::object sq, Parameters... parameters) {
        LabelCall call{{q, d, exclude, py::none(), py::none(), reduction, gq, gd, threads},
                       metric,
                       yq,
                       yd,
                       sq};
        return loss(call, parameters...);
    });
}

} // namespace

void register_label_losses(py::module_ &m) {
    add_label_loss(m, "ratio", ratio);
    add_label_loss(m, "dense_triplet", dense_triplet);
    add_label_loss(m, "rank_n_contrast", rank_n_contrast);
    m.def("cosent", [](py::array similarities, py::array scores, double rounding, double scale,
                       py::array weights) {
        const Index n = similarities.size();
        const auto s = elements<double>(similarities, n, "similarities");
        const auto y = elements<double>(scores, n, "scores");
        const auto w = writable_elements<double>(weights, n, "weights");
        std::int64_t terms = 0;
        double value = 0;
        {
            const py::gil_scoped_release release;
            value = cosent(s.data(), y.data(), n, scale, w.data(), &terms, rounding);
        }
        return py::make_tuple(value, terms);
    });
}

} // namespace metricfast::python
