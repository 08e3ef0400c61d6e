// Makes the timeline of a run. During the run, each worker writes starts and ends into its own elements of
// one table. Recording therefore needs no lock and allocates no memory. Afterwards the earliest start is
// subtracted from all times.

#include "backend/executor/recorder.hpp"

#include <algorithm>
#include <limits>

#include "report/timeline/timeline.hpp"
#include "report/timeline/walk_timeline.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

Timeline recorded_timeline(const FlatProgram& flat, const Placement& placement, const ProgramTimes& times) {
  Timeline timeline = timeline_of(flat, placement, times);
  Ns first = std::numeric_limits<Ns>::max();
  for (const Span& span : timeline.spans) first = std::min(first, span.start_ns);
  for (Span& span : timeline.spans) {
    span.start_ns -= first;
    span.end_ns -= first;
  }
  // Without spans, `first` is not a time.
  timeline.makespan_ns -= timeline.spans.empty() ? 0 : first;
  return timeline;
}

}  // namespace penstock
