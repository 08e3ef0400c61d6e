#pragma once
// The compute program of a scenario's schedule, in two steps, because a schedule may weigh what its stages
// cost, and costs belong to stages that only a program has. Used by experiment.cpp.

#include <string>
#include <tl/expected.hpp>

#include "scenarios/prepare/program_prices.hpp"
#include "scenarios/prepare/stage_cut.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"

namespace penstock {

/// What a scenario says of its schedule: a program, or a name of the table and a shape.
struct StatedSchedule {
  const Program* program = nullptr;  ///< given as a file; null: generated
  std::string name;                  ///< of a generated one; empty: not given
  Shape shape;                       ///< with the microbatches in force and the buckets as stated
};

/// The program with the model's stages where they belong: nothing is weighed, and no stage is in buckets yet.
/// Errors: buckets beside a program file, no name, those of generate().
tl::expected<Program, std::string> placed_program(const StatedSchedule& schedule);

/// `placed` with its stages in the cut's buckets and, where the schedule weighs costs, in the order that is
/// best for them, with what the schedule says of it. Requires placed_program(schedule) and a cut of its
/// stages. Errors: those of generate() and
/// program_prices().
GeneratedWithNotes compute_program(const StatedSchedule& schedule, Program placed, const StageCut& cut,
                                   const PriceTerms& terms);

}  // namespace penstock
