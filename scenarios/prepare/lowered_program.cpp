// A schedule's rule knows a chain; edges between other stages are the model's, and put in before the program
// is held against the rules of an iteration and gets its messages.

#include "scenarios/prepare/lowered_program.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/lower.hpp"

namespace penstock {
namespace {

/// Puts the edges that the model states into the program.
tl::expected<Program, std::string> with_model_edges(Program program, const Model& model) {
  const auto* figures = std::get_if<StageFigures>(&model);
  if (figures == nullptr || figures->edges.empty()) return program;
  std::vector<StageEdge> edges = figures->edges;
  // Programs have their edges in order, so that equal ones compare equal.
  std::ranges::sort(edges);
  if (!program.edges.empty() && program.edges != edges) {
    return tl::unexpected(std::string(
        "model.stages.edges: the schedule's program has stage edges of its own; leave the key out"));
  }
  for (const StageEdge& edge : edges) {
    if (edge.to >= program.stage_count()) {
      return tl::unexpected(
          fmt::format("model.stages.edges: the edge [{}, {}] names a stage beyond the last, {}", edge.from,
                      edge.to, program.stage_count() - 1));
    }
  }
  program.edges = std::move(edges);
  return program;
}

}  // namespace

bool has_edges(const Model& model) {
  const auto* figures = std::get_if<StageFigures>(&model);
  return figures != nullptr && !figures->edges.empty();
}

tl::expected<Program, UserError> lowered_program(Program compute, const Model& model) {
  const auto program = with_model_edges(std::move(compute), model);
  if (!program) return bad_input(program.error());
  // Parsed but not legal: exit 1, where edges that name no stage were bad input.
  const auto invalid = [](const std::string& reason) {
    return UserError{.kind = ErrorKind::check_failed, .message = reason};
  };
  if (auto valid = validate(*program); !valid) return tl::unexpected(invalid(valid.error()));
  return lower(*program).map_error(invalid);
}

}  // namespace penstock
