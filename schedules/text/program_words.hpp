#pragma once
// The words of Penstock's text form. Private to program_text.cpp and program_parser.cpp.

#include <array>
#include <string_view>

#include "schedules/ir/program.hpp"

namespace penstock {

inline constexpr std::string_view kProgramHeader = "penstock program 1";

inline constexpr std::array kUpdateRules = {UpdateRule::minibatch, UpdateRule::microbatch,
                                            UpdateRule::double_buffered};
inline constexpr std::array kRecomputeTimings = {RecomputeTiming::early, RecomputeTiming::late};

constexpr std::string_view word_of(UpdateRule rule) {
  switch (rule) {
    case UpdateRule::minibatch:
      return "minibatch";
    case UpdateRule::microbatch:
      return "microbatch";
    case UpdateRule::double_buffered:
      return "double_buffered";
  }
  return "";
}

constexpr std::string_view word_of(RecomputeTiming timing) {
  switch (timing) {
    case RecomputeTiming::early:
      return "early";
    case RecomputeTiming::late:
      return "late";
  }
  return "";
}

}  // namespace penstock
