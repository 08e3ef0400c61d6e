#pragma once
// What a user must know beside an answer, on standard error.

#include <string>
#include <vector>

#include "cli/flags.hpp"

namespace penstock {

/// "note: NOTE" on stderr for each, unless --quiet.
void write_notes(const std::vector<std::string>& notes, const OutputFlags& flags);

}  // namespace penstock
