#pragma once
// A compute program made complete: the model's edges, the check, the messages. Used by experiment.cpp.

#include <string>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// True where the model states edges of its own, which no schedule's rule knows of.
bool has_edges(const Model& model);

/// `compute`, which has compute actions alone, with the model's edges, valid and lowered. Errors, without a
/// place: edges that the program contradicts or has no stage for; an invalid program.
tl::expected<Program, UserError> lowered_program(Program compute, const Model& model);

}  // namespace penstock
