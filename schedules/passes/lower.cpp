
#include "schedules/passes/lower.hpp"

#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "schedules/check/channel_check.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/list_writer.hpp"
#include "schedules/passes/take_turns.hpp"

namespace penstock {

tl::expected<Program, std::string> lower(const Program& program) {
  if (is_lowered(program)) return program;
  Program lowered = without_lists(program);
  ListWriter writer(program);
  TurnsTaken taken = take_turns(program, writer);
  if (!taken.finished) return tl::unexpected(std::move(taken.stuck));
  lowered.ranks = std::move(writer).lists();
  // If ranks joined a collective early, the rounds do not prove that the program cannot hang, so this check
  // must show it. The check uses the default channels, because such a program may hang with one FIFO for each
  // rank.
  if (!taken.stuck.empty() && find_hang(lowered, {}, unit_costs(lowered)))
    return tl::unexpected(std::move(taken.stuck));
  return lowered;
}

}  // namespace penstock
