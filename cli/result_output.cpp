// Writes a Result to files in the formats that the user requests. All subcommands use one table of suffixes
// and writers, so -o has the same meaning everywhere. The table contains functions, so that a format is made
// only if it is requested.

#include "cli/output.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "cli/subcommand.hpp"
#include "report/pages/html_report.hpp"
#include "report/print/table.hpp"
#include "report/result/result.hpp"
#include "report/result/result_json.hpp"
#include "report/timeline/timeline_boxes.hpp"
#include "sim/why/explain.hpp"

namespace penstock {

namespace {

const std::vector<std::string_view> kResultFiles = {".json", ".csv",        ".ranks.csv", ".svg",
                                                    ".html", ".trace.json", ".txt"};

/// Returns all formats in which `result` can be written. The result and the window must outlive the
/// formats.
std::vector<OutputForm> forms_of(const Result& result, const ResultJsonOptions& json,
                                 const TimelineWindow& window, const ResultTexts& texts) {
  return {{".json", [&result, json](const TextSink& sink) { write_result_json(result, json, sink); }},
          {".csv", [&result](const TextSink& sink) { write_timeline_csv(result.timeline, sink); }},
          {".ranks.csv", [&result] { return ranks_to_csv(result); }},
          {".svg",
           [&result, &window] {
             return timeline_to_svg(result.timeline,
                                    {.title = result.scenario, .communication = true, .window = window});
           }},
          {".html",
           [&result, &texts] {
             const auto why = texts.explanation ? texts.explanation() : explanation_for_page(result);
             return result_to_html(result, why ? &*why : nullptr);
           }},
          {".trace.json", [&result](const TextSink& sink) { write_chrome_trace(result, sink); }},
          {".txt", [&texts] { return texts.file; }}};
}

}  // namespace

void add_drawing_flags(Subcommand app, ResultFlags& flags) {
  flags.timeline = true;
  add_output_flags(app, flags.output, fmt::format("{}", fmt::join(kResultFiles, " ")));
}

void add_result_flags(Subcommand app, ResultFlags& flags) {
  add_drawing_flags(app, flags);
  flags.timeline = false;
  app.add_flag("--timeline", flags.timeline, "JSON holds every action with its start and end")
      .group("Output");
}

tl::expected<void, UserError> check_result_files(const ResultFlags& flags,
                                                 const std::vector<FileArgument>& inputs) {
  return check_output_files(flags.output.files, kResultFiles, inputs);
}

bool wants_memory_samples(const std::vector<std::string>& files) {
  return std::ranges::any_of(files, [](const std::string& file) {
    return has_suffix(file, ".html") || has_suffix(file, ".trace.json");
  });
}

bool wants_timeline(const ResultFlags& flags) {
  // The start and end of all actions are the largest part of a result. They are stored only if some output
  // shows them.
  const auto has_figures_alone = [](const std::string& file) {
    const bool is_trace = has_suffix(file, ".trace.json");
    return (has_suffix(file, ".json") && !is_trace) || has_suffix(file, ".ranks.csv") ||
           has_suffix(file, ".txt");
  };
  return flags.timeline || !std::ranges::all_of(flags.output.files, has_figures_alone);
}

tl::expected<void, UserError> write_result(const Result& result, const ResultFlags& flags,
                                           const ResultTexts& texts) {
  const ResultJsonOptions json = {.timeline = flags.timeline};
  const auto printed = [&](const TextSink& sink) {
    if (!flags.output.json) {  // the table is small; it is made for the width of this terminal
      sink(texts.printed);
      return;
    }
    write_result_json(result, json, sink);
  };
  return write_answer(flags.output, forms_of(result, json, flags.window, texts), printed);
}

}  // namespace penstock
