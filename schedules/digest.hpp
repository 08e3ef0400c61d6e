#pragma once
// A program's name for machines: results of sim/ and backend/ carry it so that they can be held against
// each other.

#include <string>

#include "schedules/program.hpp"

namespace penstock {

/// SHA-256 of the text form of a lowered program (program_text.hpp), as 64 lower-case hex digits.
std::string digest(const Program& lowered);

}  // namespace penstock
