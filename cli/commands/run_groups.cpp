// Prints the errors of predictions for a group of measured runs, as a table and as JSON:
//
//     group     rows  mean |error|  mean error   worst
//     MLPerf       8        1.02 %     -0.31 %  +2.20 %

#include "cli/commands/run_groups.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/print/cells.hpp"
#include "report/print/table.hpp"
#include "sim/measured/predicted_runs.hpp"

namespace penstock {
namespace {

Cell error_cell(double part) { return {fmt::format("{:+.2f} %", 100 * part), part}; }

}  // namespace

Table errors_table(std::string_view heading, const std::vector<RunGroup>& groups) {
  Table table;
  table.columns = {std::string(heading), "rows", "mean |error|", "mean error", "worst"};
  for (const RunGroup& group : groups) {
    table.rows.push_back({{group.name, std::nullopt},
                          count_cell(static_cast<std::int64_t>(group.rows)),
                          {fmt::format("{:.2f} %", 100 * group.mape), group.mape},
                          error_cell(group.bias),
                          error_cell(group.worst)});
  }
  return table;
}

nlohmann::ordered_json group_json(const RunGroup& group) {
  return {{"name", group.name},
          {"rows", group.rows},
          {"mape", group.mape},
          {"bias", group.bias},
          {"worst", group.worst}};
}

}  // namespace penstock
