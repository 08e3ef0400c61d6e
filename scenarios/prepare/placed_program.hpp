#pragma once
// Where a scenario's schedule puts the model's stages, before anything is known of them.

#include <string>
#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"
#include "schedules/ir/shape.hpp"

namespace penstock {

/// What a scenario says of its schedule: a program, or a name of the table and a shape.
struct StatedSchedule {
  const Program* program = nullptr;  ///< given as a file; null: generated
  std::string name;                  ///< of a generated one; empty: not given
  Shape shape;                       ///< with the microbatches in force and the buckets as stated
  bool weighs_costs = false;         ///< generated, in an order that depends on what its stages cost
};

/// The program with the model's stages where they belong: nothing is weighed, and no stage is in buckets yet.
/// Errors: buckets beside a program file, no name, those of generate().
tl::expected<Program, std::string> placed_program(const StatedSchedule& schedule);

}  // namespace penstock
