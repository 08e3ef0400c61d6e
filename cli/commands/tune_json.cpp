// Writes answers of tune for programs. A candidate is one object: the fields of its configuration, then its
// figures. CSV has a column for each field, so every field is in both. JSON has all candidates, and its front
// and choices refer to them by number. CSV has the rows of the table.

#include "cli/commands/tune_json.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/commands/tune_answer.hpp"
#include "cli/commands/tune_tables.hpp"
#include "scenarios/pricing/layer_recompute.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "sim/measured/ratio_spread.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/left_out.hpp"
#include "sim/tuning/sensitivity.hpp"
#include "sim/tuning/tune.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

/// Returns the choices. Degrees have the names of a scenario's `parallel`.
Json configuration_json(const TuneRequest& request, const Configuration& of) {
  return {{"nodes", of.nodes},
          {"tensor", of.tensor},
          {"context", of.context},
          {"context_exchange", to_text(of.context_exchange)},
          {"expert", of.expert},
          {"data", of.data},
          {"order", to_text(of.order)},
          {"stages", of.stages},
          {"virtual_stages", of.virtual_stages},
          {"schedule", of.schedule},
          {"layer_split", split_text(request, of)},
          {"micro_batch_size", of.micro_batch_size},
          {"microbatches", of.microbatches},
          {"recompute", to_text(of.recompute)},
          {"sharding", of.sharding}};
}

Json candidate_json(const TuneAnswer& answer, const TunedConfiguration& tuned) {
  Json object = configuration_json(answer.request, tuned.configuration);
  object["layers"] = tuned.layers;
  object["step_ns"] = tuned.step_ns;
  object["mfu"] = tuned.mfu;
  object["tokens_per_second_per_device"] = tuned.tokens_per_second_per_device;
  object["peak_bytes"] = tuned.peak_bytes;
  object["fits"] = tuned.fits;
  object["constructed"] = tuned.constructed;
  if (answer.tokens) object["training_seconds"] = training_seconds(answer, tuned);
  if (const auto cost = training_cost(answer, tuned)) object["training_cost"] = *cost;
  return object;
}

Json or_null(const std::optional<std::size_t>& number) { return number ? Json(*number) : Json(nullptr); }

std::string dumped(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace

std::string tune_json(const TuneAnswer& answer) {
  const TuneReport& report = answer.report;
  Json document = {{"schema_version", 1},
                   {"kind", "tune"},
                   {"space", report.space},
                   {"evaluated", report.evaluated},
                   {"pruned", {{"memory", report.pruned_by_memory}, {"time", report.pruned_by_time}}},
                   {"seconds", answer.seconds}};
  document["left_out"] = Json::array();
  for (const LeftOut& one : report.left_out) {
    document["left_out"].push_back({{"schedule", one.schedule},
                                    {"configurations", one.configurations},
                                    {"reason", one.reason},
                                    {"hangs", one.hangs}});
  }
  document["capacity_bytes"] = report.capacity ? Json(*report.capacity) : Json(nullptr);
  document["usable_bytes"] = report.usable ? Json(*report.usable) : Json(nullptr);
  document["candidates"] = Json::array();
  for (std::size_t i = 0; i < report.candidates.size(); ++i) {
    document["candidates"].push_back(candidate_json(answer, report.candidates[i]));
    if (answer.accuracy) document["candidates"].back()["group"] = answer.accuracy->groups[i];
  }
  if (answer.accuracy) {
    const RatioSpread& spread = answer.accuracy->spread;
    document["ratio_error"] = {
        {"deviation", spread.deviation}, {"rows", spread.rows}, {"groups", spread.groups}};
  }
  document["front"] = report.front;
  document["choices"] = Json::array();
  for (const ChoiceCost& choice : report.choices) {
    document["choices"].push_back({{"choice", choice.choice},
                                   {"value", choice.value},
                                   {"best", or_null(choice.best)},
                                   {"faster", or_null(choice.faster)}});
  }
  document["sensitivity"] = Json::array();
  for (const SensitivityRow& row : answer.sensitivity) {
    document["sensitivity"].push_back({{"figure", row.figure},
                                       {"factor", row.factor},
                                       {"best", candidate_json(answer, row.best)},
                                       {"loss", row.loss ? Json(*row.loss) : Json(nullptr)}});
  }
  if (answer.overlap) {
    document["without_tensor_overlap"] = {{"same", candidate_json(answer, answer.overlap->same)},
                                          {"best", candidate_json(answer, answer.overlap->best)}};
  }
  document["notes"] = report.notes;
  if (!answer.launch.empty()) document["launch"] = answer.launch;
  return dumped(document);
}

// Every candidate has the same fields, so those of the first are the heading.
std::string tune_csv(const TuneAnswer& answer) {
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& fields) {
    text += fmt::format("{}\n", fmt::join(fields, ","));
  };
  std::vector<std::string> fields;
  for (const std::size_t number : shown_configurations(answer).numbers) {
    const Json object = candidate_json(answer, answer.report.candidates[number]);
    fields.clear();
    if (text.empty()) {
      for (const auto& [key, value] : object.items()) fields.push_back(key);
      add_line(std::exchange(fields, {}));
    }
    for (const auto& [key, value] : object.items())
      fields.push_back(csv_field(value.is_string() ? value.get<std::string>() : value.dump()));
    add_line(fields);
  }
  return text;
}

std::string space_json(const TuneRequest& request, const std::vector<Configuration>& space) {
  Json document = {{"schema_version", 1}, {"kind", "space"}, {"configurations", Json::array()}};
  for (const Configuration& of : space) document["configurations"].push_back(configuration_json(request, of));
  return dumped(document);
}

}  // namespace penstock
