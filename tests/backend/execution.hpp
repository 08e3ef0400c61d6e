#pragma once
// Runs small programs for tests, with the in-process transport and with echo modules or others.

#include <cstdint>
#include <string>
#include <vector>

#include "backend/executor/executor.hpp"
#include "backend/executor/transport.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "tests/backend/sequential_training.hpp"

namespace penstock {

/// Returns the lowered program of this text. Throws if the text is not a valid program.
Program read_program(const std::string& text);
/// Returns the lowered program. Throws if lowering fails.
Program lowered(const Program& program);

/// Returns link times of 0 for all messages.
LinkPace free_links(const FlatProgram& flat);

/// Returns costs in which actions take no time and messages have `bytes` bytes.
CostTable free_costs(const Program& program, Bytes bytes = 0);

/// The result of one run. `error` is empty if the run ended well.
struct EchoRun {
  StageModules modules;
  Timeline timeline;
  std::string error;
};

/// Executes `program` with echo modules.
EchoRun run_echo(const Program& program, const ChannelOptions& channels = {}, Bytes message_bytes = 0);

/// Returns the first difference between the gradients that the modules used in their STEPs and `expected` (by
/// rank). Also returns a text if a module still stores data. Returns an empty text if there is no difference.
std::string difference(const Program& program, const StageModules& modules,
                       const std::vector<echo::Gradients>& expected);
/// Does the same for the modules of one rank.
std::string difference_on_rank(const Program& program, const StageModules& modules,
                               const std::vector<echo::Gradients>& expected, std::int32_t rank);

}  // namespace penstock
