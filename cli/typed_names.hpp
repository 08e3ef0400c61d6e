#pragma once
// Handles names that a user typed. Flags of Megatron, torchtitan, DeepSpeed, NeMo and other frameworks are
// replaced by Penstock's flags. In messages, control characters of names are escaped.

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// Returns `arguments` in which Penstock's flags replace the flags of other programs. For example,
/// "--theirs=4" becomes "--ours=4", and a switch becomes a flag with a value. A dash and an underscore in
/// flags are equivalent. Arguments after "--" do not change. `takes` says whether the command accepts a flag
/// of Penstock. If the command does not accept it, the argument stays, so that error messages show what the
/// user typed.
std::vector<std::string> with_our_names(std::span<const char* const> arguments,
                                        const std::function<bool(std::string_view)>& takes);

/// Returns advice about a flag of another program that no single flag of Penstock replaces, such as "the
/// layers of each stage are --layer-split ...". It is meant for the end of an error message. The text is
/// empty for unknown flags.
std::string_view advice_on_flag(std::string_view flag);

// Escapes the names that a user typed before they appear in messages.

/// Returns `message`, in which repeated arguments are escaped as by shown_name(). A line end, a tab or a
/// colour code in a file name or a mistyped flag can then not end a line or hide text.
std::string with_names_shown(std::string message, std::span<const char* const> arguments);

}  // namespace penstock
