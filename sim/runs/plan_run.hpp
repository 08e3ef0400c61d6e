#pragma once
// Chooses the engine of a run from one table of engines:
//
//   engine   method                                                 memory grows with
//   stream   generates actions from loops, and jumps                the program's loops
//   turns    placement rounds write a tape from the compute lists   actions
//   tape     lowered lists are compiled into a tape                 actions
//   event    a clock jumps from event to event; links are shared    actions
//
// The first engine without a reason against it runs. Later engines of the table store more.

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

/// The figures that the caller wants: all figures, or only those of a sweep's points. The result for a point
/// has no digest. Unless a streamed walk finds them, its exposed communication, live activations, weight
/// versions and traffic are 0.
enum class WantedFigures : std::uint8_t { all, of_rows };

/// The outputs that a run must give.
struct Wanted {
  Engine asked = Engine::automatic;  ///< engine that the user has chosen
  WantedFigures figures = WantedFigures::all;
  bool timeline = false;  ///< true if the caller wants the start and end of every action
  /// True if the caller wants each rank's memory over time, false for its peak only.
  bool memory_over_time = false;
  bool own_period = false;  ///< true if the steady rate must come from the run's own microbatches
  /// True if the run must use lowered lists, which contain SENDs and RECVs. Tests compare other engines with
  /// such a run.
  bool stored = false;
  std::string stalled{};  ///< message of placement rounds that have stalled; empty if no rounds have stalled
};

struct RuledOutEngine {
  RunEngine engine = RunEngine::stream;
  std::string reason;

  friend bool operator==(const RuledOutEngine&, const RuledOutEngine&) = default;
};

/// The engine of a run, with the reasons for the choice.
struct RunPlan {
  RunEngine engine = RunEngine::stream;
  std::vector<RuledOutEngine> ruled_out;  ///< earlier engines of the table, and the reasons against them
  bool is_long = false;  ///< true if the stream has too many actions for a digest and for repeated passes
  bool shares_links = false;  ///< true if different stages may send over the same links
  double bytes = 0;  ///< lower bound of the run's memory, in bytes; 0 for a stream, which stores only loops

  friend bool operator==(const RunPlan&, const RunPlan&) = default;
};

/// The message that the placement rounds have stalled, with the reason. Only ListWalk, which reads the
/// lowered lists, can then decide if the program hangs.
struct StalledTurns {
  std::string message;
};

/// A function that returns the bytes of memory that a run may use, or nothing if they are not known.
using MemoryBudget = std::function<std::optional<Bytes>()>;

/// Returns the engine for an experiment and the reasons against earlier engines. The program may have lists
/// or loops. Returns an error if no engine can run the program, because it has too many actions or needs
/// more memory than the budget.
tl::expected<RunPlan, std::string> plan_run(const Experiment& experiment, const Wanted& wanted,
                                            const MemoryBudget& budget);

/// Returns the form of the program, lists or loops, that suits the wanted run best.
ProgramForm form_of_run(const Preparation& begun, const Wanted& wanted);

/// Returns the reason why the run is too long, before the program is generated. Returns nothing if the run
/// may be possible.
std::optional<std::string> length_refusal(const Preparation& begun, const Wanted& wanted,
                                          const MemoryBudget& budget);

/// Returns the plan as a table with one line for each engine. The line states that the engine runs, that it
/// is not needed, or why it cannot run.
std::string plan_text(const RunPlan& plan, const Wanted& wanted);

}  // namespace penstock
