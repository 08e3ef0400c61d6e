#pragma once
// The words of Penstock's text form. Only program_text.cpp and program_parser.cpp include this header.

#include <string_view>

namespace penstock {

inline constexpr std::string_view kProgramHeader = "penstock program 1";

}  // namespace penstock
