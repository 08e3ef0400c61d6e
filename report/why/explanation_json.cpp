// Writes an explanation of a run as JSON and as CSV. Times are whole nanoseconds, and parts keep their
// signs. Intervals and chains are written as text directly, because there may be one for each action.
// explanation_text.cpp writes the explanation for a terminal. Tests: tests/cli/transcripts/explain.txt.

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/print/text_sink.hpp"
#include "report/print/units.hpp"
#include "report/result/json_text.hpp"
#include "report/why/explanation.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

Json causes_json(const CauseTimes& causes) {
  Json object = Json::object();
  for (std::size_t c = 0; c < kIdleCauses; ++c) {
    if (causes[c] != 0) object[std::string(to_text(static_cast<IdleCause>(c)))] = causes[c];
  }
  return object;
}

Json chain_json(const std::vector<ChainLink>& chain) {
  Json links = Json::array();
  for (const ChainLink& link : chain) {
    links.push_back({{"from_ns", link.from_ns},
                     {"to_ns", link.to_ns},
                     {"what", to_text(link.what)},
                     {"rank", link.rank},
                     {"name", link.name}});
  }
  return links;
}

Json interval_json(const IdleInterval& interval) {
  Json object = {{"rank", interval.rank},
                 {"before", interval.before.empty() ? Json(nullptr) : Json(interval.before)},
                 {"phase", to_text(interval.phase)},
                 {"start_ns", interval.start_ns},
                 {"end_ns", interval.end_ns},
                 {"ideal_ns", interval.ideal_ns},
                 {"causes", causes_json(interval.causes)},
                 {"chain", chain_json(interval.chain)},
                 {"ready", nullptr}};
  if (interval.ready)
    object["ready"] = {{"action", interval.ready->action}, {"since_ns", interval.ready->since_ns}};
  return object;
}

Json line_json(const BillLine& line) {
  Json object = {{"cause", line.cause}, {"idle_ns", line.idle_ns}};
  object["without_ns"] = line.without_ns ? Json(*line.without_ns) : Json(nullptr);
  object["alone_ns"] = line.alone_ns ? Json(*line.alone_ns) : Json(nullptr);
  object["items"] = Json::array();
  for (const CauseItem& item : line.items)
    object["items"].push_back({{"item", item.item}, {"makespan_ns", item.makespan_ns}});
  return object;
}

Json rank_idle_json(const RankIdle& rank) {
  Json causes = Json::object();
  for (std::size_t phase = 0; phase < kIdlePhases; ++phase)
    causes[std::string(to_text(static_cast<IdlePhase>(phase)))] = rank.ideal[phase];
  causes.update(causes_json(rank.causes));
  return {{"rank", rank.rank}, {"idle_ns", rank.idle_ns}, {"causes", std::move(causes)}};
}

Json lever_json(const Lever& lever, MemoryUnit unit) {
  Json object = {{"lever", lever.lever}, {"makespan_ns", lever.makespan_ns}, {"gain", lever.gain}};
  object["peak_bytes"] = lever.peak ? amount_json<Json>(*lever.peak, unit) : Json(nullptr);
  if (lever.peak) object["fits"] = lever.fits;
  return object;
}

}  // namespace

void write_explanation_json(const Explanation& why, const TextSink& sink) {
  Json document = {{"schema_version", 1},
                   {"kind", "explanation"},
                   {"scenario", why.name},
                   {"schedule", why.schedule},
                   {"makespan_ns", why.makespan_ns},
                   {"busy_mean_ns", why.busy_ns / why.ranks},
                   {"ideal_ns", why.ideal_ns},
                   {"bound_ns", why.bound_ns},
                   {"slowdown", why.ideal_ns == 0 ? Json(nullptr)
                                                  : Json(static_cast<double>(why.makespan_ns) /
                                                         static_cast<double>(why.ideal_ns))}};
  document["causes"] = Json::array();
  for (const BillLine& line : why.bill) document["causes"].push_back(line_json(line));
  document["ranks"] = Json::array();
  for (const RankIdle& rank : why.rank_idle) document["ranks"].push_back(rank_idle_json(rank));
  document["critical_path"] = chain_json(why.critical_path);
  document["levers"] = Json::array();
  for (const Lever& lever : why.levers) document["levers"].push_back(lever_json(lever, why.memory_unit));
  if (why.memory_limit) {
    document["memory_limit"] = {{"within_ns", why.memory_limit->within_ns},
                                {"with_all_ns", why.memory_limit->with_all_ns},
                                {"cost_ns", why.memory_limit->cost_ns()},
                                {"seconds", why.memory_limit->seconds}};
  }
  document["notes"] = why.notes;
  constexpr std::string_view kEnd = "\n}\n";
  LineBuffer lines(sink);
  const std::string text = document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
  lines.text() = text.substr(0, text.size() - kEnd.size());
  lines.text() += ",\n  \"intervals\": [";
  const char* separator = "\n    ";
  for (const IdleInterval& interval : why.intervals) {
    lines.text() += std::exchange(separator, ",\n    ");
    lines.text() += interval_json(interval).dump();
    if (!lines.end_line()) return;
  }
  lines.text() += why.intervals.empty() ? "]" : "\n  ]";
  lines.text() += kEnd;
  lines.flush();
}

void write_explanation_csv(const Explanation& why, const TextSink& sink) {
  LineBuffer lines(sink);
  lines.text() = "rank,before,phase,start_ns,end_ns,ideal_ns";
  for (std::size_t c = 0; c < kIdleCauses; ++c) {
    std::string word(to_text(static_cast<IdleCause>(c)));
    for (char& letter : word) letter = letter == ' ' ? '_' : letter;
    lines.text() += fmt::format(",{}_ns", word);
  }
  lines.text() += ",ready\n";
  for (const IdleInterval& interval : why.intervals) {
    if (!lines.end_line()) return;
    lines.text() += fmt::format("{},{},{},{},{},{}", interval.rank, interval.before, to_text(interval.phase),
                                interval.start_ns, interval.end_ns, interval.ideal_ns);
    for (const Ns part : interval.causes) lines.text() += fmt::format(",{}", part);
    lines.text() += fmt::format(",{}\n", interval.ready ? interval.ready->action : "");
  }
  lines.flush();
}

}  // namespace penstock
