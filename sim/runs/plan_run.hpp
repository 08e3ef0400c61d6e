#pragma once
// The choice of the engine of a run, as data: plan_run() reads one table of engines.
//
//     engine   what it does                                          bytes grow with
//     stream   times loops while it spells them out, and jumps       the program's loops
//     turns    the ranks' turns write a tape of the compute lists    actions
//     tape     lowered lists are compiled into a tape                actions
//     event    a clock jumps from event to event; links are shared   actions
//
// The first engine of the table that nothing rules out runs. An engine that comes later stores more.

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "sim/engines/engines.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

enum class RunEngine : std::uint8_t { stream, turns, tape, event };
template <>
inline constexpr auto kEnumWords<RunEngine> =
    std::to_array<EnumWord<RunEngine>>({{RunEngine::stream, "stream"},
                                        {RunEngine::turns, "turns"},
                                        {RunEngine::tape, "tape"},
                                        {RunEngine::event, "event"}});

/// Which figures are wanted. Those of a sweep's rows: neither exposed communication, live activations, weight
/// versions and traffic of ranks and links, which stay 0, nor the digest.
enum class WantedFigures : std::uint8_t { all, of_rows };

/// The outputs that a run must give.
struct Wanted {
  Engine asked = Engine::automatic;  ///< by the user
  WantedFigures figures = WantedFigures::all;
  bool timeline = false;          ///< the span of every action
  bool memory_over_time = false;  ///< the curve of each rank, not its peak alone
  bool own_period = false;        ///< the steady rate, read off the run's own microbatches
  bool stored = false;            ///< lowered lists, which other engines are compared with in tests
  std::string stalled{};          ///< how the ranks' turns have stalled; empty: they have not
};

struct RuledOutEngine {
  RunEngine engine = RunEngine::stream;
  std::string reason;

  friend bool operator==(const RuledOutEngine&, const RuledOutEngine&) = default;
};

/// The engine of a run.
struct RunPlan {
  RunEngine engine = RunEngine::stream;
  std::vector<RuledOutEngine> ruled_out;  ///< those before it in the table
  bool is_long = false;       ///< too long to be spelled out: a stream without digest and repeated passes
  bool shares_links = false;  ///< stages may send over links in common
  double bytes = 0;           ///< of memory that the run takes at least; 0: not known, or hardly any

  friend bool operator==(const RunPlan&, const RunPlan&) = default;
};

/// How the ranks' turns have stalled, where only the walk over lowered lists proves that nothing hangs, or
/// says what does.
struct StalledTurns {
  std::string message;
};

/// Says how many bytes of memory a run may take; nothing where that is not known.
using MemoryBudget = std::function<std::optional<Bytes>()>;

/// Chooses the engine. `experiment` has its program in any form. Error: why no engine can run it: too many
/// actions, or more memory than the budget has.
tl::expected<RunPlan, std::string> plan_run(const Experiment& experiment, const Wanted& wanted,
                                            const MemoryBudget& budget);

/// Returns the form of the program that the run of such a scenario is best prepared in.
ProgramForm form_of_run(const Preparation& begun, const Wanted& wanted);

/// Returns why a run is too long, told before its program is made; nothing where it may not be.
std::optional<std::string> length_refusal(const Preparation& begun, const Wanted& wanted,
                                          const MemoryBudget& budget);

/// Returns a plan as a table, a line an engine: whether it runs, or why not.
std::string plan_text(const RunPlan& plan, const Wanted& wanted);

}  // namespace penstock
