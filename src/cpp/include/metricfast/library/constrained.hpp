/// Learners of pairs, triplets and quadruplets, and scatter matrices, as the compiled library
/// offers them.
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
    /// Projects onto each pair in turn.
    virtual ItmlSweep sweep(Span<double> duals, const Control &control = {}) = 0;
    virtual void read(View<double> M) const = 0;
};

/// Kernels that compute in double for points of either precision.
class ConstraintKernels {
  public:
    virtual ~ConstraintKernels() = default;

    virtual std::unique_ptr<ItmlSolver> itml(const ItmlPairs &pairs, const ItmlBounds &bounds,
                                             View<const double> M) const = 0;
    /// The loss of LSML; `scatter` (d x d) is written: its gradient by M = L^T L.
    virtual double lsml_loss(const Points &points, const TupleList &quadruplets, Weights weights,
                             View<const double> L, View<double> scatter,
                             const Control &control = {}) const = 0;
    /// Sums of distances, or of their squares, under L, or under a diagonal map that is a row;
    /// `scatter` (d x d), or (1 x d) of a diagonal, is written.
    virtual double sum_of_distances(const Points &points, const TupleList &pairs,
                                    View<const double> L, bool diagonal, bool squared,
                                    View<double> scatter, const Control &control = {}) const = 0;
    virtual TripletObjective triplet_objective(const Points &x, View<const double> L,
                                               Codes triplets, Weights weights, double penalty,
                                               const Control &control = {}) const = 0;
    /// Weighted sums of the points of each group, less an origin; returns the number of rounding
    /// errors that may be in them.
    virtual double group_sums(const Points &points, Weights weights, Codes group, View<double> out,
                              Span<const double> origin, const Control &control = {}) const = 0;
    /// Sums of outer products of points less the mean of their group, into `out` (d x d).
    virtual void group_scatter(const Points &points, Weights weights, Codes group,
                               View<const double> means, Span<const double> scale,
                               Span<const double> origin, View<double> out,
                               const Control &control = {}) const = 0;
    /// The scatter of LFDA's affinities with local scales, into `out` (d x d).
    virtual void local_scatter(View<const double> points, Weights weights, Index k,
                               View<double> out, const Control &control = {}) const = 0;
};

template <class T> class TripletKernels {
  public:
    virtual ~TripletKernels() = default;

    virtual OasisTotals oasis(View<const T> points, Codes triplets, Weights weights, Codes order,
                              double C, View<T> W, const Control &control = {}) const = 0;
    /// \param next called with the number of iterations done; gives the triplets of further ones.
    virtual void scml(View<const T> points, Codes triplets, View<const T> basis,
                      const ScmlSettings &settings, Span<T> weights, const Control &control,
                      const std::function<ScmlDraws(Index)> &next) const = 0;
};

} // namespace metricfast
