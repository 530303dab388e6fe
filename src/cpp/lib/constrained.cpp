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

/// Copies a matrix to the output.
void write(const RowMatrix<double> &matrix, View<double> out) {
    require(out.rows == matrix.rows() && out.cols == matrix.cols(),
            "scatter must be (n_features, n_features)");
    eigen(out) = matrix;
}

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

class LevelConstraints final : public ConstraintKernels {
  public:
    std::unique_ptr<ItmlSolver> itml(const ItmlPairs &pairs, const ItmlBounds &bounds,
                                     View<const double> M) const override {
        return std::make_unique<LevelItml>(pairs, bounds, M);
    }
    double lsml_loss(const Points &points, const TupleList &quadruplets, Weights weights,
                     View<const double> L, View<double> scatter,
                     const Control &control) const override {
        const auto found = metricfast::lsml_loss(points, quadruplets, weights, L, control);
        write(found.scatter, scatter);
        return found.value;
    }
    double sum_of_distances(const Points &points, const TupleList &pairs, View<const double> L,
                            bool diagonal, bool squared, View<double> scatter,
                            const Control &control) const override {
        const auto found =
            squared ? metricfast::sum_of_squared_distances(points, pairs, L, diagonal, control)
                    : metricfast::sum_of_distances(points, pairs, L, diagonal, control);
        write(found.scatter, scatter);
        return found.value;
    }
    TripletObjective triplet_objective(const Points &x, View<const double> L, Codes triplets,
                                       Weights weights, double penalty,
                                       const Control &control) const override {
        const RowMatrix<double> map = eigen(L);
        return metricfast::triplet_objective(x, map, triplets, weights, penalty, control);
    }
    double group_sums(const Points &points, Weights weights, Codes group, View<double> out,
                      Span<const double> origin, const Control &control) const override {
        return metricfast::group_sums(points, weights, group, out, origin, control);
    }
    void group_scatter(const Points &points, Weights weights, Codes group, View<const double> means,
                       Span<const double> scale, Span<const double> origin, View<double> out,
                       const Control &control) const override {
        write(metricfast::group_scatter(points, weights, group, means, scale, control, origin),
              out);
    }
    void local_scatter(View<const double> points, Weights weights, Index k, View<double> out,
                       const Control &control) const override {
        write(metricfast::local_scatter(points, weights, k, control), out);
    }
};

template <class T> class LevelTriplets final : public TripletKernels<T> {
  public:
    OasisTotals oasis(View<const T> points, Codes triplets, Weights weights, Codes order, double C,
                      View<T> W, const Control &control) const override {
        return metricfast::oasis<T>(points, triplets, weights, order, C, W, control);
    }
    void scml(View<const T> points, Codes triplets, View<const T> basis,
              const ScmlSettings &settings, Span<T> weights, const Control &control,
              const std::function<ScmlDraws(Index)> &next) const override {
        Scml<T>(points, triplets, basis, settings).run(weights, control, next);
    }
};

} // namespace

const ConstraintKernels &constraint_kernels() {
    static const LevelConstraints kernels;
    return kernels;
}

template <class T> const TripletKernels<T> &triplet_kernels() {
    static const LevelTriplets<T> kernels;
    return kernels;
}
template const TripletKernels<float> &triplet_kernels();
template const TripletKernels<double> &triplet_kernels();

METRICFAST_NAMESPACE_END
