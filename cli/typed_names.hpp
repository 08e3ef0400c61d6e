#pragma once
// Handles names that a user typed. Flag names of Megatron, torchtitan, DeepSpeed, NeMo and other
// frameworks are replaced by Penstock's names. In messages, control characters of names are escaped.

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// Returns `arguments` in which Penstock's flags replace the flags of other programs. For example,
/// "--theirs=4" becomes
/// "--ours=4", and a switch becomes a flag with a value. In flags, a dash and an underscore are equivalent.
/// Arguments after "--" do not change. `takes` returns true for a flag of Penstock that the command accepts.
/// If it returns false, the argument does not change, so that error messages show what the user typed.
std::vector<std::string> with_our_names(std::span<const char* const> arguments,
                                        const std::function<bool(std::string_view)>& takes);

/// Returns advice about a flag of another program that no single flag of Penstock replaces. An example is
/// "the layers of each stage are --layer-split ...". The advice is meant for the end of an error message.
/// It is empty for unknown flags.
std::string_view advice_on_flag(std::string_view flag);

// Escapes the names that a user typed, so that messages can show them.

/// Returns `message` in which the arguments that it repeats are escaped as by shown_name(). A line end, a
/// tab or a colour code in a file name or a mistyped flag then cannot end a line or hide text.
std::string with_names_shown(std::string message, std::span<const char* const> arguments);

}  // namespace penstock
