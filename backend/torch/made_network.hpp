#pragma once
// Networks whose sizes no memory holds are a user's error, not a fault of the program.

#include <string>
#include <type_traits>

#include <c10/util/Exception.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"

namespace penstock::nn {

/// What `make`, which makes an expected with a text as its error, returns; an error, too, where LibTorch
/// throws one. It names the network and its place, and says what LibTorch says, without its backtrace.
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
