/// The row engine, on which all losses of rows of distances run.
#include "areas.hpp"
#include "metricfast/core/pool.hpp"
#include "metricfast/engine/row_engine.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace {

class Pools final : public Workspace {
  public:
    template <class T> Pool<RowScratch<T>> &of() {
        if constexpr (std::is_same_v<T, float>)
            return single_;
        else
            return double_;
    }

  private:
    Pool<RowScratch<float>> single_;
    Pool<RowScratch<double>> double_;
};

} // namespace

namespace level {

std::unique_ptr<Workspace> workspace() { return std::make_unique<Pools>(); }

template <class T>
RowTotals value_and_gradient(const RowProblem<T> &problem, const Loss<T> &loss, View<T> gradient,
                             View<T> database_gradient, const Control &control,
                             Workspace *workspace) {
    const auto run = [&](RowScratch<T> *scratch) {
        return RowEngine<T>(problem, of_rows(loss), control, scratch)
            .value_and_gradient(gradient, database_gradient);
    };
    if (workspace == nullptr)
        return run(nullptr);
    return run(static_cast<Pools *>(workspace)->of<T>().borrow().get());
}
template RowTotals value_and_gradient(const RowProblem<float> &, const Loss<float> &, View<float>,
                                      View<float>, const Control &, Workspace *);
template RowTotals value_and_gradient(const RowProblem<double> &, const Loss<double> &,
                                      View<double>, View<double>, const Control &, Workspace *);

} // namespace level

METRICFAST_NAMESPACE_END
