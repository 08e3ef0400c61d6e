#include "report/timeline/host_copies.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "report/timeline/spans.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {

HostStays host_stays(Spans spans) {
  HostStays stays;
  const auto is_copy = [](const Span& span) { return is_host_copy(span.action.kind); };
  if (std::ranges::none_of(spans, is_copy)) return stays;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Action& action = spans[i].action;
    if (!is_copy(spans[i])) continue;
    HostStay& stay = stays[{action.stage, action.microbatch}];
    (action.kind == ActionKind::offload ? stay.released_by : stay.reload) = static_cast<std::int32_t>(i);
  }
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Action& action = spans[i].action;
    if (action.kind != ActionKind::send_forward) continue;
    const auto stay = stays.find({action.stage, action.microbatch});
    if (stay == stays.end() || stay->second.released_by < 0) continue;
    if (spans[i].end_ns > spans[index(stay->second.released_by)].end_ns)
      stay->second.released_by = static_cast<std::int32_t>(i);
  }
  return stays;
}

}  // namespace penstock
