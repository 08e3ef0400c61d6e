#include "backend/recorder.hpp"

#include <algorithm>
#include <limits>

#include "report/timeline.hpp"
#include "report/walk_timeline.hpp"
#include "schedules/action.hpp"
#include "schedules/flat_program.hpp"
#include "schedules/program.hpp"
#include "schedules/rendezvous_walk.hpp"

namespace penstock {

Walk empty_times(const FlatProgram& flat) {
  Walk times;
  times.start.assign(flat.ops.size(), 0);
  times.end.assign(flat.ops.size(), 0);
  times.message_start.assign(flat.messages.size(), 0);
  times.message_end.assign(flat.messages.size(), 0);
  return times;
}

Timeline recorded_timeline(const FlatProgram& flat, const Placement& placement, const Walk& times) {
  Timeline timeline = timeline_of(flat, placement, times);
  Ns first = std::numeric_limits<Ns>::max();
  for (const Span& span : timeline.spans) first = std::min(first, span.start_ns);
  for (Span& span : timeline.spans) {
    span.start_ns -= first;
    span.end_ns -= first;
  }
  timeline.makespan_ns -= timeline.spans.empty() ? 0 : first;
  return timeline;
}

}  // namespace penstock
