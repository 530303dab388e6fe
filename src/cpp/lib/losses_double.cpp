/// Losses of the row engine in double, and functions that do not depend on the precision.
#include "losses.hpp"

#include "metricfast/losses/cosent.hpp"

METRICFAST_NAMESPACE_BEGIN

namespace {

class LevelTools final : public LossTools {
  public:
    std::unique_ptr<Workspace> workspace() const override { return make_workspace(); }
    double cosent(Span<const double> similarities, Span<const double> scores, double scale,
                  Span<double> weights, std::int64_t &terms, double rounding,
                  Span<const double> log_weights) const override {
        const Index n = similarities.size();
        require(scores.size() == n && weights.size() == n &&
                    (log_weights == nullptr || log_weights.size() == n),
                "cosent: similarities, scores and weights must have the same length");
        return metricfast::cosent(similarities.data(), scores.data(), n, scale, weights.data(),
                                  &terms, rounding, log_weights.data());
    }
};

} // namespace

const LossTools &loss_tools() {
    static const LevelTools tools;
    return tools;
}

template const LossKernels<double> &loss_kernels();

METRICFAST_NAMESPACE_END
