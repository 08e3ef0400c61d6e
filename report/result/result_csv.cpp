
#include "report/result/result_csv.hpp"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

#include "report/print/memory_category.hpp"
#include "report/print/text_sink.hpp"
#include "report/print/units.hpp"
#include "report/result/figure_rows.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "text/escaping.hpp"

namespace penstock {

void write_timeline_csv(const Timeline& timeline, const TextSink& sink) {
  LineBuffer lines(sink);
  lines.text() = "rank,action,stage,microbatch,replica,weight_version,start_ns,end_ns\n";
  for (const Span& span : timeline.spans) {
    const Action& action = span.action;
    const std::string microbatch = has_microbatch(action.kind) ? std::to_string(action.microbatch) : "";
    fmt::format_to(std::back_inserter(lines.text()), FMT_COMPILE("{},{},{},{},{},{},{},{}\n"), span.rank,
                   to_text(action), action.stage, microbatch, span.replica, action.weight_version,
                   span.start_ns, span.end_ns);
    if (!lines.end_line()) return;
  }
  lines.flush();
}

std::string ranks_to_csv(const Result& result) {
  std::string csv = "rank,device";
  for (const RankFigure& figure : figures_of_ranks()) csv += fmt::format(",{}", figure.key);
  csv += ",capacity_bytes,usable_bytes,out_of_memory";
  for (std::size_t i = 0; i < kMemoryCategoryCount; ++i) {
    csv += fmt::format(",peak_{}", to_text(static_cast<MemoryCategory>(i)));
  }
  csv += '\n';
  for (const RankReport& rank : result.ranks) {
    const RankMemory& memory = rank.memory;
    const auto shown = [&](Bytes amount) {
      return memory.unit == MemoryUnit::bytes ? fmt::to_string(amount)
                                              : shortest_number(shown_amount(amount, memory.unit));
    };
    csv += fmt::format("{},{}", rank.rank, csv_field(rank.device));
    for (const RankFigure& figure : figures_of_ranks()) {
      const std::int64_t value = figure.get(rank);
      csv += fmt::format(",{}", figure.unit == FigureUnit::memory ? shown(value) : fmt::to_string(value));
    }
    csv += fmt::format(",{},{},{}", memory.capacity ? shown(*memory.capacity) : "",
                       memory.capacity ? shown(*memory.usable()) : "", memory.out_of_memory());
    for (const Bytes peak : memory.peaks) csv += fmt::format(",{}", shown(peak));
    csv += '\n';
  }
  return csv;
}

}  // namespace penstock
