#pragma once
// Facts about the lists of a program, for references that compute results without running the lists.

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "schedules/ir/program.hpp"

namespace penstock {

/// The facts: which rank computes which unit with which weight version, and which microbatches each STEP
/// applies.
struct ProgramFacts {
  struct Step {
    std::vector<std::int32_t> microbatches;  ///< the microbatches of this rank
    bool reduced = false;                    ///< true if it also applies those of the stage's other ranks
  };
  using StageOnRank = std::pair<std::int32_t, std::int32_t>;   // Stage and rank.
  using OfMicrobatch = std::pair<std::int32_t, std::int32_t>;  // Stage and microbatch.
  std::map<OfMicrobatch, std::int32_t> rank;
  std::map<OfMicrobatch, std::int32_t> forward_version;
  std::map<OfMicrobatch, std::int32_t> backward_version;  ///< the version that B or I uses
  std::map<StageOnRank, std::vector<Step>> steps;
};
ProgramFacts facts_of(const Program& program);

}  // namespace penstock
