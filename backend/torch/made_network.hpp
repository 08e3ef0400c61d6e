#pragma once
// Converts exceptions of LibTorch during the construction of a network to errors. A user may, for example,
// choose sizes that exceed the memory.

#include <string>
#include <type_traits>

#include <c10/util/Exception.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"

namespace penstock::nn {

/// Returns the result of `make`, which must be a tl::expected with a text as its error. If LibTorch throws,
/// returns an error text with the network's name, its place in the file, and LibTorch's text without the
/// backtrace.
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
