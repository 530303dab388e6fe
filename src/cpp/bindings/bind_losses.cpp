#include "casters.hpp"
#include "common.hpp"
#include "engine_call.hpp"

namespace metricfast::python {

namespace {

/// The settings of a loss, from the arguments of Python and from the call.
template <class Signature> class Settings;
template <class Made, class First, class... A> class Settings<Kernel<Made(First, A...)>> {
  public:
    Settings(const Call &call, const py::args &given) : next_(0) {
        const auto load = [&](auto &caster, bool of_call) {
            const py::object source = of_call ? call.column_weight() : py::object(given[next_++]);
            require(caster.load(source, true), "a setting of the loss has the wrong type");
        };
        std::apply([&](auto &...casters) { (load(casters, std::is_same_v<A, Weights>), ...); },
                   casters_);
        require(next_ == given.size(), "the loss has another number of settings");
    }

    /// Returns the loss. Classes of tags are known only during the evaluation, without the GIL.
    template <class Losses, class Make>
    auto loss(const Losses &of, const Call &call, const Make &make) {
        return std::apply(
            [&](auto &...casters) {
                const std::tuple<std::decay_t<A>...> values(py::detail::cast_op<A>(casters)...);
                const auto with = [&make, values](First labels) {
                    return std::apply([&](const auto &...each) { return make(labels, each...); },
                                      values);
                };
                if constexpr (!std::is_same_v<First, ClassLabels>)
                    return with(call.distances());
                else
                    return call.kind() == "tags" ? of.of_tags(call.tags(), with)
                                                 : with(call.classes());
            },
            casters_);
    }

  private:
    std::size_t next_;
    std::tuple<py::detail::make_caster<A>...> casters_;
};

/// Binds a loss of labels and settings. \param find returns its kernel.
template <class Find> void bind_loss(py::module_ &m, const char *name, Find find) {
    using Found = std::decay_t<decltype(find(kernels().of<float>().losses))>;
    m.def(name, [find](const py::object &given, const py::args &arguments) {
        Call call(given);
        Settings<Found> settings(call, arguments);
        return call.run([&](const auto &of) { return settings.loss(of, call, find(of)); });
    });
}

/// Binds a loss that is created in a way of its own. \param make returns it, given the kernels, the
/// call and the settings.
template <class... Parameters, class Make>
void bind_loss_by(py::module_ &m, const char *name, Make make) {
    m.def(name, [make](const py::object &given, Parameters... settings) {
        Call call(given);
        return call.run([&](const auto &of) { return make(of, call, settings...); });
    });
}

} // namespace

#define METRICFAST_BIND_LOSS(name)                                                                 \
    bind_loss(m, #name, [](const auto &of) -> const auto & { return of.name; });
#define METRICFAST_BIND_LOSS_TOOL(name) METRICFAST_BIND(name, losses)

void register_losses(py::module_ &m) {
    METRICFAST_LABEL_LOSSES(METRICFAST_BIND_LOSS)
    METRICFAST_LOSS_TOOLS(METRICFAST_BIND_LOSS_TOOL)
    bind_loss_by<bool>(m, "mlkr", [](const auto &of, Call &call, bool squared) {
        const auto [queries, database] = call.target_rows();
        return of.mlkr(queries, database, call.column_weights(), squared);
    });
    // `mean`: "all" or "active" for the mean over these pairs of each kind, or "" for the sum.
    bind_loss_by<ContrastiveSettings, std::string>(
        m, "contrastive",
        [](const auto &of, Call &call, const ContrastiveSettings &settings,
           const std::string &mean) {
            using T = typename std::decay_t<decltype(of)>::Precision;
            call.set_reduction("sum");
            const RowProblem<T> problem = call.problem<T>();
            const Control how = call.control();
            const auto make = [&](const auto &kernel, const auto &labels) {
                const Released release;
                return kernel(labels, settings, mean, problem, how);
            };
            return call.kind() == "tags" ? make(of.contrastive_of_tags, call.tags())
                                         : make(of.contrastive, call.classes());
        });
    // `function` and `data` are addresses.
    bind_loss_by<std::uintptr_t, std::uintptr_t, RowKind>(
        m, "compiled",
        [](const auto &of, Call &call, std::uintptr_t function, std::uintptr_t data, RowKind kind) {
            const auto loss = [&](auto labels) {
                return of.compiled(reinterpret_cast<metricfast_row_function>(function),
                                   reinterpret_cast<void *>(data), kind,
                                   {labels.queries.begin(), labels.queries.end()},
                                   {labels.database.begin(), labels.database.end()});
            };
            return call.kind() == "class" ? loss(call.classes()) : loss(call.targets());
        });
}

} // namespace metricfast::python
