/// Learners of pairs, triplets and quadruplets, and scatter matrices.
#include "areas.hpp"
#include "metricfast/constrained/itml.hpp"
#include "metricfast/constrained/local_scatter.hpp"
#include "metricfast/constrained/lsml.hpp"
#include "metricfast/constrained/mmc.hpp"
#include "metricfast/constrained/oasis.hpp"
#include "metricfast/constrained/scatter.hpp"
#include "metricfast/constrained/scml.hpp"
#include "metricfast/constrained/triplet_objective.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace {

class LevelItml final : public ItmlSolver {
  public:
    LevelItml(const ItmlPairs &pairs, const ItmlBounds &bounds, View<const double> M)
        : itml_(pairs, bounds, M) {}
    ItmlSweep sweep(Span<double> duals, const Control &control) override {
        return itml_.sweep(duals, control);
    }
    void read(View<double> M) const override { itml_.read(M); }

  private:
    Itml itml_;
};

/// Copies a matrix to the output.
void write(const RowMatrix<double> &matrix, View<double> out) {
    require(out.rows == matrix.rows() && out.cols == matrix.cols(),
            "scatter must be (n_features, n_features)");
    eigen(out) = matrix;
}

/// Writes the scatter, and returns the value.
double write(const ValueAndScatter &found, View<double> out) {
    write(found.scatter, out);
    return found.value;
}

} // namespace

namespace level {

std::unique_ptr<ItmlSolver> itml(const ItmlPairs &pairs, const ItmlBounds &bounds,
                                 View<const double> M) {
    return std::make_unique<LevelItml>(pairs, bounds, M);
}

template <class T>
void scml(View<const T> points, Codes triplets, View<const T> basis, const ScmlSettings &settings,
          Span<T> weights, const std::function<ScmlDraws(Index)> &next, const Control &control) {
    Scml<T>(points, triplets, basis, settings).run(weights, control, next);
}

// Kernels whose results are matrices have an output in front.
#define METRICFAST_WRITE(R, name)                                                                  \
    template <class... A> R name(View<double> out, A... given) {                                   \
        return write(metricfast::name(given...), out);                                             \
    }
METRICFAST_WRITE(double, lsml_loss)
METRICFAST_WRITE(double, sum_of_distances)
METRICFAST_WRITE(double, sum_of_squared_distances)
METRICFAST_WRITE(void, group_scatter)
METRICFAST_WRITE(void, local_scatter)

} // namespace level

METRICFAST_TABLE(ConstraintKernels, METRICFAST_CONSTRAINT_KERNELS, constraint_kernels)
METRICFAST_TABLE_OF_T(TripletKernels, METRICFAST_TRIPLET_KERNELS, triplet_kernels)

METRICFAST_NAMESPACE_END
