/// Threads, progress and cancellation of a call.
#pragma once

#include <functional>
#include <stdexcept>

namespace metricfast {

/// Thrown out of a kernel whose `Control::keep_going` returned false.
struct Cancelled : std::runtime_error {
    Cancelled() : std::runtime_error("metricfast: cancelled") {}
};

/// Threads, progress and cancellation of a call. `keep_going` and `progress` are called on the
/// calling thread alone, between blocks: `keep_going` at most every 20 ms (return false to cancel),
/// `progress` with the share done.
struct Control {
    int threads = 0; ///< 0: default_threads()
    std::function<bool()> keep_going;
    std::function<void(double)> progress;
    /// Has a thread of somebody else's run a task, now or later, as a pool's submit() does; none:
    /// threads are started. A task that comes too late to help returns at once.
    std::function<void(std::function<void()>)> executor = nullptr;

    Control silent() const {
        Control control(*this);
        control.progress = nullptr;
        return control;
    }
};

} // namespace metricfast
