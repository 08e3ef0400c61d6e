// Two flat files for tools without JSON: a line a span, a line a rank. Numbers are exact (nanoseconds,
// bytes), and a cell is empty where a figure does not apply. The columns of categories follow the enum.

#include "report/result/result_csv.hpp"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <cstddef>
#include <iterator>
#include <string>

#include "report/print/escaping.hpp"
#include "report/print/memory_category.hpp"
#include "report/print/text_sink.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"

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
  std::string csv =
      "rank,device,busy_ns,idle_ns,exposed_communication_ns,peak_bytes,peak_live_activations,weight_versions,"
      "sent_bytes,received_bytes,capacity_bytes,usable_bytes,out_of_memory";
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
    fmt::format_to(std::back_inserter(csv), "{},{},{},{},{},{},{},{},{},{},{},{},{}", rank.rank,
                   csv_field(rank.device), rank.busy_ns, rank.idle_ns, rank.exposed_communication_ns,
                   shown(memory.peak_bytes), rank.peak_live_activations, rank.weight_versions,
                   rank.sent_bytes, rank.received_bytes, memory.capacity ? shown(*memory.capacity) : "",
                   memory.capacity ? shown(*memory.usable()) : "", memory.out_of_memory());
    for (const Bytes peak : memory.peaks) csv += fmt::format(",{}", shown(peak));
    csv += '\n';
  }
  return csv;
}

}  // namespace penstock
