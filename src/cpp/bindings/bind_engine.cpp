#include "common.hpp"
#include "engine_call.hpp"
#include "metricfast/losses/given.hpp"
#include "metricfast/losses/ldml.hpp"
#include "metricfast/losses/lmnn.hpp"
#include "metricfast/losses/mcml.hpp"
#include "metricfast/losses/mlkr.hpp"
#include "metricfast/losses/nca.hpp"

namespace metricfast::python {

namespace {

py::tuple nca(Call &call, bool log_form, const py::object &query_labels,
              const py::object &database_labels, const py::object &anchor_weights,
              const py::object &column_weights, const py::object &self) {
    return by_precision(call.queries, [&](auto zero) {
        using T = decltype(zero);
        using Loss = NcaLoss<T>;
        const Loss loss(log_form ? Loss::Form::log : Loss::Form::sum,
                        codes(query_labels, call.n(), "y"),
                        codes(database_labels, call.m(), "y_database"),
                        elements<double>(anchor_weights, call.n(), "sample_weight"),
                        elements<double>(column_weights, call.m(), "sample_weight"),
                        elements<std::int64_t>(self, call.n(), "exclude"));
        return call.run<T>(loss);
    });
}

py::tuple lmnn(Call &call, double regularization, double margin, const py::array &targets,
               const py::object &query_labels, const py::object &database_labels,
               const py::object &anchor_weights) {
    return by_precision(call.queries, [&](auto zero) {
        using T = decltype(zero);
        const Index k = targets.ndim() == 2 ? targets.shape(1) : 0;
        const auto rows = elements<std::int64_t>(targets, call.n() * k, "targets");
        for (Index t = 0; t < call.n() * k; ++t)
            require(rows[t] < call.m(), "targets holds an index outside the database");
        const LmnnLoss<T> loss(regularization, margin, rows, k,
                               elements<std::int64_t>(query_labels, call.n(), "y"),
                               elements<std::int64_t>(database_labels, call.m(), "y_database"),
                               elements<double>(anchor_weights, call.n(), "sample_weight"));
        return call.run<T>(loss);
    });
}

py::tuple mlkr(Call &call, const py::object &query_targets, const py::object &database_targets,
               const py::object &anchor_weights, const py::object &column_weights,
               const py::object &self) {
    return by_precision(call.queries, [&](auto zero) {
        using T = decltype(zero);
        const MlkrLoss<T> loss(elements<double>(query_targets, call.n(), "y"),
                               elements<double>(database_targets, call.m(), "y_database"),
                               elements<double>(anchor_weights, call.n(), "sample_weight"),
                               elements<double>(column_weights, call.m(), "sample_weight"),
                               elements<std::int64_t>(self, call.n(), "exclude"));
        return call.run<T>(loss);
    });
}

py::tuple mcml(Call &call, const py::object &query_labels, const py::object &database_labels,
               const py::object &anchor_weights, const py::object &column_weights,
               const py::object &self) {
    return by_precision(call.queries, [&](auto zero) {
        using T = decltype(zero);
        const McmlLoss<T> loss(
            ClassMembers(elements<std::int64_t>(query_labels, call.n(), "y"),
                         elements<std::int64_t>(database_labels, call.m(), "y_database")),
            elements<double>(anchor_weights, call.n(), "sample_weight"),
            elements<double>(column_weights, call.m(), "sample_weight"),
            elements<std::int64_t>(self, call.n(), "exclude"));
        return call.run<T>(loss);
    });
}

py::tuple ldml(Call &call, double bias, py::array bias_gradient, const py::object &query_labels,
               const py::object &database_labels, const py::object &anchor_weights,
               const py::object &column_weights, const py::object &self) {
    return by_precision(call.queries, [&](auto zero) {
        using T = decltype(zero);
        const LdmlLoss<T> loss(bias,
                               writable_elements<double>(bias_gradient, call.n(), "bias_gradient"),
                               elements<std::int64_t>(query_labels, call.n(), "y"),
                               elements<std::int64_t>(database_labels, call.m(), "y_database"),
                               elements<std::int64_t>(call.exclude, call.n(), "exclude"),
                               elements<double>(anchor_weights, call.n(), "sample_weight"),
                               elements<double>(column_weights, call.m(), "sample_weight"),
                               elements<std::int64_t>(self, call.n(), "exclude"));
        return call.run<T>(loss);
    });
}

/// `weights`: a matrix, or the values of the candidate lists.
py::tuple given(Call &call, const py::array &weights) {
    return by_precision(call.queries, [&](auto zero) {
        using T = decltype(zero);
        if (call.row_starts.is_none()) {
            const View<const T> dense = matrix<T>(weights);
            require(dense.rows == call.n() && dense.cols == call.m(),
                    "weights must be (n_queries, n_database)");
            return call.run<T>(DenseWeightsLoss<T>(dense));
        }
        const auto starts = elements<std::int64_t>(call.row_starts, call.n() + 1, "row_starts");
        return call.run<T>(SparseWeightsLoss<T>(
            starts, elements<T>(weights, static_cast<Index>(starts[call.n()]), "weights")));
    });
}

} // namespace

RowTotals value_and_gradient(const RowProblem<float> &problem, const RowLoss<float> &loss,
                             const Control &control, View<float> grad_queries,
                             View<float> grad_database) {
    return RowEngine<float>(problem, loss, control).value_and_gradient(grad_queries, grad_database);
}

RowTotals value_and_gradient(const RowProblem<double> &problem, const RowLoss<double> &loss,
                             const Control &control, View<double> grad_queries,
                             View<double> grad_database) {
    return RowEngine<double>(problem, loss, control)
        .value_and_gradient(grad_queries, grad_database);
}

void register_engine(py::module_ &m) {
    m.def("nca", [](py::array q, py::object d, py::object exclude, std::string reduction,
                    py::array gq, py::object gd, int threads, py::object yq, py::object yd,
                    py::object sq, py::object sd, py::object self, bool log_form) {
        Call call{q, d, exclude, py::none(), py::none(), reduction, gq, gd, threads};
        return nca(call, log_form, yq, yd, sq, sd, self);
    });
    const auto add = [&m](const char *name, auto loss) {
        m.def(name, [loss](py::array q, py::object d, py::object exclude, std::string reduction,
                           py::array gq, py::object gd, int threads, py::object yq, py::object yd,
                           py::object sq, py::object sd, py::object self) {
            Call call{q, d, exclude, py::none(), py::none(), reduction, gq, gd, threads};
            return loss(call, yq, yd, sq, sd, self);
        });
    };
    add("mlkr", mlkr);
    add("mcml", mcml);
    m.def("ldml",
          [](py::array q, py::object d, py::object exclude, std::string reduction, py::array gq,
             py::object gd, int threads, py::object yq, py::object yd, py::object sq, py::object sd,
             py::object self, double bias, py::array bias_gradient) {
              Call call{q, d, exclude, py::none(), py::none(), reduction, gq, gd, threads};
              return ldml(call, bias, bias_gradient, yq, yd, sq, sd, self);
          });
    m.def("lmnn",
          [](py::array q, py::object d, py::object exclude, py::object starts, py::object columns,
             std::string reduction, py::array gq, py::object gd, int threads, double regularization,
             double margin, py::array targets, py::object yq, py::object yd, py::object sq) {
              Call call{q, d, exclude, starts, columns, reduction, gq, gd, threads};
              return lmnn(call, regularization, margin, targets, yq, yd, sq);
          });
    m.def("given",
          [](py::array q, py::object d, py::object exclude, py::object starts, py::object columns,
             py::array gq, py::object gd, int threads, py::array weights) {
              Call call{q, d, exclude, starts, columns, "sum", gq, gd, threads};
              return given(call, weights);
          });
}

} // namespace metricfast::python
