// Prints the factors in two tables: their periods, and their meanings. The second table states the assumption
// behind each number. It also prints the regret of plans from noisy times. JSON has the exact figures.

#include "cli/commands/plan_factors_output.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/print/cells.hpp"
#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "sim/planning/idealised_stream.hpp"
#include "sim/planning/plan_factors.hpp"
#include "sim/planning/plan_regret.hpp"
#include "text/enum_words.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

// The table has a row for each factor. It shows the period with this factor alone, and the period with this
// and all factors above it. Each period is also shown as a percentage of the prediction.
std::string factors_to_text(const PlanFactors& factors, std::size_t width) {
  const Cell ideal = period_cell(factors.ideal_ns);  // the simulated period without any factor
  const Cell ideal_ratio = percent_cell(factors.ideal_ns / factors.recurrence_ns);
  Table periods{.columns = {"factor", "alone", "of predicted", "with those above", "of predicted"},
                .rows = {{text_cell("none"), ideal, ideal_ratio, ideal, ideal_ratio}}};
  Table meanings{.columns = {"factor", "what is simulated with it", "what the prediction assumes"},
                 .rows = {}};
  for (const FactorPeriods& row : factors.rows) {
    const Cell name = text_cell(std::string(to_text(row.factor)));
    periods.rows.push_back({name, period_cell(row.alone_ns),
                            percent_cell(row.alone_ns / factors.recurrence_ns),
                            period_cell(row.with_those_before_ns),
                            percent_cell(row.with_those_before_ns / factors.recurrence_ns)});
    const FactorMeaning words = meaning(row.factor, factors.objective);
    meanings.rows.push_back(
        {name, text_cell(std::string(words.simulated)), text_cell(std::string(words.assumed))});
  }
  const PlannedMemory& memory = factors.memory;
  return fmt::format(
      "what the prediction leaves out: the simulated period with one factor alone, and with all down to it\n"
      "{}\n{}\nmemory over time: {} on the fullest device as planned, {} simulated, which {}\n",
      table_to_text(periods, width), table_to_text(meanings, width), format_bytes(memory.planned),
      format_bytes(memory.simulated), memory.fits_simulated ? "fits" : "does not fit");
}

Json factors_to_json(const PlanFactors& factors) {
  Json rows = Json::array();
  for (const FactorPeriods& row : factors.rows) {
    rows.push_back({{"factor", to_text(row.factor)},
                    {"simulated", meaning(row.factor, factors.objective).simulated},
                    {"assumed", meaning(row.factor, factors.objective).assumed},
                    {"alone_ns", row.alone_ns},
                    {"alone_over_predicted", row.alone_ns / factors.recurrence_ns},
                    {"with_those_above_ns", row.with_those_before_ns},
                    {"with_those_above_over_predicted", row.with_those_before_ns / factors.recurrence_ns}});
  }
  return {{"predicted_period_ns", factors.recurrence_ns},
          {"ideal_period_ns", factors.ideal_ns},
          {"rows", std::move(rows)},
          {"memory",
           {{"planned_bytes", factors.memory.planned},
            {"simulated_bytes", factors.memory.simulated},
            {"fits_simulated", factors.memory.fits_simulated}}}};
}

std::string regret_to_text(const RegretReport& report, std::size_t width) {
  Table table{.columns = {"noise", "other plans", "predicted: median", "worst", "simulated: median", "worst"},
              .rows = {}};
  for (const RegretRow& row : report.rows) {
    table.rows.push_back({percent_cell(row.noise), count_cell(row.other_plans),
                          percent_cell(row.recurrence.median), percent_cell(row.recurrence.worst),
                          percent_cell(row.simulated.median), percent_cell(row.simulated.worst)});
  }
  return fmt::format(
      "regret of planning from a noisy profile: how much longer the period is than that of the plan above, "
      "both with the true times\n"
      "({}, seed {}: each layer's forward and backward time drawn evenly from that much below to that much "
      "above the true one; other plans: trials that planned something else)\n{}",
      format_count(report.noise.trials, "trial"), report.noise.seed, table_to_text(table, width));
}

Json regret_to_json(const RegretReport& report) {
  Json rows = Json::array();
  for (const RegretRow& row : report.rows) {
    rows.push_back({{"noise", row.noise},
                    {"other_plans", row.other_plans},
                    {"predicted_median", row.recurrence.median},
                    {"predicted_worst", row.recurrence.worst},
                    {"simulated_median", row.simulated.median},
                    {"simulated_worst", row.simulated.worst}});
  }
  return {{"trials", report.noise.trials}, {"seed", report.noise.seed}, {"rows", std::move(rows)}};
}

}  // namespace penstock
