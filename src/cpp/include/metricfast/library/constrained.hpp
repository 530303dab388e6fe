/// Learners from pairs, triplets and quadruplets, and scatter matrices, in the compiled library.
#pragma once

#include <functional>
#include <memory>

#include "metricfast/constrained/types.hpp"
#include "metricfast/core/control.hpp"

namespace metricfast {

/// Information-theoretic metric learning; see constrained/itml.hpp.
class ItmlSolver {
  public:
    virtual ~ItmlSolver() = default;
    /// Projects onto each pair once, in order.
    virtual ItmlSweep sweep(Span<double> duals, const Control &control = {}) = 0;
    virtual void read(View<double> M) const = 0;
};

/// Kernels that compute in double for points of either precision.
class ConstraintKernels {
  public:
    virtual ~ConstraintKernels() = default;

    virtual std::unique_ptr<ItmlSolver> itml(const ItmlPairs &pairs, const ItmlBounds &bounds,
                                             View<const double> M) const = 0;
    /// Returns the loss of LSML and writes its gradient by M = L^T L into `scatter` (d x d).
    virtual double lsml_loss(const Points &points, const TupleList &quadruplets, Weights weights,
                             View<const double> L, View<double> scatter,
                             const Control &control = {}) const = 0;
    /// Returns the sum of distances, or of squared distances, under L or under a diagonal map given
    /// as a row. Writes `scatter`, (d x d), or (1 x d) for a diagonal map.
    virtual double sum_of_distances(const Points &points, const TupleList &pairs,
                                    View<const double> L, bool diagonal, bool squared,
                                    View<double> scatter, const Control &control = {}) const = 0;
    virtual TripletObjective triplet_objective(const Points &x, View<const double> L,
                                               Codes triplets, Weights weights, double penalty,
                                               const Control &control = {}) const = 0;
    /// Computes the weighted sums of the points of each group, minus an origin. Returns the largest
    /// absolute coordinate after the origin is subtracted.
    virtual double group_sums(const Points &points, Weights weights, Codes group, View<double> out,
                              Span<const double> origin, const Control &control = {}) const = 0;
    /// Sums outer products of points minus the mean of their group, into `out` (d x d).
    virtual void group_scatter(const Points &points, Weights weights, Codes group,
                               View<const double> means, Span<const double> scale,
                               Span<const double> origin, View<double> out,
                               const Control &control = {}) const = 0;
    /// Computes the scatter of LFDA's affinities with local scales, into `out` (d x d).
    virtual void local_scatter(View<const double> points, Weights weights, Index k,
                               View<double> out, const Control &control = {}) const = 0;
};

template <class T> class TripletKernels {
  public:
    virtual ~TripletKernels() = default;

    virtual OasisTotals oasis(View<const T> points, Codes triplets, Weights weights, Codes order,
                              double C, View<T> W, const Control &control = {}) const = 0;
    /// \param next called with the number of completed iterations. It returns the triplets of
    ///   further iterations.
    virtual void scml(View<const T> points, Codes triplets, View<const T> basis,
                      const ScmlSettings &settings, Span<T> weights, const Control &control,
                      const std::function<ScmlDraws(Index)> &next) const = 0;
};

} // namespace metricfast
