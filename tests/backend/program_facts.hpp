#pragma once
// What the lists of a program say, for references that compute it without running them.

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "schedules/ir/program.hpp"

namespace penstock {

/// The lists of a program as facts: who computes what with which version, and what each STEP covers.
struct ProgramFacts {
  struct Step {
    std::vector<std::int32_t> microbatches;  ///< of this rank
    bool reduced = false;                    ///< with those of the stage's other ranks
  };
  using StageOnRank = std::pair<std::int32_t, std::int32_t>;   // stage, rank
  using OfMicrobatch = std::pair<std::int32_t, std::int32_t>;  // stage, microbatch
  std::map<OfMicrobatch, std::int32_t> rank;
  std::map<OfMicrobatch, std::int32_t> forward_version;
  std::map<OfMicrobatch, std::int32_t> backward_version;  ///< of B or I
  std::map<StageOnRank, std::vector<Step>> steps;
};
ProgramFacts facts_of(const Program& program);

}  // namespace penstock
