#include "cli/result_output.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/output.hpp"
#include "report/chrome_trace.hpp"
#include "report/html_report.hpp"
#include "report/result.hpp"
#include "report/result_csv.hpp"
#include "report/result_json.hpp"
#include "report/timeline_svg.hpp"

namespace penstock {

std::vector<std::string_view> result_suffixes() {
  return {".json", ".csv", ".ranks.csv", ".svg", ".html", ".trace.json", ".txt"};
}

bool wants_memory_samples(const std::vector<std::string>& files) {
  return std::ranges::any_of(files, [](const std::string& file) {
    return has_suffix(file, ".html") || has_suffix(file, ".trace.json");
  });
}

std::vector<OutputForm> result_forms(const Result& result, const ResultJsonOptions& json, std::string text) {
  return {{".json", [&result, json] { return result_to_json(result, json); }},
          {".csv", [&result] { return timeline_to_csv(result.timeline); }},
          {".ranks.csv", [&result] { return ranks_to_csv(result); }},
          {".svg",
           [&result] {
             return timeline_to_svg(result.timeline, {.title = result.scenario, .communication = true});
           }},
          {".html", [&result] { return result_to_html(result); }},
          {".trace.json", [&result] { return result_to_chrome_trace(result); }},
          {".txt", [text = std::move(text)] { return text; }}};
}

}  // namespace penstock
