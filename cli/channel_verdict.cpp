#include "cli/channel_verdict.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/table.hpp"
#include "scenarios/experiment.hpp"
#include "schedules/action.hpp"
#include "schedules/channel.hpp"
#include "schedules/channel_check.hpp"
#include "schedules/digest.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

std::string_view verdict_word(const std::optional<Hang>& hang) { return hang ? "hangs" : "safe"; }

Table model_table(const ChannelVerdict& verdict) {
  Table table;
  table.columns = {"channel", "issued ahead", "blocking", ""};
  for (const ModelVerdict& row : verdict.models) {
    const bool chosen = row.model == verdict.channels.model;
    const std::string_view mark = !chosen                     ? ""
                                  : verdict.channels.blocking ? "<- chosen, blocking"
                                                              : "<- chosen";
    table.rows.push_back({{std::string(to_text(row.model)), std::nullopt},
                          {std::string(verdict_word(row.ahead)), std::nullopt},
                          {std::string(verdict_word(row.blocking)), std::nullopt},
                          {std::string(mark), std::nullopt}});
  }
  return table;
}

/// The hang to explain: the chosen model's, or the first there is.
const Hang* explained(const ChannelVerdict& verdict) {
  if (const auto& chosen = verdict.hang(verdict.channels.model)) return &*chosen;
  for (const ChannelModel model : kChannelModels) {
    if (const auto& hang = verdict.hang(model)) return &*hang;
  }
  return nullptr;
}

Json cycle_json(const std::optional<Hang>& hang) {
  Json cycle = Json::array();
  if (!hang) return cycle;
  for (const WaitFor& wait : hang->cycle) {
    cycle.push_back({{"rank", wait.rank},
                     {"position", wait.position},
                     {"action", to_text(wait.action)},
                     {"waits_for", wait.waits_for}});
  }
  return cycle;
}

Json hangs_json(const ChannelVerdict& verdict) {
  Json hangs = Json::object();
  for (const ModelVerdict& row : verdict.models) {
    hangs[std::string(to_text(row.model))] = verdict.hang(row.model).has_value();
  }
  return hangs;
}

void add_program(Json& document, const ChannelVerdict& verdict) {
  document["program"] = {{"schedule", verdict.schedule},
                         {"ranks", verdict.ranks},
                         {"stages", verdict.stages},
                         {"microbatches", verdict.microbatches},
                         {"digest", verdict.digest}};
}

}  // namespace

const std::optional<Hang>& ChannelVerdict::hang(ChannelModel model) const {
  const ModelVerdict& row = models[static_cast<std::size_t>(model)];
  return channels.blocking ? row.blocking : row.ahead;
}

std::optional<ChannelModel> ChannelVerdict::weakest_safe() const {
  for (const ChannelModel model : kChannelModels) {
    if (!hang(model)) return model;
  }
  return std::nullopt;
}

ChannelVerdict check_channels(const Experiment& experiment) {
  ChannelVerdict verdict{.name = experiment.name,
                         .error = {},
                         .channels = experiment.channels,
                         .schedule = experiment.program.schedule,
                         .ranks = experiment.program.rank_count(),
                         .stages = experiment.program.stage_count(),
                         .microbatches = experiment.program.microbatches,
                         .digest = digest(experiment.program)};
  for (const ChannelModel model : kChannelModels) {
    const auto find = [&](bool blocking) {
      ChannelOptions options = experiment.channels;
      options.model = model;
      options.blocking = blocking;
      return find_hang(experiment.program, options, experiment.costs);
    };
    verdict.models[static_cast<std::size_t>(model)] = {
        .model = model, .ahead = find(false), .blocking = find(true)};
  }
  return verdict;
}

std::string to_text(const ChannelVerdict& verdict) {
  if (!verdict.valid()) return fmt::format("invalid: {}\n", verdict.error);
  const auto weakest = verdict.weakest_safe();
  std::string text =
      fmt::format("{}: valid ({}, ranks {}, stages {}, microbatches {})\n\n{}\nweakest safe channel{}: {}\n",
                  verdict.name, verdict.schedule, verdict.ranks, verdict.stages, verdict.microbatches,
                  table_to_text(model_table(verdict)), verdict.channels.blocking ? " with --blocking" : "",
                  weakest ? to_text(*weakest) : "none, it hangs under all");
  if (const Hang* hang = explained(verdict)) text += fmt::format("\n{}\n", hang->message);
  return text;
}

std::string to_json(const ChannelVerdict& verdict) {
  Json document = {
      {"schema_version", 1}, {"kind", "check"}, {"name", verdict.name}, {"valid", verdict.valid()}};
  document["channel"] = to_text(verdict.channels.model);
  document["blocking"] = verdict.channels.blocking;
  document["hangs"] = verdict.valid() ? hangs_json(verdict) : Json::object();
  document["cycle"] = verdict.valid() ? cycle_json(verdict.hang(verdict.channels.model)) : Json::array();
  const auto weakest = verdict.valid() ? verdict.weakest_safe() : std::nullopt;
  document["weakest_safe_channel"] = weakest ? Json(to_text(*weakest)) : Json(nullptr);
  if (verdict.valid()) {
    add_program(document, verdict);
  } else {
    document["error"] = verdict.error;
  }
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace penstock
