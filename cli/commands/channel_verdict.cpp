// The text form of a verdict; channel_verdict_json.cpp has the other one. Channel models stand in the order
// from the one that orders most to the one that orders least, so that the first that does not hang is the
// weakest safe one; the cycle of a hang is said hop by hop, each rank with what it waits for. Messages that
// cross are a verdict of their own: where messages have no tags nothing hangs, and the tensors are wrong.

#include "cli/commands/channel_verdict.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/commands/smallest_failure.hpp"
#include "report/print/escaping.hpp"
#include "report/print/table.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/weight_versions.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/digest.hpp"

namespace penstock {
namespace {

std::string_view verdict_word(const std::optional<Hang>& hang) {
  if (!hang) return "safe";
  return hang->crossed.empty() ? "hangs" : "crossed";
}

/// channel   issued ahead  blocking
/// rank      hangs         hangs
/// directed  safe          hangs     <- chosen
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

/// Returns the hang or crossing to explain: the chosen model's, or the first there is.
const Hang* explained(const ChannelVerdict& verdict) {
  if (const auto& chosen = verdict.hang(verdict.channels.model)) return &*chosen;
  for (const ChannelModel model : kChannelModels) {
    if (const auto& hang = verdict.hang(model)) return &*hang;
  }
  return nullptr;
}

/// One verdict for both questions, under the chosen channels.
std::string verdict_in_words(const ChannelVerdict& verdict) {
  const std::string channels = fmt::format("{} channels{}{}", to_text(verdict.channels.model),
                                           verdict.channels.blocking ? ", blocking" : "",
                                           verdict.channels.launch_order ? ", in launch order" : "");
  const auto& hang = verdict.hang(verdict.channels.model);
  if (!hang) return fmt::format("valid, does not hang under {}", channels);
  return fmt::format("{} under {}, though each action is valid", hang->crossed.empty() ? "HANGS" : "CROSSED",
                     channels);
}

/// "none, it hangs under all"
std::string_view no_safe_channel(const ChannelVerdict& verdict) {
  const bool crosses = std::ranges::any_of(
      kChannelModels, [&](ChannelModel model) { return !verdict.hang(model)->crossed.empty(); });
  return crosses ? "none, it hangs or its messages cross under all" : "none, it hangs under all";
}

/// "hangs under pair channels; ...", as a sentence of its own where the program passes under its own
/// channels.
std::string in_words(const Hang& hang, bool elsewhere) {
  if (!elsewhere) return hang.message;
  return (hang.crossed.empty() ? "elsewhere it " : "elsewhere its ") + hang.message;
}

/// "2", or "0 to 3".
std::string range_in_words(const Staleness& staleness) {
  if (staleness.least == staleness.most) return fmt::format("{}", staleness.most);
  return fmt::format("{} to {}", staleness.least, staleness.most);
}

/// Whether any stage holds more than one version, or uses one that is older than the update it goes into.
bool keeps_several(const WeightVersions& versions) {
  return std::ranges::any_of(versions.stages, [](const StageVersions& stage) {
    return stage.kept > 1 || stage.forward.most > 0 || stage.backward.most > 0;
  });
}

Table version_table(const WeightVersions& versions) {
  Table table;
  table.columns = {"stage", "updates", "versions kept", "staleness of F", "of B, I and W"};
  for (std::size_t stage = 0; stage < versions.stages.size(); ++stage) {
    const StageVersions& row = versions.stages[stage];
    table.rows.push_back({{fmt::format("{}", stage), std::nullopt},
                          {fmt::format("{}", row.updates), std::nullopt},
                          {fmt::format("{}", row.kept), std::nullopt},
                          {range_in_words(row.forward), std::nullopt},
                          {range_in_words(row.backward), std::nullopt}});
  }
  return table;
}

/// Version of F, of B or I, of W: "3", "2/3" where the backward has another, "2/3/3" where W has one of its
/// own.
std::string cell_of(const UnitVersions& unit) {
  if (unit.weight != unit.backward) {
    return fmt::format("{}/{}/{}", unit.forward, unit.backward, unit.weight);
  }
  if (unit.backward != unit.forward) return fmt::format("{}/{}", unit.forward, unit.backward);
  return fmt::format("{}", unit.forward);
}

/// A row a stage, a column a microbatch (a slice of one where the sequence is cut).
Table unit_table(const WeightVersions& versions) {
  Table table;
  table.columns = {"stage"};
  for (std::int32_t unit = 0; unit < versions.units; ++unit) table.columns.push_back(fmt::format("{}", unit));
  for (std::int32_t stage = 0; stage < static_cast<std::int32_t>(versions.stages.size()); ++stage) {
    std::vector<Cell> row = {{fmt::format("{}", stage), std::nullopt}};
    for (std::int32_t unit = 0; unit < versions.units; ++unit) {
      row.push_back({cell_of(versions.at(stage, unit)), std::nullopt});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// Empty for a synchronous program, unless --versions asks: all its versions are the newest.
std::string versions_to_text(const ChannelVerdict& verdict, const VerdictOptions& options) {
  if (!options.versions && !keeps_several(verdict.versions)) return "";
  std::string text =
      fmt::format("\nweights, in updates of the stage:\n{}", table_to_text(version_table(verdict.versions)));
  if (!options.versions) return text;
  return text + fmt::format("\nversion by microbatch (F/B where they differ, F/I/W where these do):\n{}",
                            table_to_text(unit_table(verdict.versions)));
}

/// Of an invalid program that a schedule generates nothing is shrunk: what is wrong is the generator.
std::string smallest_to_text(const ChannelVerdict& verdict) {
  if (verdict.smallest) return "\n" + to_text(*verdict.smallest);
  if (!verdict.valid())
    return "\nno smaller program was found: write it to a file first (`penstock convert`)\n";
  return fmt::format("\nnothing to shrink: it is valid and does not hang under {} channels{}\n",
                     to_text(verdict.channels.model), verdict.channels.blocking ? ", blocking" : "");
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
                         .digest = digest(experiment.program),
                         .versions = weight_versions(experiment.program)};
  // All ten, whatever was chosen: which change would make a hanging program safe is half of the answer.
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

std::string to_text(const ChannelVerdict& verdict, const VerdictOptions& options) {
  const std::string smallest = options.smallest ? smallest_to_text(verdict) : "";
  if (!verdict.valid()) return fmt::format("invalid: {}\n{}", verdict.error, smallest);
  const auto weakest = verdict.weakest_safe();
  std::string text =
      fmt::format("{}: {} ({}, ranks {}, stages {}, microbatches {})\n\n{}\nweakest safe channel{}: {}\n",
                  shown_name(verdict.name), verdict_in_words(verdict), verdict.schedule, verdict.ranks,
                  verdict.stages, verdict.microbatches, table_to_text(model_table(verdict)),
                  verdict.channels.blocking ? " with --blocking" : "",
                  weakest ? to_text(*weakest) : no_safe_channel(verdict));
  if (const Hang* hang = explained(verdict)) text += fmt::format("\n{}\n", in_words(*hang, verdict.passed()));
  return text + versions_to_text(verdict, options) + smallest;
}

}  // namespace penstock
