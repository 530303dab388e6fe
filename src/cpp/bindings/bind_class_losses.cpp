#include "common.hpp"
#include "engine_call.hpp"
#include "metricfast/losses/class_forms.hpp"
#include "metricfast/losses/contrastive.hpp"
#include "metricfast/losses/ntxent.hpp"
#include "metricfast/losses/triplet.hpp"

namespace metricfast::python {

namespace {

/// A call of a loss of class labels.
struct ClassCall : Call {
    py::object query_labels, database_labels, anchor_weights;

    Codes y() const { return elements<std::int64_t>(query_labels, n(), "y"); }
    Codes y_database() const { return elements<std::int64_t>(database_labels, m(), "y_database"); }
    Codes left_out() const { return elements<std::int64_t>(exclude, n(), "exclude"); }
    Weights weights() const { return elements<double>(anchor_weights, n(), "sample_weight"); }

    template <class T, class Form>
    py::tuple run_two_sided(const Form &form, typename TwoSidedLoss<T, Form>::Of of,
                            Weights column_weights = nullptr) {
        using Loss = TwoSidedLoss<T, Form>;
        const Loss loss(form, of, y(), y_database(), left_out(), weights(), column_weights);
        return run<T>(loss,
                      of == Loss::Of::inner_product ? RowKind::inner_product : RowKind::distance);
    }
};

py::tuple triplet(ClassCall &call, double margin, const std::string &mining, bool squared) {
    return by_precision(call.queries, [&](auto zero) {
        using T = decltype(zero);
        return call.run<T>(TripletLoss<T>({margin, mining_named(mining), squared}, call.y(),
                                          call.y_database(), call.left_out(), call.weights()));
    });
}

/// \param mean "all" or "active" pairs of a kind are what its sum is divided by; "" for sums.
py::tuple contrastive(ClassCall &call, double positive_margin, double negative_margin,
                      bool squared_hinge, const std::string &mean) {
    return by_precision(call.queries, [&](auto zero) {
        using T = decltype(zero);
        ContrastiveLoss<T> loss({positive_margin, negative_margin, squared_hinge}, call.y(),
                                call.y_database(), call.left_out(), call.weights());
        if (!mean.empty()) {
            const View<const T> queries = matrix<T>(call.queries);
            const View<const T> database =
                call.database.is_none() ? queries : matrix<T>(py::cast<py::array>(call.database));
            const Control how = control(call.threads);
            const py::gil_scoped_release release;
            auto pairs = mean == "all" ? loss.all_pairs(queries.rows, database.rows)
                                       : loss.active_pairs(queries, database, how);
            for (double &count : pairs)
                count = count > 0 ? 1 / count : 0;
            loss.set_factors(pairs);
        }
        return call.run<T>(loss);
    });
}

py::tuple softplus_pairs(ClassCall &call, double alpha, double base_positive, double f_positive,
                         double beta, double base_negative, double f_negative,
                         const py::object &column_weights) {
    return by_precision(call.queries, [&](auto zero) {
        using T = decltype(zero);
        using Loss = TwoSidedLoss<T, SoftplusForm>;
        return call.run_two_sided<T>(
            SoftplusForm(alpha, base_positive, f_positive, beta, base_negative, f_negative),
            Loss::Of::inner_product, elements<double>(column_weights, call.m(), "sample_weight"));
    });
}

py::tuple supcon(ClassCall &call, double temperature) {
    return by_precision(call.queries, [&](auto zero) {
        using T = decltype(zero);
        return call.run_two_sided<T>(SupConForm(temperature),
                                     TwoSidedLoss<T, SupConForm>::Of::inner_product);
    });
}

py::tuple lifted(ClassCall &call, double positive_margin, double negative_margin, bool squared) {
    return by_precision(call.queries, [&](auto zero) {
        using T = decltype(zero);
        using Of = typename TwoSidedLoss<T, LiftedForm>::Of;
        return call.run_two_sided<T>(LiftedForm(positive_margin, negative_margin),
                                     squared ? Of::squared_distance : Of::distance);
    });
}

py::tuple ntxent(ClassCall &call, double temperature) {
    return by_precision(call.queries, [&](auto zero) {
        using T = decltype(zero);
        return call.run<T>(NtxentLoss<T>(temperature, call.y(), call.y_database(), call.left_out(),
                                         call.weights()),
                           RowKind::inner_product);
    });
}

/// Adds a function of a call and of the loss's parameters.
template <class... Parameters>
void add_class_loss(py::module_ &m, const char *name,
                    py::tuple (*loss)(ClassCall &, Parameters...)) {
    m.def(name, [loss](py::array q, py::object d, py::object exclude, std::string reduction,
                       py::array gq, py::object gd, int threads, py::object yq, py::object yd,
                       py::object sq, Parameters... parameters) {
        ClassCall call{
            {q, d, exclude, py::none(), py::none(), reduction, gq, gd, threads}, yq, yd, sq};
        return loss(call, parameters...);
    });
}

} // namespace

void register_class_losses(py::module_ &m) {
    add_class_loss(m, "triplet", triplet);
    add_class_loss(m, "contrastive", contrastive);
    add_class_loss(m, "softplus_pairs", softplus_pairs);
    add_class_loss(m, "supcon", supcon);
    add_class_loss(m, "ntxent", ntxent);
    add_class_loss(m, "lifted", lifted);
}

} // namespace metricfast::python
