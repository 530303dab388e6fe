/// A database that is prepared for many searches.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>

#include "metricfast/search/copies.hpp"
#include "metricfast/search/quantized_queries.hpp"
#include "metricfast/search/screen.hpp"
#include "metricfast/search/sparse_rows.hpp"

METRICFAST_NAMESPACE_BEGIN

/// A permutation of rows, and the ascending start indices of segments.
struct Segments {
    std::vector<std::int64_t> order;
    std::vector<Index> starts;

    Index size() const { return static_cast<Index>(starts.size()); }
    Index begin(Index s) const { return starts[s]; }
    Index end(Index s) const {
        return s + 1 < size() ? starts[s + 1] : static_cast<Index>(order.size());
    }
};

/// The points of a database in segments, and the structures that exclude distant points: the
/// fastest is built at once, others when a search first needs them. Refers to the space, which
/// must outlive it. Several threads may call const functions.
class PreparedDatabase {
  public:
    /// \param rows ascending in each segment.
    PreparedDatabase(const Space &space, Frame frame, Segments rows, bool quantize,
                     const Control &control)
        : space_(space), frame_(std::move(frame)), rows_(std::move(rows)) {
        if (quantize && QuantizedDatabase::serves(space_.images()))
            quantized_ = std::make_unique<QuantizedDatabase>(space_, frame_, rows_.order,
                                                             rows_.starts, control);
    }

    /// A database of one segment, which is quantized in cells.
    PreparedDatabase(const Space &space, Frame frame, const Cells &cells, const Control &control)
        : space_(space), frame_(std::move(frame)),
          rows_{identity_order(space.points().rows()), {0}},
          quantized_(std::make_unique<QuantizedDatabase>(space_, frame_, cells, control)) {}

    /// A database of one segment, from parts() of an equal one.
    PreparedDatabase(const Space &space, Frame frame, const QuantizedParts &ready)
        : space_(space), frame_(std::move(frame)),
          rows_{identity_order(space.points().rows()), {0}},
          quantized_(std::make_unique<QuantizedDatabase>(space_, ready)) {}

    /// The coordinates that are not zero, if they are few: then exact distances cost little.
    const SparseRows &sparse(const Control &control) const {
        return build_once(sparse_, control,
                          [&] { return std::make_unique<SparseRows>(space_.points(), control); });
    }

    /// Replaces equal rows by one representative, so that duplicates do not fill candidate lists.
    struct Distinct {
        Segments rows;
        Copies copies;
        ScreenedDatabase<double> screen;

        Distinct(const PreparedDatabase &all, const Control &control)
            : rows(all.rows_), copies(all.space_.points(), rows.order, rows.starts, control),
              screen(all.space_, all.frame_, rows.order, rows.starts, control) {}
    };

    const Space &space() const { return space_; }
    const Frame &frame() const { return frame_; }
    const Segments &rows() const { return rows_; }
    /// Null if it would not help.
    const QuantizedDatabase *quantized() const { return quantized_.get(); }
    const ScreenedDatabase<float> &single(const Control &control) const {
        return build_once(single_, control, [&] {
            return std::make_unique<ScreenedDatabase<float>>(space_, frame_, rows_.order,
                                                             rows_.starts, control);
        });
    }
    const Distinct &distinct(const Control &control) const {
        return build_once(distinct_, control,
                          [&] { return std::make_unique<Distinct>(*this, control); });
    }

  private:
    /// A structure that is built when a search first needs it.
    template <class T> struct Built {
        std::unique_ptr<T> owned;
        std::atomic<const T *> ready{nullptr};
    };

    /// Threads that wait for another one to build the structure also call keep_going. The building
    /// thread may need a lock for its own call, such as Python's GIL, which a waiting thread must
    /// not hold forever.
    template <class T, class Make>
    const T &build_once(Built<T> &what, const Control &control, Make &&make) const {
        if (const T *const ready = what.ready)
            return *ready;
        std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
        for (auto polled = std::chrono::steady_clock::now(); !lock; lock.try_lock()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            const auto now = std::chrono::steady_clock::now();
            if (now - polled < detail::Crew::interval)
                continue;
            polled = now;
            if (control.keep_going && !control.keep_going())
                throw Cancelled();
        }
        if (!what.owned) {
            what.owned = make();
            what.ready = what.owned.get();
        }
        return *what.owned;
    }

    const Space &space_;
    Frame frame_;
    Segments rows_;
    std::unique_ptr<QuantizedDatabase> quantized_;
    mutable std::mutex mutex_; ///< held while one of the next members is built
    mutable Built<ScreenedDatabase<float>> single_;
    mutable Built<Distinct> distinct_;
    mutable Built<SparseRows> sparse_;
};

METRICFAST_NAMESPACE_END
