#pragma once
// Runs small programs for tests: over the in-process transport, with echo modules or others.

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

/// A program, valid and lowered, from its text form. Test-fatal (throws) when it is not.
Program read_program(const std::string& text);
/// Lowers a generated program. Test-fatal (throws) when that fails.
Program lowered(const Program& program);

/// Links that hold nothing up.
LinkPace free_links(const FlatProgram& flat);

/// Times that do not matter, messages of `bytes` bytes.
CostTable free_costs(const Program& program, Bytes bytes = 0);

/// What came out of one run; `error` is empty when it ended well.
struct EchoRun {
  StageModules modules;
  Timeline timeline;
  std::string error;
};

/// Executes `program` with echo modules.
EchoRun run_echo(const Program& program, const ChannelOptions& channels = {}, Bytes message_bytes = 0);

/// What differs between the gradients that the modules stepped with and `expected` (by rank), or between
/// what is left in the modules and nothing; empty when all is as it must be.
std::string difference(const Program& program, const StageModules& modules,
                       const std::vector<echo::Gradients>& expected);
/// The same for the modules of one rank.
std::string difference_on_rank(const Program& program, const StageModules& modules,
                               const std::vector<echo::Gradients>& expected, std::int32_t rank);

}  // namespace penstock
