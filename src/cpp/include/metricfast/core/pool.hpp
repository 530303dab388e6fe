/// Objects that are used again: as many as there have been users at a time.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "metricfast/core/config.hpp"

METRICFAST_NAMESPACE_BEGIN

template <class T> class Pool {
    /// Gives an object back. One that an exception has left is thrown away.
    struct GiveBack {
        Pool *pool;
        int exceptions = std::uncaught_exceptions();

        void operator()(T *object) const {
            std::unique_ptr<T> owned(object);
            if (std::uncaught_exceptions() == exceptions)
                pool->take(std::move(owned));
        }
    };

  public:
    /// One for the caller alone, until the pointer goes.
    std::unique_ptr<T, GiveBack> borrow() {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            if (!free_.empty()) {
                auto object = std::move(free_.back());
                free_.pop_back();
                return {object.release(), GiveBack{this}};
            }
        }
        return {new T(), GiveBack{this}};
    }

  private:
    void take(std::unique_ptr<T> object) noexcept {
        const std::lock_guard<std::mutex> lock(mutex_);
        try {
            free_.push_back(std::move(object));
        } catch (...) { // no memory for the list: the object is freed
        }
    }

    std::mutex mutex_;
    std::vector<std::unique_ptr<T>> free_;
};

METRICFAST_NAMESPACE_END
