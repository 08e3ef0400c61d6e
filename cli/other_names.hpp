#pragma once
// Translates flags of Megatron, torchtitan, DeepSpeed, NeMo and other frameworks.

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// Returns `arguments` with other programs' flags replaced by ours: "--theirs=4" by "--ours=4", and switches
/// by a flag and its value. Dashes and underscores in their names count as equal. Arguments after "--" stay.
/// `takes` says whether the command has one of our flags; if not, the argument stays, so that a message shows
/// what was typed.
std::vector<std::string> with_our_names(std::span<const char* const> arguments,
                                        const std::function<bool(std::string_view)>& takes);

/// Returns the end of a message about a flag of another program that matches no single flag of ours: "the
/// layers of each stage are --layer-split ...". Returns an empty text for unknown flags.
std::string_view advice_on_flag(std::string_view flag);

}  // namespace penstock
