// Prints the verdict of a channel check as text; channel_verdict_json.cpp prints JSON. Channel models are
// ordered from the strictest to the weakest order of messages, so the first that does not hang is the weakest
// safe one. The cycle of a hang is printed hop by hop, each rank with what it waits for. Messages that cross
// have their own verdict: if messages have no tags nothing hangs, but the tensors are wrong.

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
#include "report/print/table.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/weight_versions.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/digest.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

std::string_view verdict_word(const std::optional<Hang>& hang) {
  if (!hang) return "safe";
  return hang->crossed.empty() ? "hangs" : "crossed";
}

/// Returns the table of models:
///
///     channel   issued ahead  blocking
///     rank      hangs         hangs
///     directed  safe          hangs     <- chosen
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

/// Returns the hang or crossing to explain: that of the chosen model, or the first one.
const Hang* explained(const ChannelVerdict& verdict) {
  if (const auto& chosen = verdict.hang(verdict.channels.model)) return &*chosen;
  for (const ChannelModel model : kChannelModels) {
    if (const auto& hang = verdict.hang(model)) return &*hang;
  }
  return nullptr;
}

/// Returns one sentence about hangs and crossings under the chosen channels.
std::string verdict_in_words(const ChannelVerdict& verdict) {
  const std::string channels = fmt::format("{} channels{}{}", to_text(verdict.channels.model),
                                           verdict.channels.blocking ? ", blocking" : "",
                                           verdict.channels.launch_order ? ", in launch order" : "");
  const auto& hang = verdict.hang(verdict.channels.model);
  if (!hang) return fmt::format("valid, does not hang under {}", channels);
  return fmt::format("{} under {}, though each action is valid", hang->crossed.empty() ? "HANGS" : "CROSSED",
                     channels);
}

/// Returns, for example, "none, it hangs under all".
std::string_view no_safe_channel(const ChannelVerdict& verdict) {
  const bool crosses = std::ranges::any_of(
      kChannelModels, [&](ChannelModel model) { return !verdict.hang(model)->crossed.empty(); });
  return crosses ? "none, it hangs or its messages cross under all" : "none, it hangs under all";
}

/// Returns, for example, "hangs under pair channels; ...". It is a sentence about other channels if the
/// program passes under its own.
std::string in_words(const Hang& hang, bool elsewhere) {
  if (!elsewhere) return hang.message;
  return (hang.crossed.empty() ? "elsewhere it " : "elsewhere its ") + hang.message;
}

/// Returns "2", or "0 to 3".
std::string range_in_words(const Staleness& staleness) {
  if (staleness.least == staleness.most) return fmt::format("{}", staleness.most);
  return fmt::format("{} to {}", staleness.least, staleness.most);
}

/// Returns whether any stage holds more than one version, or uses a version older than the update to which it
/// contributes.
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

/// Returns the versions of F, of B or I, and of W: "3", "2/3" if the backward has another, "2/3/3" if W has
/// its own.
std::string cell_of(const UnitVersions& unit) {
  if (unit.weight != unit.backward) {
    return fmt::format("{}/{}/{}", unit.forward, unit.backward, unit.weight);
  }
  if (unit.backward != unit.forward) return fmt::format("{}/{}", unit.forward, unit.backward);
  return fmt::format("{}", unit.forward);
}

/// Returns a table with a row for each stage and a column for each microbatch (or each slice, if the sequence
/// is cut).
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

/// Returns the table of weight versions. It is empty for a synchronous program, whose versions are all the
/// newest, unless --versions asks for it.
std::string versions_to_text(const ChannelVerdict& verdict, const VerdictOptions& options) {
  if (!options.versions && !keeps_several(verdict.versions)) return "";
  std::string text =
      fmt::format("\nweights, in updates of the stage:\n{}", table_to_text(version_table(verdict.versions)));
  if (!options.versions) return text;
  return text + fmt::format("\nversion by microbatch (F/B where they differ, F/I/W where these do):\n{}",
                            table_to_text(unit_table(verdict.versions)));
}

/// Describes the smallest failing program. An invalid program of a generator is not shrunk, because the
/// generator is at fault.
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
  // All ten combinations are checked, because users of a hanging program want to know which change makes it
  // safe.
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
