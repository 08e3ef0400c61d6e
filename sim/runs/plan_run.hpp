#pragma once
// Chooses the engine of a run from one table of engines:
//
//   engine   method                                                 memory grows with
//   stream   generates actions from loops, and jumps                the program's loops
//   turns    placement rounds write a tape from the compute lists   actions
//   tape     lowered lists are compiled into a tape                 actions
//   event    a clock jumps from event to event; links are shared    actions
//
// The first engine runs for which no rule finds a reason against it. Later engines store more.

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

/// The figures that the caller wants: all figures, or only the figures of a sweep's points. Points have no
/// digest. Their exposed communication, live activations, weight versions and traffic are 0.
enum class WantedFigures : std::uint8_t { all, of_rows };

/// The outputs that a run must give.
struct Wanted {
  Engine asked = Engine::automatic;  ///< engine that the user has chosen
  WantedFigures figures = WantedFigures::all;
  bool timeline = false;          ///< true: the span of every action
  bool memory_over_time = false;  ///< true: each rank's memory over time; false: only the peak
  bool own_period = false;        ///< true: the steady rate must come from the run's own microbatches
  bool stored = false;            ///< true: lowered lists, with which tests compare other engines
  std::string stalled{};  ///< description of how the placement rounds have stalled; empty if they have not
};

struct RuledOutEngine {
  RunEngine engine = RunEngine::stream;
  std::string reason;

  friend bool operator==(const RuledOutEngine&, const RuledOutEngine&) = default;
};

/// The engine of a run, and the reasons for it.
struct RunPlan {
  RunEngine engine = RunEngine::stream;
  std::vector<RuledOutEngine> ruled_out;  ///< engines before it in the table, with the reasons against them
  bool is_long = false;       ///< true: a stream of too many actions for a digest or for repeated passes
  bool shares_links = false;  ///< true: stages may send over the same links
  double bytes = 0;           ///< least memory of the run, in bytes; 0: hardly any, or not known

  friend bool operator==(const RunPlan&, const RunPlan&) = default;
};

/// A description of how the placement rounds have stalled. Then only the walk over lowered lists can find out
/// whether the program hangs.
struct StalledTurns {
  std::string message;
};

/// A function that returns the bytes of memory that a run may use, or nothing if they are not known.
using MemoryBudget = std::function<std::optional<Bytes>()>;

/// Returns the engine for the experiment, in whichever form its program is. Error: no engine can run it,
/// because it has too many actions or needs more memory than the budget.
tl::expected<RunPlan, std::string> plan_run(const Experiment& experiment, const Wanted& wanted,
                                            const MemoryBudget& budget);

/// Returns the best form of the program for the run of such a scenario.
ProgramForm form_of_run(const Preparation& begun, const Wanted& wanted);

/// Returns why the run is too long, before its program is generated. Returns nothing if it may not be too
/// long.
std::optional<std::string> length_refusal(const Preparation& begun, const Wanted& wanted,
                                          const MemoryBudget& budget);

/// Returns the plan as a table with one line for each engine: whether it runs, or the reason against it.
std::string plan_text(const RunPlan& plan, const Wanted& wanted);

}  // namespace penstock
