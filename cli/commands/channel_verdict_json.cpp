// Writes the verdict of a channel check as JSON. For each channel model it says if the program is valid,
// hangs or has crossed messages. The cycle and the crossed messages are lists. The weakest safe model is null
// if no model is safe.

#include "cli/commands/channel_verdict.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/commands/smallest_failure.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/crossed_messages.hpp"
#include "schedules/check/weight_versions.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/text/program_text.hpp"

namespace penstock {
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

/// Returns a JSON list with an object {rank, position, send, peer, peer_position, receive} for each crossed
/// message.
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

/// Adds the objects "hangs" and "crosses", such as {"rank": true, ..., "boundary": false}. They apply to the
/// chosen blocking. If the program is invalid, both objects are empty.
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

/// Returns the weight versions of one stage for each microbatch, with the fields of UnitVersions.
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

/// Returns the smallest failing program, or null if none was found. "schedule" is the smallest shape with
/// which the named schedule itself fails.
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
  document["blocking"] = verdict.channels.blocking;
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

}  // namespace penstock
