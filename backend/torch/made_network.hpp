#pragma once
// Turns LibTorch's exceptions during the construction of a network into errors, because sizes that exceed the
// memory are a fault of the user.

#include <string>
#include <type_traits>

#include <c10/util/Exception.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"

namespace penstock::nn {

/// Returns the result of `make`, which is an expected with a text as its error. If LibTorch throws, returns
/// an error with the network's name, its place, and LibTorch's text without the backtrace.
template <class Make>
std::invoke_result_t<Make> made_network(const NetworkSpec& spec, Make make) {
  try {
    return make();
  } catch (const c10::Error& error) {
    return tl::unexpected(
        (spec.place.empty() ? std::string() : spec.place + ": ") + "the network " + spec.name +
        " cannot be made with these sizes; take smaller ones: " + error.what_without_backtrace());
  }
}

}  // namespace penstock::nn
