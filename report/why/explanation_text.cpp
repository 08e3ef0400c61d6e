// Writes an explanation as text: the bill (the makespan divided into causes), what to correct first, and a
// line for each rank. If the user selects idle intervals, it writes what the rank waited for in each of
// them. The bill and the levers (changes of the experiment) have times of the whole run. Idle times are
// means over the ranks, so that they can be compared with the makespan. Tests:
// tests/cli/transcripts/explain.txt.

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/why/explanation.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "text/escaping.hpp"
#include "text/numbers.hpp"

namespace penstock {
namespace {

constexpr std::size_t kMostItems = 4;   // the largest number of items that the line of a cause lists
constexpr std::size_t kMostRows = 32;   // the largest number of ranks in the table
constexpr std::size_t kMostLinks = 12;  // the largest number of lines for a chain of causes

/// The unit in which a text shows all times, so that they can be compared at sight. It is chosen for the
/// makespan.
class TimeForm {
 public:
  explicit TimeForm(Ns makespan_ns) {
    if (makespan_ns >= 100'000'000'000) {
      unit_ = {1e9, "s"};
    } else if (makespan_ns >= 1'000'000) {
      unit_ = {1e6, "ms"};
    } else if (makespan_ns >= 1000) {
      unit_ = {1e3, "us"};
    }
  }

  std::string text(Ns ns) const {
    return fmt::format("{:.{}f} {}", static_cast<double>(ns) / unit_.first, unit_.first > 1 ? 3 : 0,
                       unit_.second);
  }
  /// Returns a time as text with its sign. A time of 0 has no sign.
  std::string with_sign(Ns ns) const { return fmt::format("{}{}", ns > 0 ? "+" : "", text(ns)); }
  Cell cell(Ns ns) const { return {text(ns), static_cast<double>(ns)}; }

