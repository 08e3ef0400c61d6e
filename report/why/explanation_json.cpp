// Writes an explanation of a run as JSON and as CSV. Times are whole nanoseconds, and parts keep their
// signs. Intervals and chains are written as text directly, because there may be one for each action.
// explanation_text.cpp writes the explanation for a terminal. Tests: tests/cli/transcripts/explain.txt.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/result/result_json.hpp"
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

Json lever_json(const Explanation& why, const Lever& lever) {
  Json object = {{"lever", lever.lever}, {"makespan_ns", lever.makespan_ns}, {"gain", lever.gain}};
  // If the change alters the number of samples, the difference of the makespans is not a gain.
  object["gain_ns"] = lever.is_per_sample ? Json(nullptr) : Json(why.makespan_ns - lever.makespan_ns);
  object["peak_bytes"] = lever.peak ? amount_json<Json>(*lever.peak, why.memory_unit) : Json(nullptr);
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
  for (const Lever& lever : why.levers) document["levers"].push_back(lever_json(why, lever));
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

// Rounds the parts of a time, and compares the bills of two runs line by line. A bill divides a makespan
// into the causes of its time. Both bills add up to their makespans, so the changes of their lines add up
// to the change of the makespan. Tests: tests/sim/why_test.cpp.

std::vector<Ns> rounded_parts(std::vector<double> parts, Ns sum) {
  std::vector<Ns> whole(parts.size(), 0);
  if (parts.empty()) return whole;
  const auto largest = std::ranges::max_element(parts, {}, [](double part) { return std::abs(part); });
  *largest += static_cast<double>(sum) - std::accumulate(parts.begin(), parts.end(), 0.0);
  Ns missing = sum;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    whole[i] = static_cast<Ns>(std::floor(parts[i]));
    missing -= whole[i];
  }
  std::vector<std::size_t> by_fraction(parts.size());
  std::iota(by_fraction.begin(), by_fraction.end(), 0);
  std::ranges::stable_sort(by_fraction, std::greater<>(),
                           [&](std::size_t i) { return parts[i] - std::floor(parts[i]); });
  // Normally, each part changes by at most 1. Because of rounding errors in doubles, `missing` may exceed the
  // number of parts by 1, so the loops can start again at the first part.
  for (std::size_t i = 0; missing > 0; i = (i + 1) % parts.size(), --missing) ++whole[by_fraction[i]];
  for (std::size_t i = parts.size() - 1; missing < 0; i = i == 0 ? parts.size() - 1 : i - 1, ++missing)
    --whole[by_fraction[i]];
  return whole;
}

MeanBill mean_bill(const Explanation& explanation) {
  std::vector<double> means = {static_cast<double>(explanation.busy_ns) / explanation.ranks};
  for (const BillLine& line : explanation.bill)
    means.push_back(static_cast<double>(line.idle_ns) / explanation.ranks);
  const std::vector<Ns> whole = rounded_parts(std::move(means), explanation.makespan_ns);
  MeanBill bill{.makespan_ns = explanation.makespan_ns, .lines = {{"work", whole.front()}}};
  for (std::size_t i = 0; i < explanation.bill.size(); ++i)
    bill.lines.push_back({explanation.bill[i].cause, whole[i + 1]});
  return bill;
}

std::vector<BillChange> changes_of(const MeanBill& before, const MeanBill& after) {
  std::vector<BillChange> changes;
  changes.reserve(before.lines.size() + after.lines.size());
  for (const MeanLine& line : before.lines) changes.push_back({line.cause, line.mean_ns, 0});
  for (const MeanLine& line : after.lines) {
    const auto known = std::ranges::find(changes, line.cause, &BillChange::cause);
    if (known == changes.end()) {
      changes.push_back({line.cause, 0, line.mean_ns});
    } else {
      known->after_ns = line.mean_ns;
    }
  }
  std::erase_if(changes, [](const BillChange& change) { return change.before_ns == change.after_ns; });
  std::ranges::stable_sort(changes, std::ranges::greater{}, [](const BillChange& change) {
    return std::abs(change.after_ns - change.before_ns);
  });
  return changes;
}

std::vector<std::string> change_lines(const MeanBill& before, const MeanBill& after) {
  const auto with_plus = [](Ns ns) {
    return fmt::format("{}{}", ns < 0 ? "-" : "+", format_duration(std::abs(ns)));
  };
  const auto signed_text = [](Ns ns) {
    return fmt::format("{}{}", ns < 0 ? "-" : "", format_duration(std::abs(ns)));
  };
  std::vector<std::string> lines = {fmt::format("the makespan changes by {}, of which a rank has on average:",
                                                with_plus(after.makespan_ns - before.makespan_ns))};
  for (const BillChange& change : changes_of(before, after)) {
    lines.push_back(fmt::format("  {:>12}  {}: {} -> {}", with_plus(change.after_ns - change.before_ns),
                                change.cause, signed_text(change.before_ns), signed_text(change.after_ns)));
  }
  return lines;
}

}  // namespace penstock
