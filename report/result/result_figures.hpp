#pragma once
// The figures of a Result as tables and sentences, shared by the terminal table and the HTML report.

#include <cstdint>
#include <string>
#include <vector>

#include "report/print/memory_category.hpp"
#include "report/print/table.hpp"
#include "report/result/result.hpp"

namespace penstock {

/// One figure with its name: {"makespan", "138.522 ms"}.
struct Headline {
  std::string name;
  std::string figure;

  friend bool operator==(const Headline&, const Headline&) = default;
};

/// K: ranks of one pipeline. Of a result that does not say it the fewer of stages and ranks.
std::int32_t pipeline_size(const ProgramReport& program);

/// Schedule and shape, makespan, the three bubbles, throughput, memory where a part is reserved, traffic.
std::vector<Headline> headlines(const Result& result);
/// A row a rank: device, busy, idle, exposed communication, peak memory (beside the capacity that it is
/// above), live activations, versions, traffic.
Table rank_figures(const Result& result);
/// A row a rank: each category's own peak, for the categories that some rank uses.
Table peak_figures(const Result& result);
/// A row a link; no rows when nothing crossed one.
Table link_figures(const Result& result);
/// Returns what there is for a rank's memory: "80.00 GiB", or "76.65 GiB usable of 80.00 GiB" where a part of
/// its device is reserved. Requires a capacity.
std::string available_text(const RankMemory& memory);
/// For each rank that does not fit: which device, what it needs and has, and which action reaches the peak.
std::vector<std::string> out_of_memory_lines(const Result& result);
/// The categories that some rank uses, in the order of the enum.
std::vector<MemoryCategory> used_categories(const Result& result);

}  // namespace penstock
