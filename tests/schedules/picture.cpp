// Slots are starts and ends of the rendezvous walk with durations of one.

#include "tests/schedules/picture.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/passes/lower.hpp"

namespace penstock {

std::vector<std::string> picture(const Program& compute_program) {
  const auto lowered = lower(compute_program);
  if (!lowered) throw std::runtime_error(lowered.error());
  const FlatProgram flat = flatten(*lowered, unit_costs(*lowered), {.channels = {}});
  WalkDurations slots{.compute = std::vector<Ns>(flat.ops.size(), 0), .hold = {}, .latency = {}};
  for (std::size_t p = 0; p < flat.ops.size(); ++p) {
    slots.compute[p] = flat.ops[p] == FlatOp::compute && flat.actions[p].kind != ActionKind::step ? 1 : 0;
  }
  const auto times = walk(flat, slots, {});
  const bool several_stages = lowered->stage_count() > lowered->rank_count();
  const auto text_of = [&](std::size_t position) {
    const std::string text = to_text(flat.actions[position]);
    return several_stages ? text : text.substr(text.find_first_not_of("0123456789"));
  };
  std::vector<std::vector<std::string>> cells(flat.rank_begin.size() - 1);  // by rank, then slot
  std::vector<std::size_t> widths;                                          // by slot
  for (std::size_t p = 0; p < flat.ops.size(); ++p) {
    if (slots.compute[p] == 0) continue;
    const auto slot = static_cast<std::size_t>(times->start[p]);
    auto& row = cells[static_cast<std::size_t>(flat.rank_of(static_cast<std::int32_t>(p)))];
    row.resize(slot + 1);
    row[slot] = text_of(p);
    for (std::size_t leaf = p; flat.actions[leaf].overlaps_next; ++leaf) row[slot] += "&" + text_of(leaf + 1);
    if (widths.size() <= slot) widths.resize(slot + 1, several_stages ? 3 : 2);
    widths[slot] = std::max(widths[slot], row[slot].size());
  }
  std::vector<std::string> rows;
  for (std::size_t rank = 0; rank < cells.size(); ++rank) {
    std::string row = fmt::format("rank {}  ", rank);
    for (std::size_t slot = 0; slot < cells[rank].size(); ++slot) {
      row += fmt::format(" {:<{}}", cells[rank][slot], widths[slot]);
    }
    rows.push_back(row.substr(0, row.find_last_not_of(' ') + 1));
  }
  return rows;
}

}  // namespace penstock