 private:
  std::pair<double, const char*> unit_{1, "ns"};
};

double part_of(Ns part, Ns whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// Returns the reason for a cause of time, or the links or stages that add most of the time, as text.
std::string where_text(const BillLine& line, const TimeForm& unit) {
  if (line.cause == "fill" || line.cause == "drain") return "any order of these actions needs it";
  if (line.cause == "order") return "the order of the lists";
  if (line.cause == "barrier") return "ranks wait for each other between iterations";
  if (line.cause == "blocking") return "ranks wait for each of their transfers";
  if (line.cause == "capacity") return "full channels";
  if (line.cause == "launch order") return "messages wait for what was launched before them";
  std::vector<std::string> items;
  for (const CauseItem& item : line.items) {
    if (items.size() == kMostItems) break;
    items.push_back(fmt::format("{} {}", item.item, unit.with_sign(item.makespan_ns)));
  }
  if (line.items.size() > items.size())
    items.push_back(fmt::format("{} more", line.items.size() - items.size()));
  return fmt::format("{}", fmt::join(items, ", "));
}

/// Returns a text on the peak memory after a change of the experiment. It is empty if the change does not
/// alter the order.
std::string peak_text(const Explanation& why, const Lever& lever) {
  // A peak of 0 means that the scenario states no sizes, so the memory is not known.
  if (!lever.peak || (*lever.peak == 0 && why.peak.value_or(0) == 0)) return "";
  if (why.peak == lever.peak)
    return fmt::format("{} on the fullest rank, as now", format_memory(*lever.peak, why.memory_unit));
  return fmt::format("{} on the fullest rank{}", format_memory(*lever.peak, why.memory_unit),
                     lever.fits ? "" : ", which its device does not have");
}

/// Returns a sentence about the time that the memory limit costs. It is empty if no search for better
/// orders was made.
std::string memory_limit_text(const Explanation& why) {
  if (!why.memory_limit) return "";
  const MemoryLimitCost& found = *why.memory_limit;
  return fmt::format(
      "\nthe memory limit costs {}: the best order found takes {} with today's activations of each "
      "rank, and {} with all of the memory ({:g} s of search)\n",
      format_duration(found.cost_ns()), format_duration(found.within_ns), format_duration(found.with_all_ns),
      found.seconds);
}

std::string levers_text(const Explanation& why, std::size_t width) {
  const Table table = lever_table(why);
  std::string text = table.rows.empty() ? "" : "\n" + table_to_text(table, width);
  if (why.smaller_levers > 0)
    text += fmt::format("\n{} gain less\n", format_count(why.smaller_levers, "other change"));
  return text + memory_limit_text(why);
}

/// Returns a text that names the last action for which the rank waited in an idle interval, and this
/// action's rank.
std::string awaited_text(const IdleInterval& interval) {
  const ChainLink* awaited = nullptr;
  for (const ChainLink& link : interval.chain) {
    if (link.what == ChainKind::compute && link.rank != interval.rank) awaited = &link;
  }
  if (awaited == nullptr && !interval.chain.empty()) awaited = &interval.chain.back();
  return awaited == nullptr ? "" : fmt::format(": waits for {} of rank {}", awaited->name, awaited->rank);
}

std::string end_text(const IdleInterval& interval) {
  return interval.before.empty() ? "at the end" : fmt::format("before {}", interval.before);
}

/// Returns the longest idle interval of each rank, or null for a rank that is never idle.
std::vector<const IdleInterval*> longest_waits(const Explanation& why) {
  std::vector<const IdleInterval*> longest(index(why.ranks), nullptr);
  for (const IdleInterval& interval : why.intervals) {
    const IdleInterval*& known = longest[index(interval.rank)];
    if (known == nullptr || interval.end_ns - interval.start_ns > known->end_ns - known->start_ns)
      known = &interval;
  }
  return longest;
}

Table rank_rows(const Explanation& why) {
  const TimeForm unit(why.makespan_ns);
  CauseTimes present{};
  for (const RankIdle& rank : why.rank_idle) {
    for (std::size_t c = 0; c < kIdleCauses; ++c) present[c] |= rank.causes[c] != 0 ? 1 : 0;
  }
  const std::vector<const IdleInterval*> longest = longest_waits(why);
  // A phase of a rank is not the line of the same name in the bill, so its heading has another name.
  Table table{.columns = {"rank", "idle", "fill phase", "drain phase", "between"}, .rows = {}};
  for (std::size_t c = 0; c < kIdleCauses; ++c) {
    if (present[c] != 0) table.columns.emplace_back(to_text(static_cast<IdleCause>(c)));
  }
  table.columns.emplace_back("the longest wait");
  for (const RankIdle& rank : why.rank_idle) {
    if (table.rows.size() == kMostRows) break;
    std::vector<Cell> row = {count_cell(rank.rank), unit.cell(rank.idle_ns)};
    for (const IdlePhase phase : {IdlePhase::fill, IdlePhase::drain, IdlePhase::order})
      row.push_back(unit.cell(rank.ideal[static_cast<std::size_t>(phase)]));
    for (std::size_t c = 0; c < kIdleCauses; ++c) {
      if (present[c] != 0) row.push_back(unit.cell(rank.causes[c]));
    }
    const IdleInterval* const wait = longest[index(rank.rank)];
    row.push_back(text_cell(wait == nullptr || wait->end_ns == wait->start_ns
                                ? ""
                                : fmt::format("{} {}{}", unit.text(wait->end_ns - wait->start_ns),
                                              end_text(*wait), awaited_text(*wait))));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string ranks_text(const Explanation& why, std::size_t width) {
  std::string text = table_to_text(rank_rows(why), width);
  if (why.rank_idle.size() > kMostRows)
    text += fmt::format("and {} more ranks; --rank R shows one\n", why.rank_idle.size() - kMostRows);
  const bool has_negative = std::ranges::any_of(why.rank_idle, [](const RankIdle& rank) {
    return std::ranges::any_of(rank.causes, [](Ns ns) { return ns < 0; });
  });
  if (has_negative) {
    text +=
        "a negative time makes the waits of a rank shorter: it waits for shorter work than in the ideal run, "
        "or "
        "computes longer itself\n";
  }
  return text;
}

/// Returns the stage of an action's name, such as 3 for "3F5". Returns nothing for another text.
std::optional<std::size_t> stage_of_name(std::string_view name) {
  return leading_number<std::size_t>(name).value;
}

/// Returns the reason why the imbalance of stages makes an idle interval shorter, such as ", since stage 0 is
/// shorter". The rank waits for a stage that takes less than in the ideal run, or it computed a stage that
/// takes more.
std::string shorter_text(const Explanation& why, const IdleInterval& interval) {
  std::optional<std::size_t> shortest;
  const auto imbalance = [&](std::size_t stage) {
    return stage < why.stage_imbalance.size() ? why.stage_imbalance[stage] : 0;
  };
  for (const ChainLink& link : interval.chain) {
    const auto stage = link.what == ChainKind::compute ? stage_of_name(link.name) : std::nullopt;
    if (stage && imbalance(*stage) < (shortest ? imbalance(*shortest) : 0)) shortest = stage;
  }
  if (shortest) return fmt::format(", since stage {} is shorter", *shortest);
  const auto own = stage_of_name(interval.before);
  return own && imbalance(*own) > 0 ? fmt::format(", since stage {} of the rank itself is longer", *own) : "";
}

/// Returns the parts of an idle interval as text, such as "fill 6.750 ms, imbalance 0.750 ms, less 0.100 ms
/// of variation".
std::string parts_text(const Explanation& why, const IdleInterval& interval, const TimeForm& unit) {
  std::vector<std::pair<Ns, std::string_view>> parts = {{interval.ideal_ns, to_text(interval.phase)}};
  for (std::size_t c = 0; c < kIdleCauses; ++c)
    parts.emplace_back(interval.causes[c], to_text(static_cast<IdleCause>(c)));
  std::ranges::stable_sort(parts, std::ranges::greater{}, [](const auto& part) { return part.first; });
  std::vector<std::string> texts;
  for (const auto& [ns, word] : parts) {
    if (ns > 0) texts.push_back(fmt::format("{} {}", word, unit.text(ns)));
    if (ns >= 0) continue;
    const bool is_imbalance = word == to_text(IdleCause::imbalance);
    texts.push_back(fmt::format("less {} of {}{}", unit.text(-ns), word,
                                is_imbalance ? shorter_text(why, interval) : ""));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string link_text(const ChainLink& link, const TimeForm& unit) {
  const auto says = [&] {
    switch (link.what) {
      case ChainKind::compute:
        return fmt::format("{} computes on rank {}", link.name, link.rank);
      case ChainKind::transfer:
        return fmt::format("{} of rank {} is sent", link.name, link.rank);
      case ChainKind::queue:
        return fmt::format("{} of rank {} is sent before it in its channel", link.name, link.rank);
      case ChainKind::latency:
        return fmt::format("{} of rank {} is on its way", link.name, link.rank);
      case ChainKind::collective:
        return fmt::format("{} runs on rank {} and the others", link.name, link.rank);
      case ChainKind::launch:
        return fmt::format("{} is launched on rank {}", link.name, link.rank);
      case ChainKind::offload:
        return fmt::format("{} is copied on rank {}", link.name, link.rank);
    }
    return std::string();
  };
  return fmt::format("  {:>11} .. {:>11}  {}\n", unit.text(link.from_ns), unit.text(link.to_ns), says());
}

/// Returns the first line of the text on an idle interval: its rank, length, place and parts.
std::string interval_line(const Explanation& why, const IdleInterval& interval, const TimeForm& unit) {
  return fmt::format("rank {} idle {} {} ({} .. {}): {}", interval.rank,
                     unit.text(interval.end_ns - interval.start_ns), end_text(interval),
                     unit.text(interval.start_ns), unit.text(interval.end_ns),
                     parts_text(why, interval, unit));
}

std::string interval_text(const Explanation& why, const IdleInterval& interval, const TimeForm& unit) {
  std::string text = interval_line(why, interval, unit) + '\n';
  const std::size_t first = interval.chain.size() > kMostLinks ? interval.chain.size() - kMostLinks : 0;
  if (first > 0) text += fmt::format("  {} earlier steps\n", first);
  for (std::size_t i = first; i < interval.chain.size(); ++i) text += link_text(interval.chain[i], unit);
  text +=
      fmt::format("  in the ideal run it would {}; ",
                  interval.ideal_ns == 0 ? "not wait" : fmt::format("wait {}", unit.text(interval.ideal_ns)));
  return text + (interval.ready ? fmt::format("{}, which is later in its list, was ready since {}\n",
                                              interval.ready->action, unit.text(interval.ready->since_ns))
                                : "nothing later in its list was ready\n");
}

}  // namespace

std::string idle_sentence(const Explanation& why) {
  const TimeForm unit(why.makespan_ns);
  const Ns busy = why.busy_ns / why.ranks;
  return fmt::format("makespan {}; a rank computes for {} and is idle for {} ({})",
                     unit.text(why.makespan_ns), unit.text(busy), unit.text(why.makespan_ns - busy),
                     format_percent(part_of(why.idle_ns(), why.makespan_ns * why.ranks)));
}

std::vector<std::string> longest_wait_lines(const Explanation& why, std::size_t most) {
  const TimeForm unit(why.makespan_ns);
  std::vector<const IdleInterval*> waits;
  for (const IdleInterval& interval : why.intervals) {
    if (interval.end_ns > interval.start_ns) waits.push_back(&interval);
  }
  std::ranges::stable_sort(waits, std::ranges::greater{},
                           [](const IdleInterval* wait) { return wait->end_ns - wait->start_ns; });
  if (waits.size() > most) waits.resize(most);
  std::vector<std::string> lines;
  for (const IdleInterval* const wait : waits) {
    const std::string awaited = awaited_text(*wait);
    lines.push_back(interval_line(why, *wait, unit) + (awaited.empty() ? "" : ';' + awaited.substr(1)));
  }
  return lines;
}

Table bill_table(const Explanation& why) {
  const TimeForm unit(why.makespan_ns);
  std::vector<const BillLine*> lines;
  for (const BillLine& line : why.bill) {
    if (line.idle_ns != 0 || !line.items.empty()) lines.push_back(&line);
  }
  std::ranges::stable_sort(lines, std::ranges::greater{}, [](const BillLine* line) { return line->idle_ns; });
  Table table{.columns = {"cause", "idle", "of the run", "without it", "gain", "where"}, .rows = {}};
  const Ns all = why.makespan_ns * why.ranks;
  for (const BillLine* line : lines) {
    table.rows.push_back({text_cell(line->cause), unit.cell(line->idle_ns / why.ranks),
                          percent_cell(part_of(line->idle_ns, all)),
                          line->without_ns ? unit.cell(*line->without_ns) : Cell{},
                          line->without_ns ? unit.cell(why.makespan_ns - *line->without_ns) : Cell{},
                          text_cell(where_text(*line, unit))});
  }
  table.rows.push_back({text_cell("together"), unit.cell(why.idle_ns() / why.ranks),
                        percent_cell(part_of(why.idle_ns(), all)), Cell{}, Cell{}, Cell{}});
  return table;
}

Table bills_table(const std::vector<NamedBill>& bills) {
  Table table{.columns = {"cause"}, .rows = {}};
  std::vector<std::string> causes;
  Ns longest = 0;
  for (const NamedBill& one : bills) {
    table.columns.push_back(one.name);
    longest = std::max(longest, one.bill.makespan_ns);
    for (const MeanLine& line : one.bill.lines) {
      if (std::ranges::find(causes, line.cause) == causes.end()) causes.push_back(line.cause);
    }
  }
  const TimeForm unit(longest);
  const bool has_difference = bills.size() == 2;
  if (has_difference) table.columns.emplace_back("difference");
  const auto add_row = [&](const std::string& name, const std::vector<Ns>& times) {
    std::vector<Cell> row = {text_cell(name)};
    for (const Ns time : times) row.push_back(unit.cell(time));
    if (has_difference) row.push_back(unit.cell(times[1] - times[0]));
    table.rows.push_back(std::move(row));
  };
  std::vector<Ns> makespans;
  makespans.reserve(bills.size());
  for (const NamedBill& one : bills) makespans.push_back(one.bill.makespan_ns);
  for (const std::string& cause : causes) {
    std::vector<Ns> times;
    for (const NamedBill& one : bills) {
      const auto line = std::ranges::find(one.bill.lines, cause, &MeanLine::cause);
      times.push_back(line == one.bill.lines.end() ? 0 : line->mean_ns);
    }
    if (std::ranges::any_of(times, [](Ns time) { return time != 0; })) add_row(cause, times);
  }
  add_row("makespan", makespans);
  return table;
}

Table lever_table(const Explanation& why) {
  const TimeForm unit(why.makespan_ns);
  Table table{.columns = {"what to mend first", "makespan", "gain", ""}, .rows = {}};
  for (const Lever& lever : why.levers) {
    table.rows.push_back({text_cell(lever.lever), lever.is_per_sample ? Cell{} : unit.cell(lever.makespan_ns),
                          percent_cell(lever.gain), text_cell(peak_text(why, lever))});
  }
  return table;
}

Ns sum_of(const CauseTimes& causes) { return std::accumulate(causes.begin(), causes.end(), Ns{0}); }

bool ShownIntervals::shows(const IdleInterval& interval) const {
  if (rank && interval.rank != *rank) return false;
  if (!action.empty()) {
    // `before` joins the names of an overlapped group by ";". The name of each action in the group selects
    // the interval.
    const std::string names = fmt::format(";{};", interval.before);
    if (interval.before != action && names.find(fmt::format(";{};", action)) == std::string::npos)
      return false;
  }
  if (at_ns && (interval.start_ns > *at_ns || interval.end_ns <= *at_ns)) return false;
  return interval.end_ns > from_ns.value_or(0) && (!to_ns || interval.start_ns < *to_ns);
}

std::string explanation_to_text(const Explanation& why, const ShownIntervals& shown, std::size_t width) {
  const TimeForm unit(why.makespan_ns);
  std::string text;
  if (!shown.shows_all()) {
    for (const IdleInterval& interval : why.intervals) {
      if (interval.end_ns > interval.start_ns && shown.shows(interval))
        text += interval_text(why, interval, unit);
    }
    return text.empty() ? "no rank is idle there\n" : text;
  }
  text = idle_sentence(why) + "\n\n";
  text += table_to_text(bill_table(why), width) + levers_text(why, width) + '\n' + ranks_text(why, width);
  if (!why.notes.empty()) text += '\n';
  for (const std::string& note : why.notes) text += fmt::format("note: {}\n", shown_name(note));
  return text;
}

}  // namespace penstock
