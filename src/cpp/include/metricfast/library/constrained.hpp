/// Learners from pairs, triplets and quadruplets, and scatter matrices, in the compiled library.
#pragma once

#include <functional>
#include <memory>

#include "metricfast/constrained/types.hpp"
#include "metricfast/library/kernel.hpp"

namespace metricfast {

/// Information-theoretic metric learning; see constrained/itml.hpp.
class ItmlSolver {
  public:
    virtual ~ItmlSolver() = default;
    /// Projects onto each pair once, in order.
    virtual ItmlSweep sweep(Span<double> duals, const Control &control = {}) = 0;
    virtual void read(View<double> M) const = 0;
};

// The members of ConstraintKernels. Those of the second list have no state.
#define METRICFAST_CONSTRAINT_KERNELS(DO)                                                          \
    DO(itml)                                                                                       \
    METRICFAST_CONSTRAINT_SUMS(DO)
#define METRICFAST_CONSTRAINT_SUMS(DO)                                                             \
    DO(lsml_loss)                                                                                  \
    DO(sum_of_distances)                                                                           \
    DO(sum_of_squared_distances)                                                                   \
    DO(triplet_objective)                                                                          \
    DO(group_sums)                                                                                 \
    DO(group_scatter)                                                                              \
    DO(local_scatter)

/// Kernels that compute in double for points of either precision.
struct ConstraintKernels {
    Kernel<std::unique_ptr<ItmlSolver>(const ItmlPairs &pairs, const ItmlBounds &bounds,
                                       View<const double> M)>
        itml;
    /// Returns the loss of LSML and writes its gradient by M = L^T L into `scatter` (d x d).
    Kernel<double(View<double> scatter, const Points &points, const TupleList &quadruplets,
                  Weights weights, View<const double> L, const Control &control)>
        lsml_loss;
    /// Returns the sum of distances, or of squared distances, under L or under a diagonal map given
    /// as a row. Writes `scatter`, (d x d), or (1 x d) for a diagonal map.
    Kernel<double(View<double> scatter, const Points &points, const TupleList &pairs,
                  View<const double> L, bool diagonal, const Control &control)>
        sum_of_distances, sum_of_squared_distances;
    Kernel<TripletObjective(const Points &x, View<const double> L, Codes triplets, Weights weights,
                            double penalty, const Control &control)>
        triplet_objective;
    /// Computes the weighted sums of the points of each group, minus an origin. Returns the largest
    /// absolute coordinate after the origin is subtracted.
    Kernel<double(const Points &points, Weights weights, Codes group, View<double> out,
                  Span<const double> origin, const Control &control)>
        group_sums;
    /// Sums outer products of points minus the mean of their group, into `out` (d x d).
    Kernel<void(View<double> out, const Points &points, Weights weights, Codes group,
                View<const double> means, Span<const double> scale, const Control &control,
                Span<const double> origin)>
        group_scatter;
    /// Computes the scatter of LFDA's affinities with local scales, into `out` (d x d).
    Kernel<void(View<double> out, View<const double> points, Weights weights, Index k,
                const Control &control)>
        local_scatter;
};

// The members of TripletKernels.
#define METRICFAST_TRIPLET_KERNELS(DO)                                                             \
    DO(oasis)                                                                                      \
    DO(scml)

template <class T> struct TripletKernels {
    Kernel<OasisTotals(View<const T> points, Codes triplets, Weights weights, Codes order, double C,
                       View<T> W, const Control &control)>
        oasis;
    /// \param next called with the number of completed iterations. It returns the triplets of
    ///   further iterations.
    Kernel<void(View<const T> points, Codes triplets, View<const T> basis,
                const ScmlSettings &settings, Span<T> weights,
                const std::function<ScmlDraws(Index)> &next, const Control &control)>
        scml;
};

} // namespace metricfast
