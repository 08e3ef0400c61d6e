// Prints the verdict of `penstock check` as text and JSON: under which channel models a program hangs.
// Channel models are ordered from the strictest order of messages to the weakest. The answer is the first
// model without a hang. If the program hangs, the text lists each rank of the cycle with the action for
// which it waits. Crossed messages have a verdict of their own. On a transport without tags, such a
// program does not hang but receives wrong tensors.

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
#include <nlohmann/json.hpp>

#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/check/validate.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/digest.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/passes/counterexample.hpp"
#include "schedules/passes/passes.hpp"
#include "schedules/text/program_text.hpp"
#include "text/escaping.hpp"

namespace penstock {

namespace {

std::string_view verdict_word(const std::optional<Hang>& hang) {
  if (!hang) return "safe";
  return hang->crossed.empty() ? "hangs" : "crossed";
}

/// Returns the table of channel models:
///
///     channel   issued ahead  blocking
///     rank      hangs         hangs
///     directed  safe          hangs     <- chosen
Table model_table(const ChannelVerdict& verdict) {
  Table table;
  const bool is_batched = verdict.channels.blocking == Blocking::batched;
  table.columns = {"channel", "issued ahead", "blocking"};
  if (is_batched) table.columns.emplace_back("batched");
  table.columns.emplace_back("");
  for (const ModelVerdict& row : verdict.models) {
    std::vector<Cell> cells = {{std::string(to_text(row.model)), std::nullopt},
                               {std::string(verdict_word(row.ahead)), std::nullopt},
                               {std::string(verdict_word(row.blocking)), std::nullopt}};
    if (is_batched) cells.push_back({std::string(verdict_word(row.batched)), std::nullopt});
    const bool chosen = row.model == verdict.channels.model;
    cells.push_back(
        {chosen ? fmt::format("<- chosen{}", blocking_suffix(verdict.channels.blocking)) : "", std::nullopt});
    table.rows.push_back(std::move(cells));
  }
  return table;
}

/// Returns the flag that makes the weakest channel model safe, such as " with --blocking".
std::string_view flag_text(Blocking blocking) {
  switch (blocking) {
    case Blocking::none:
      return "";
    case Blocking::each:
      return " with --blocking";
    case Blocking::batched:
      return " with --blocking=batched";
  }
  return "";
}

/// Returns the hang or the crossed messages that the text explains. It is the fault under the chosen
/// channel model. If there is none, it is the first fault found.
const Hang* explained(const ChannelVerdict& verdict) {
  if (const auto& chosen = verdict.hang(verdict.channels.model)) return &*chosen;
  for (const ChannelModel model : kChannelModels) {
    if (const auto& hang = verdict.hang(model)) return &*hang;
  }
  return nullptr;
}

/// Returns a sentence that says whether the program hangs or has crossed messages under the chosen channels.
std::string verdict_in_words(const ChannelVerdict& verdict) {
  const std::string channels = fmt::format("{} channels{}{}", to_text(verdict.channels.model),
                                           blocking_suffix(verdict.channels.blocking),
                                           verdict.channels.launch_order ? ", in launch order" : "");
  const auto& hang = verdict.hang(verdict.channels.model);
  if (!hang) return fmt::format("valid, does not hang under {}", channels);
  return fmt::format("{} under {}, though each action is valid", hang->crossed.empty() ? "HANGS" : "CROSSED",
                     channels);
}

/// Returns the text for a program that hangs under every channel model, such as "none, it hangs under all".
std::string_view no_safe_channel(const ChannelVerdict& verdict) {
  const bool crosses = std::ranges::any_of(
      kChannelModels, [&](ChannelModel model) { return !verdict.hang(model)->crossed.empty(); });
  return crosses ? "none, it hangs or its messages cross under all" : "none, it hangs under all";
}

/// Returns a sentence about a hang, such as "hangs under pair channels; ...". `elsewhere` is true if the
/// program is safe under its own channels and hangs only under others.
std::string in_words(const Hang& hang, bool elsewhere) {
  if (!elsewhere) return hang.message;
  return (hang.crossed.empty() ? "elsewhere it " : "elsewhere its ") + hang.message;
}

/// Returns a range of staleness as text, such as "2" or "0 to 3".
std::string range_in_words(const Staleness& staleness) {
  if (staleness.least == staleness.most) return fmt::format("{}", staleness.most);
  return fmt::format("{} to {}", staleness.least, staleness.most);
}

/// Returns true if a stage stores several weight versions at the same time. Also returns true if it uses a
/// version that is older than the update to which it contributes.
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

/// Returns a table cell with the weight versions of F, of B or I, and of W. "3" means one version for all.
/// "2/3" means that the backward uses another version than F. "2/3/3" also gives a version for W.
std::string cell_of(const UnitVersions& unit) {
  if (unit.weight != unit.backward) {
    return fmt::format("{}/{}/{}", unit.forward, unit.backward, unit.weight);
  }
  if (unit.backward != unit.forward) return fmt::format("{}/{}", unit.forward, unit.backward);
  return fmt::format("{}", unit.forward);
}

/// Returns a table of weight versions with a row for each stage. It has a column for each microbatch, or
/// for each slice if sequences are cut into slices.
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

/// Returns the table of weight versions. If all actions use the newest version, the table is empty, unless
/// the user gives --versions.
std::string versions_to_text(const ChannelVerdict& verdict, const VerdictOptions& options) {
  if (!options.versions && !keeps_several(verdict.versions)) return "";
  std::string text =
      fmt::format("\nweights, in updates of the stage:\n{}", table_to_text(version_table(verdict.versions)));
  if (!options.versions) return text;
  return text + fmt::format("\nversion by microbatch (F/B where they differ, F/I/W where these do):\n{}",
                            table_to_text(unit_table(verdict.versions)));
}

/// Returns a text with the smallest failing program. If a generator made an invalid program, the program is
/// not made smaller, because the generator has a fault.
std::string smallest_to_text(const ChannelVerdict& verdict) {
  if (verdict.smallest) return "\n" + to_text(*verdict.smallest);
  if (!verdict.valid())
    return "\nno smaller program was found: write it to a file first (`penstock convert`)\n";
  return fmt::format("\nnothing to shrink: it is valid and does not hang under {} channels{}\n",
                     to_text(verdict.channels.model), blocking_suffix(verdict.channels.blocking));
}

}  // namespace

const std::optional<Hang>& ChannelVerdict::hang(ChannelModel model) const {
  const ModelVerdict& row = models[static_cast<std::size_t>(model)];
  switch (channels.blocking) {
    case Blocking::none:
      return row.ahead;
    case Blocking::each:
      return row.blocking;
    case Blocking::batched:
      return row.batched;
  }
  return row.ahead;
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
  // All combinations are checked, because users of a hanging program want to know which of them are safe. The
  // column of batched transfers is only shown if the user chose them.
  const bool is_batched = experiment.channels.blocking == Blocking::batched;
  for (const ChannelModel model : kChannelModels) {
    const auto find = [&](Blocking blocking) {
      ChannelOptions options = experiment.channels;
      options.model = model;
      options.blocking = blocking;
      return find_hang(experiment.program, options, experiment.costs);
    };
    verdict.models[static_cast<std::size_t>(model)] = {
        .model = model,
        .ahead = find(Blocking::none),
        .blocking = find(Blocking::each),
        .batched = is_batched ? find(Blocking::batched) : std::nullopt};
  }
  return verdict;
}

tl::expected<ChannelVerdict, UserError> verdict_of(const Scenario& scenario) {
  const auto experiment = prepare(scenario);
  if (experiment) return check_channels(*experiment);
  if (experiment.error().kind == ErrorKind::bad_input) return tl::unexpected(experiment.error());
  return ChannelVerdict{.name = scenario.file.empty() ? scenario.schedule : scenario.file,
                        .error = experiment.error().message,
                        .channels = scenario.channels,
                        .schedule = {},
                        .digest = {}};
}

std::string to_text(const ChannelVerdict& verdict, const VerdictOptions& options) {
  const std::string smallest = options.smallest ? smallest_to_text(verdict) : "";
  if (!verdict.valid()) return fmt::format("invalid: {}\n{}", verdict.error, smallest);
  const auto weakest = verdict.weakest_safe();
  std::string text = fmt::format(
      "{}: {} ({}, ranks {}, stages {}, microbatches {})\n\n{}\nweakest safe channel{}: {}\n",
      shown_name(verdict.name), verdict_in_words(verdict), verdict.schedule, verdict.ranks, verdict.stages,
      verdict.microbatches, table_to_text(model_table(verdict)), flag_text(verdict.channels.blocking),
      weakest ? to_text(*weakest) : no_safe_channel(verdict));
  if (const Hang* hang = explained(verdict)) text += fmt::format("\n{}\n", in_words(*hang, verdict.passed()));
  return text + versions_to_text(verdict, options) + smallest;
}

// Writes the verdict as JSON. For each channel model it says whether the program hangs or has crossed
// messages. The cycle of the hang and the crossed messages are lists. The weakest safe model is null if no
// model is safe.

namespace {

using Json = nlohmann::ordered_json;

Json cycle_json(const std::vector<WaitFor>& waits) {
  Json cycle = Json::array();
  for (const WaitFor& wait : waits) {
    cycle.push_back({{"rank", wait.rank},
                     {"position", wait.position},
                     {"action", to_text(wait.action)},
                     {"waits_for", wait.waits_for}});
  }
  return cycle;
}

/// Returns a JSON list of crossed messages. Each has the fields {rank, position, send, peer, peer_position,
/// receive}.
Json crossed_json(const std::vector<CrossedMessage>& crossed) {
  Json messages = Json::array();
  for (const CrossedMessage& one : crossed) {
    messages.push_back({{"rank", one.rank},
                        {"position", one.position},
                        {"send", to_text(one.send)},
                        {"peer", one.peer},
                        {"peer_position", one.peer_position},
                        {"receive", to_text(one.receive)}});
  }
  return messages;
}

/// Adds the objects "hangs" and "crosses" to the JSON document. They have a value for each channel model,
/// such as {"rank": true, ..., "boundary": false}, under the chosen blocking mode. Both are empty if the
/// program is invalid.
void add_models(Json& document, const ChannelVerdict& verdict) {
  document["hangs"] = Json::object();
  document["crosses"] = Json::object();
  if (!verdict.valid()) return;
  for (const ModelVerdict& row : verdict.models) {
    const std::string model(to_text(row.model));
    const auto& hang = verdict.hang(row.model);
    document["hangs"][model] = hang && !hang->cycle.empty();
    document["crosses"][model] = hang && !hang->crossed.empty();
  }
}

void add_program(Json& document, const ChannelVerdict& verdict) {
  document["program"] = {{"schedule", verdict.schedule},
                         {"ranks", verdict.ranks},
                         {"stages", verdict.stages},
                         {"microbatches", verdict.microbatches},
                         {"digest", verdict.digest}};
}

Json staleness_json(const Staleness& staleness) {
  return {{"least", staleness.least}, {"most", staleness.most}};
}

/// Returns the weight versions of one stage for each microbatch. The fields are the same as in UnitVersions.
Json microbatches_json(const WeightVersions& versions, std::int32_t stage) {
  Json units = Json::array();
  for (std::int32_t unit = 0; unit < versions.units; ++unit) {
    const UnitVersions& found = versions.at(stage, unit);
    units.push_back({{"microbatch", unit},
                     {"forward", found.forward},
                     {"backward", found.backward},
                     {"weight", found.weight},
                     {"update", found.update}});
  }
  return units;
}

Json versions_json(const WeightVersions& versions, const VerdictOptions& options) {
  Json stages = Json::array();
  for (std::size_t stage = 0; stage < versions.stages.size(); ++stage) {
    const StageVersions& found = versions.stages[stage];
    Json row = {{"stage", stage},
                {"updates", found.updates},
                {"kept", found.kept},
                {"forward_staleness", staleness_json(found.forward)},
                {"backward_staleness", staleness_json(found.backward)}};
    if (options.versions) {
      row["by_microbatch"] = microbatches_json(versions, static_cast<std::int32_t>(stage));
    }
    stages.push_back(std::move(row));
  }
  return stages;
}

/// Returns the smallest failing program as JSON, or null if there is none. Its field "schedule" is the
/// smallest shape for which the named schedule itself fails.
Json smallest_json(const std::optional<SmallestFailure>& smallest) {
  if (!smallest) return nullptr;
  Json found = {{"ranks", smallest->program.rank_count()},
                {"stages", smallest->program.stage_count()},
                {"microbatches", smallest->program.microbatches},
                {"text", to_text(smallest->program)},
                {"error", smallest->message},
                {"cycle", cycle_json(smallest->cycle)},
                {"crossed", crossed_json(smallest->crossed)}};
  if (smallest->shape) {
    found["schedule"] = {{"stages", smallest->shape->stages},
                         {"microbatches", smallest->shape->microbatches},
                         {"virtual_stages", smallest->shape->virtual_stages}};
  }
  return found;
}

}  // namespace

std::string to_json(const ChannelVerdict& verdict, const VerdictOptions& options) {
  Json document = {
      {"schema_version", 1}, {"kind", "check"}, {"name", verdict.name}, {"valid", verdict.valid()}};
  const auto& hang = verdict.hang(verdict.channels.model);
  document["channel"] = to_text(verdict.channels.model);
  document["blocking"] = verdict.channels.blocking == Blocking::batched
                             ? Json(to_text(Blocking::batched))
                             : Json(verdict.channels.blocking == Blocking::each);
  if (verdict.channels.launch_order) document["launch_order"] = true;
  add_models(document, verdict);
  document["cycle"] = cycle_json(hang ? hang->cycle : std::vector<WaitFor>{});
  document["crossed"] = crossed_json(hang ? hang->crossed : std::vector<CrossedMessage>{});
  const auto weakest = verdict.valid() ? verdict.weakest_safe() : std::nullopt;
  document["weakest_safe_channel"] = weakest ? Json(to_text(*weakest)) : Json(nullptr);
  if (verdict.valid()) {
    add_program(document, verdict);
    document["weight_versions"] = versions_json(verdict.versions, options);
  } else {
    document["error"] = verdict.error;
  }
  if (options.smallest) document["smallest"] = smallest_json(verdict.smallest);
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

// Makes a failing program smaller. First the shape is reduced while the schedule still fails. Then ranks,
// stages, microbatches and actions are removed (passes/counterexample.hpp). The small program is checked
// again, so that the message describes it.

namespace {

/// Returns the smallest program with the same fault as `program`, or nothing if `program` has no fault. If
/// the program hangs or has crossed messages, the result is lowered, because the message names positions in
/// lowered lists.
std::optional<SmallestFailure> shrunk(const Program& program, const ChannelOptions& channels,
                                      const CostTable& costs) {
  auto found = smallest_counterexample(program, channels, costs);
  if (!found) return std::nullopt;
  SmallestFailure failure{.program = std::move(found->program), .message = {}, .cycle = {}, .shape = {}};
  if (const auto valid = validate(failure.program); !valid) {
    failure.message = valid.error();
  } else if (const auto lowered = lower(failure.program); !lowered) {
    failure.message = lowered.error();
  } else if (auto hang = find_hang(*lowered, channels, found->costs)) {
    failure.program = *lowered;
    failure.message = std::move(hang->message);
    failure.cycle = std::move(hang->cycle);
    failure.crossed = std::move(hang->crossed);
  }
  return failure;
}

/// Returns the size of a program as text, such as "2 ranks, 2 stages, 1 microbatch".
std::string shape_in_words(const Program& program) {
  return fmt::format("{}, {}, {} microbatch{}", format_count(program.rank_count(), "rank"),
                     format_count(program.stage_count(), "stage"), program.microbatches,
                     program.microbatches == 1 ? "" : "es");
}

}  // namespace

std::optional<SmallestFailure> smallest_failure(const Scenario& scenario) {
  auto experiment = prepare(scenario);
  if (!experiment) {
    // A generated program that is invalid is not made smaller. An invalid program file is made smaller with
    // unit costs: its scenario could not be prepared, so there are no other costs.
    if (!scenario.program) return std::nullopt;
    return shrunk(*scenario.program, scenario.channels, unit_costs(*scenario.program));
  }
  if (scenario.program) return shrunk(experiment->program, scenario.channels, experiment->costs);
  if (!find_hang(experiment->program, experiment->channels, experiment->costs)) return std::nullopt;
  const ShapedExperiment smallest = smallest_hanging_shape(scenario, *std::move(experiment));
  auto failure = shrunk(smallest.experiment.program, scenario.channels, smallest.experiment.costs);
  if (failure) failure->shape = smallest.shape;
  return failure;
}

std::string to_text(const SmallestFailure& failure) {
  std::string text =
      fmt::format("the smallest program that fails in the same way: {}\n", shape_in_words(failure.program));
  if (failure.shape) {
    text += fmt::format("(the schedule itself does from --pp-size {} --num-microbatches {}{} on)\n",
                        failure.shape->stages, failure.shape->microbatches,
                        failure.shape->virtual_stages == 1
                            ? ""
                            : fmt::format(" --virtual-stages {}", failure.shape->virtual_stages));
  }
  return text + fmt::format("\n{}\n{}\n", to_text(failure.program), failure.message);
}

}  // namespace penstock
