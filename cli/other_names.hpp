#pragma once
// Flags by the names that Megatron, torchtitan, DeepSpeed, NeMo and other frameworks have for them.

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// Returns `arguments` with each flag that is another program's name for one of ours written as ours,
/// "--theirs=4" as "--ours=4", and switches of theirs as a flag and its value. Dashes and underscores in
/// their names are one. What stands behind "--" stays. `takes` says of one of our names whether the command
/// takes it: where it does not, the argument stays, so that a message repeats what was typed.
std::vector<std::string> with_our_names(std::span<const char* const> arguments,
                                        const std::function<bool(std::string_view)>& takes);

/// Returns what to write in place of a flag of another program that means no single flag of ours, as the end
/// of a message: "the layers of each stage are --layer-split ...". Empty for flags that are in no such
/// program.
std::string_view advice_on_flag(std::string_view flag);

}  // namespace penstock
