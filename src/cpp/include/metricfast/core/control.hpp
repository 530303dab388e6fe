/// Threads, progress and cancellation of a call.
#pragma once

#include <functional>
#include <stdexcept>

namespace metricfast {

/// Thrown by a kernel after `Control::keep_going` has returned false.
struct Cancelled : std::runtime_error {
    Cancelled() : std::runtime_error("metricfast: cancelled") {}
};

/// Threads, progress and cancellation of a call. The calling thread calls `keep_going` and
/// `progress` between blocks, at most every 20 ms. `keep_going` returns false to cancel. `progress`
/// receives the completed share of the work.
struct Control {
    int threads = 0; ///< 0 for default_threads()
    std::function<bool()> keep_going;
    std::function<void(double)> progress;
    /// Runs a task on another thread, now or later, like submit() of a thread pool. If empty, calls
    /// start threads. A task that starts after the work is done returns immediately.
    std::function<void(std::function<void()>)> executor = nullptr;

    Control silent() const {
        Control control(*this);
        control.progress = nullptr;
        return control;
    }
};

} // namespace metricfast
