/// Kernels as members of tables. The type of a member is the kernel's only declaration: the levels
/// of the library fill the tables, and the bindings convert Python's arguments, by that type.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "metricfast/core/control.hpp"

namespace metricfast {

namespace detail {

/// A call with the arguments of a kernel.
template <class R, class... A> class Call {
  public:
    constexpr Call(R (*run)(A...)) : run_(run) {}
    R operator()(A... given) const { return run_(std::forward<A>(given)...); }

  protected:
    R (*run_)(A...);
};

/// The same without the arguments `J...`, which have their default values.
template <class First, class Omitted, class R, class... A> class BriefCall;
template <std::size_t... I, std::size_t... J, class R, class... A>
class BriefCall<std::index_sequence<I...>, std::index_sequence<J...>, R, A...>
    : public Call<R, A...> {
    template <std::size_t place> using At = std::tuple_element_t<place, std::tuple<A...>>;

  public:
    using Call<R, A...>::Call;
    using Call<R, A...>::operator();
    R operator()(At<I>... given) const {
        return this->run_(std::forward<At<I>>(given)..., std::decay_t<At<sizeof...(I) + J>>()...);
    }
};

/// The number of arguments before the Control.
template <class... A> constexpr std::size_t required_arguments() {
    constexpr bool is_control[] = {std::is_same_v<A, const Control &>..., true};
    std::size_t count = 0;
    while (!is_control[count])
        ++count;
    return count;
}

template <class R, class... A>
using KernelCall = std::conditional_t<
    required_arguments<A...>() == sizeof...(A), Call<R, A...>,
    BriefCall<std::make_index_sequence<required_arguments<A...>()>,
              std::make_index_sequence<sizeof...(A) - required_arguments<A...>()>, R, A...>>;

} // namespace detail

/// A function of a level. A call may omit its Control, together with the arguments after it.
template <class Signature> class Kernel;
template <class R, class... A> class Kernel<R(A...)> : public detail::KernelCall<R, A...> {
  public:
    constexpr Kernel(R (*run)(A...) = nullptr) : detail::KernelCall<R, A...>(run) {}
};

} // namespace metricfast
