// Slots are starts and ends of the rendezvous walk with durations of one.

#include "tests/schedules/picture.hpp"

#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "schedules/flat_program.hpp"
#include "schedules/lower.hpp"
#include "schedules/rendezvous_walk.hpp"

namespace penstock {

std::vector<std::string> picture(const Program& compute_program) {
  const auto lowered = lower(compute_program);
  if (!lowered) throw std::runtime_error(lowered.error());
  const FlatProgram flat = flatten(*lowered, unit_costs(*lowered), {.channels = {}});
  WalkDurations slots{.compute = std::vector<Ns>(flat.ops.size(), 0), .hold = {}, .latency = {}};
  for (std::size_t p = 0; p < flat.ops.size(); ++p) {
    slots.compute[p] = flat.ops[p] == FlatOp::compute && flat.actions[p].kind != ActionKind::step ? 1 : 0;
  }
  const Walk walked = walk(flat, slots, {});
  const bool several_stages = lowered->stage_count() > lowered->rank_count();
  const std::size_t width = several_stages ? 4 : 3;
  std::vector<std::string> rows;
  for (std::int32_t rank = 0; rank < flat.rank_count; ++rank) {
    std::string row;
    for (auto p = static_cast<std::size_t>(flat.rank_begin[static_cast<std::size_t>(rank)]);
         p < static_cast<std::size_t>(flat.rank_begin[static_cast<std::size_t>(rank) + 1]); ++p) {
      if (slots.compute[p] == 0) continue;
      row.resize(static_cast<std::size_t>(walked.start[p]) * width, ' ');
      const std::string text = to_text(flat.actions[p]);
      row += several_stages ? text : text.substr(text.find_first_not_of("0123456789"));
    }
    rows.push_back(fmt::format("rank {}   {}", rank, row));
  }
  return rows;
}

}  // namespace penstock
