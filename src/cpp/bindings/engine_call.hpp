/// Calls of the row engine from the bindings of losses.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "casters.hpp"

namespace metricfast::python {

/// The arguments common to all losses: the attributes of Python's `Call`.
class Call {
  public:
    explicit Call(const py::object &call)
        : queries_(call.attr("queries")), database_(call.attr("database")),
          excluded_(call.attr("exclude"), n(), "exclude"), weight_(call.attr("weight")),
          column_weight_(call.attr("column_weight")), labels_(call.attr("y")),
          database_labels_(call.attr("y_database")), gradient_(call.attr("gradient")),
          database_gradient_(call.attr("database_gradient")),
          kind_(py::cast<std::string>(call.attr("kind"))),
          reduction_(py::cast<std::string>(call.attr("reduction"))),
          threads_(py::cast<int>(call.attr("threads"))),
          lanes_(py::cast<Index>(call.attr("lanes"))), first_(py::cast<Index>(call.attr("first"))),
          workspace_(call.attr("workspace")) {
        const py::object lists = call.attr("lists");
        if (!lists.is_none())
            list(lists[py::int_(0)], lists[py::int_(1)]);
    }

    /// A call without labels, for given derivatives by squared distances.
    Call(py::array queries, py::object database, py::array gradient, py::object database_gradient,
         int threads)
        : queries_(std::move(queries)), database_(std::move(database)),
          gradient_(std::move(gradient)), database_gradient_(std::move(database_gradient)),
          reduction_("sum"), threads_(threads) {}

    Index n() const { return queries_.shape(0); }
    Index m() const { return database_.is_none() ? n() : py::cast<py::array>(database_).shape(0); }

    const std::string &kind() const { return kind_; }
    ClassLabels classes() const { return labels<std::int64_t>(); }
    Tags tags() const {
        const auto [query_starts, query_tags] = lists(labels_);
        const auto [member_starts, members] = lists(database_labels_);
        return {query_starts, query_tags, member_starts, members, m()};
    }
    Targets targets() const { return labels<double>(); }
    /// Labels with several numbers per point.
    std::pair<View<const double>, View<const double>> target_rows() const {
        const auto rows = [](const py::object &labels) {
            return matrix<double>(py::cast<py::array>(labels));
        };
        return {rows(labels_), rows(database_labels_)};
    }
    LabelPairs distances() const {
        const auto labels = matrix<double>(py::cast<py::array>(labels_));
        if (kind_ == "precomputed")
            return {LabelMetric::precomputed, labels, {}};
        return {kind_ == "sqeuclidean" ? LabelMetric::sqeuclidean
                : kind_ == "euclidean" ? LabelMetric::euclidean
                                       : LabelMetric::cityblock,
                labels, matrix<double>(py::cast<py::array>(database_labels_))};
    }
    const py::object &column_weight() const { return column_weight_; }
    Weights column_weights() const {
        return elements<double>(column_weight_, m(), "sample_weight");
    }
    metricfast::Control control() const { return python::control(threads_); }

    /// Keeps indices alive as long as this object.
    Codes held(Indices indices) { return held_.emplace_back(std::move(indices)); }

    /// Sets lists of columns that replace whole rows. The lists may be large, so they are not
    /// copied: the engine checks each column as it reads it.
    void list(const py::object &row_starts, const py::object &columns) {
        candidates_.row_starts = held({row_starts, n() + 1, "row_starts"});
        candidates_.columns = elements<std::int64_t>(
            columns, static_cast<Index>(candidates_.row_starts[n()]), "columns");
    }
    const Candidates &candidates() const { return candidates_; }
    void set_reduction(std::string reduction) { reduction_ = std::move(reduction); }

    template <class T> RowProblem<T> problem() const {
        RowProblem<T> problem;
        problem.queries = matrix<T>(queries_);
        problem.symmetric = database_.is_none();
        problem.database =
            problem.symmetric ? problem.queries : matrix<T>(py::cast<py::array>(database_));
        problem.exclude = excluded_;
        problem.weights = elements<double>(weight_, n(), "sample_weight");
        problem.candidates = candidates_;
        problem.lanes = lanes_;
        problem.first = first_;
        problem.reduction = reduction_ == "sum"    ? Reduction::sum
                            : reduction_ == "mean" ? Reduction::mean
                                                   : Reduction::mean_nonzero;
        return problem;
    }

    /// \param make a function that returns the loss, given the LossKernels of the points'
    ///   precision.
    template <class Make> RowTotals run(Make &&make) {
        return by_precision(queries_, [&](auto zero) {
            using T = decltype(zero);
            const LossKernels<T> &of = kernels().of<T>().losses;
            return run(of, *make(of));
        });
    }

  private:
    template <class T> RowTotals run(const LossKernels<T> &of, const Loss<T> &loss) {
        const RowProblem<T> problem = this->problem<T>();
        const View<T> grad = writable<T>(gradient_);
        View<T> other;
        if (!problem.symmetric) {
            auto holder = py::cast<py::array>(database_gradient_);
            other = writable<T>(holder);
        }
        const metricfast::Control how = control();
        auto *const workspace = workspace_.is_none() ? nullptr : py::cast<Workspace *>(workspace_);
        const Released release;
        return of.value_and_gradient(problem, loss, grad, other, how, workspace);
    }
    template <class L> Labels<L> labels() const {
        return {elements<L>(labels_, n(), "y"), elements<L>(database_labels_, m(), "y_database")};
    }

    /// Returns the start of each list and the entries of all lists.
    static std::pair<Codes, Codes> lists(const py::object &pair) {
        const auto part = [&pair](int i) {
            const auto array = py::cast<py::array>(pair[py::int_(i)]);
            return elements<std::int64_t>(array, array.size(), "tags");
        };
        return {part(0), part(1)};
    }

    py::array queries_;
    py::object database_; ///< None if the database is the queries
    Indices excluded_{py::none(), 0, "exclude"};
    py::object weight_ = py::none(), column_weight_ = py::none();
    py::object labels_, database_labels_;
    py::array gradient_;
    py::object database_gradient_;
    std::string kind_, reduction_;
    int threads_;
    Index lanes_ = 0, first_ = -1;
    py::object workspace_ = py::none();
    std::deque<Indices> held_; ///< a deque: its elements do not move
    Candidates candidates_;
};

} // namespace metricfast::python
