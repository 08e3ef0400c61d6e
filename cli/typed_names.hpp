#pragma once
// Names that a user typed: flags of Megatron, torchtitan, DeepSpeed, NeMo and other frameworks become ours,
// and messages show names with their control characters escaped.

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// Returns `arguments` with the flags of other programs replaced by penstock's. For example, "--theirs=4"
/// becomes "--ours=4", and a switch becomes a flag with a value. Dashes and underscores in flags are
/// equivalent. Arguments after "--" do not change. `takes` says if the command accepts a flag of penstock. If
/// it does not, the argument stays, so that error messages show what the user typed.
std::vector<std::string> with_our_names(std::span<const char* const> arguments,
                                        const std::function<bool(std::string_view)>& takes);

/// Returns advice about another program's flag that has no single counterpart, such as "the layers of each
/// stage are --layer-split ...". It ends an error message. The text is empty for unknown flags.
std::string_view advice_on_flag(std::string_view flag);

// Escapes the names that a user typed before they appear in messages.

/// Returns `message`, in which repeated arguments are escaped as by shown_name(). Thus a line end, a tab or a
/// colour code in a file name or a mistyped flag cannot end a line or hide text.
std::string with_names_shown(std::string message, std::span<const char* const> arguments);

}  // namespace penstock
