#pragma once
// Flags by the names that Megatron, torchtitan and NeMo have for the same.

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// `arguments` with each flag that is another program's name for one of ours written as ours, "--theirs=4" as
/// "--ours=4"; what stands behind "--" stays. `takes` says of one of our names whether the command takes it:
/// where it does not the argument stays, so that a message repeats what was typed.
std::vector<std::string> with_our_names(std::span<const char* const> arguments,
                                        const std::function<bool(std::string_view)>& takes);

}  // namespace penstock
