// Writes the recorded costs as a scenario. It has a duration for each stage and microbatch, which is the
// median over the steps. It also has the gaps of the host as overhead, and the latency of messages. If some
// pairs of ranks have slower messages than others, each pair gets its own link. Tests:
// tests/sim/autopsy_test.cpp.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/read/quantities.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/shape.hpp"
#include "sim/autopsy/autopsy.hpp"
#include "sim/autopsy/recording.hpp"
#include "sim/why/account.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

/// The durations of one kind of action in all steps, by stage and microbatch.
using Durations = std::map<std::pair<std::int32_t, std::int32_t>, std::vector<Ns>>;

struct RecordedDurations {
  std::map<ActionKind, Durations> of_kind;
  std::map<std::int32_t, std::vector<Ns>> pairs;  // durations of the overlapped pairs of each stage
};

RecordedDurations durations_of(const Recording& recording) {
  RecordedDurations durations;
  for (const RecordedStep& step : recording.steps) {
    for (const std::vector<RecordedAction>& list : step.lists) {
      for (std::size_t i = 0; i < list.size(); ++i) {
        const Action& action = list[i].action;
        if (!has_weight_version(action.kind)) continue;
        const Ns duration = list[i].end_ns - list[i].start_ns;
        if (action.overlaps_next || (i > 0 && list[i - 1].action.overlaps_next)) {
          durations.pairs[action.stage].push_back(duration);
        } else {
          durations.of_kind[action.kind][{action.stage, action.microbatch}].push_back(duration);
        }
      }
    }
  }
  return durations;
}

Ns mean_duration(const std::vector<Ns>& values) {
  Ns sum = 0;
  for (const Ns value : values) sum += value;
  return values.empty() ? 0 : sum / std::ssize(values);
}

/// Returns the durations of a stage as text. The text is one value, or a list with one value for each
/// microbatch. A microbatch that occurs only in overlapped pairs gets half of a pair's duration. If `means`
/// is true, the list has one mean for each copy of the pipeline, because one copy may have a slow rank. A
/// list of this length is enough: microbatch m belongs to copy m mod `copies`, and a scenario repeats a short
/// list.
std::string stage_durations(const RecordedDurations& all, ActionKind kind, std::int32_t stage,
                            std::int32_t microbatches, std::int32_t copies, bool means) {
  const auto found = all.of_kind.find(kind);
  std::vector<Ns> known;
  std::vector<std::optional<Ns>> list(index(microbatches));
  for (std::int32_t m = 0; found != all.of_kind.end() && m < microbatches; ++m) {
    const auto values = found->second.find({stage, m});
    if (values == found->second.end()) continue;
    list[index(m)] = median_of(values->second);
    known.push_back(*list[index(m)]);
  }
  Ns mean = mean_duration(known);
  if (known.empty()) {
    const auto pairs = all.pairs.find(stage);
    if (pairs != all.pairs.end()) mean = mean_duration(pairs->second) / 2;
  }
  if (means) {
    std::vector<std::optional<Ns>> of_copies(index(copies));
    for (std::int32_t copy = 0; copy < copies; ++copy) {
      std::vector<Ns> own;
      for (std::int32_t m = copy; m < microbatches; m += copies) {
        if (list[index(m)]) own.push_back(*list[index(m)]);
      }
      if (!own.empty()) of_copies[index(copy)] = mean_duration(own);
    }
    list = std::move(of_copies);
  }
  const bool is_even = std::ranges::all_of(
      list, [&](const auto& one) { return one.value_or(mean) == list.front().value_or(mean); });
  if (is_even) return duration_text(list.front().value_or(mean));
  std::vector<std::string> texts;
  texts.reserve(list.size());
  for (const std::optional<Ns>& one : list) texts.push_back(duration_text(one.value_or(mean)));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string durations_key(const Recording& recording, const RecordedDurations& all, ActionKind kind,
                          std::string_view key, bool means) {
  std::vector<std::string> stages;
  stages.reserve(index(recording.stages));
  for (std::int32_t stage = 0; stage < recording.stages; ++stage)
    stages.push_back(stage_durations(all, kind, stage, recording.microbatches, recording.copies, means));
  return fmt::format("    {}: [{}]\n", key, fmt::join(stages, ", "));
}

/// Returns the mean gap of each stage. A gap is the time from the latest cause of an action to its start.
std::vector<Ns> host_gaps(const Recording& recording, const std::vector<RecordedRun>& runs) {
  std::vector<std::vector<Ns>> gaps(index(recording.stages));
  for (const RecordedRun& run : runs) {
    const CauseGraph& graph = run.caused.graph;
    for (CauseNode node = 0; node < graph.finish(); ++node) {
      const bool begins = graph.first_input[node] == graph.first_input[node + 1];
      if (graph.kinds[node] != NodeKind::compute || begins) continue;
      const std::int32_t stage = run.caused.flat.actions[index(graph.subjects[node])].stage;
      gaps[index(stage)].push_back(std::max<Ns>(0, run.caused.costs.lag[node]));
    }
  }
  std::vector<Ns> means;
  means.reserve(gaps.size());
  for (const std::vector<Ns>& of_stage : gaps) means.push_back(mean_duration(of_stage));
  return means;
}

/// Returns the latency of messages. If ranks wait for their messages together, it is the median over all
/// messages. If ranks post messages ahead, a RECV may end late. In this case, only the quickest message of
/// each pair of ranks counts, and the result is the median over the pairs.
Ns latency_of(const std::vector<RecordedRun>& runs, Waiting waiting) {
  std::vector<Ns> all;
  std::map<std::pair<std::int32_t, std::int32_t>, Ns> quickest;
  for (const RecordedRun& run : runs) {
    for (std::size_t id = 0; id < run.caused.flat.messages.size(); ++id) {
      if (run.caused.flat.messages[id].recv == kNone) continue;
      const Ns latency = run.caused.durations.latency[id];
      all.push_back(latency);
      const auto& message = run.caused.flat.messages[id];
      const auto [entry, is_new] = quickest.try_emplace({message.from_rank, message.to_rank}, latency);
      entry->second = std::min(entry->second, latency);
    }
  }
  if (all.empty()) return 0;
  if (waiting == Waiting::batched) return median_of(std::move(all));
  std::vector<Ns> of_pairs;
  of_pairs.reserve(quickest.size());
  for (const auto& [pair, latency] : quickest) of_pairs.push_back(latency);
  return median_of(std::move(of_pairs));
}

/// Returns the latency of the messages between each two ranks. The key is a pair of ranks, the smaller one
/// first. The latency is the median, or that of the quickest message if ranks post messages ahead.
std::map<std::pair<std::int32_t, std::int32_t>, Ns> latencies_of_pairs(const std::vector<RecordedRun>& runs,
                                                                       Waiting waiting) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<Ns>> all;
  for (const RecordedRun& run : runs) {
    for (std::size_t id = 0; id < run.caused.flat.messages.size(); ++id) {
      const FlatMessage& message = run.caused.flat.messages[id];
      if (message.recv == kNone) continue;
      all[std::minmax({message.from_rank, message.to_rank})].push_back(run.caused.durations.latency[id]);
    }
  }
  std::map<std::pair<std::int32_t, std::int32_t>, Ns> of_pairs;
  for (auto& [pair, values] : all) {
    of_pairs[pair] =
        waiting == Waiting::batched ? median_of(std::move(values)) : *std::ranges::min_element(values);
  }
  return of_pairs;
}

/// Returns true if, in a cluster with one link for each pair of ranks, the messages of each pair would use
/// this pair's link. Returns false if a route over other ranks would be quicker for some pair.
bool take_own_links(const std::map<std::pair<std::int32_t, std::int32_t>, Ns>& of_pairs,
                    const Recording& recording, Ns between_copies) {
  ClusterBuilder builder("recorded");
  for (std::int32_t rank = 0; rank < recording.rank_count(); ++rank)
    builder.add_device({.name = fmt::format("rank{}", rank)});
  for (const auto& [pair, latency] : of_pairs)
    builder.add_duplex_link(pair.first, pair.second, kUnlimitedBandwidth, latency);
  for (std::int32_t copy = 1; copy < recording.copies; ++copy)
    builder.add_duplex_link(copy - 1, copy, kUnlimitedBandwidth, between_copies);
  const auto cluster = builder.build();
  return cluster && std::ranges::all_of(of_pairs, [&](const auto& one) {
           return cluster->route(one.first.first, one.first.second).links.size() == 1;
         });
}

/// Returns the cluster as text. It has a link for each pair of ranks that exchange messages. All links have
/// the same latency if the pairs differ little, if the user wants means, or if a pair would not use its own
/// link. Additional links join the first ranks of the copies, because a cluster must have a route between any
/// two devices.
std::string cluster_part(const Recording& recording, const std::vector<RecordedRun>& runs, Waiting waiting,
                         bool means) {
  const Ns latency = latency_of(runs, waiting);
  const auto of_pairs = latencies_of_pairs(runs, waiting);
  const bool is_even =
      std::ranges::all_of(of_pairs, [&](const auto& one) { return one.second == of_pairs.begin()->second; });
  if (means || is_even || !take_own_links(of_pairs, recording, latency)) {
    return fmt::format("cluster: {{preset: uniform, devices: {}, latency: {}}}\n", recording.rank_count(),
                       duration_text(latency));
  }
  std::vector<std::string> ranks;
  ranks.reserve(static_cast<std::size_t>(recording.rank_count()));
  for (std::int32_t rank = 0; rank < recording.rank_count(); ++rank)
    ranks.push_back(fmt::format("rank{}", rank));
  std::string text = fmt::format("cluster:\n  devices: [{}]\n  links:\n", fmt::join(ranks, ", "));
  const auto add_link = [&](std::int32_t from, std::int32_t to, Ns of_link) {
    text +=
        fmt::format("    - {{between: [rank{}, rank{}], latency: {}}}\n", from, to, duration_text(of_link));
  };
  for (const auto& [pair, of_pair] : of_pairs) add_link(pair.first, pair.second, of_pair);
  for (std::int32_t copy = 1; copy < recording.copies; ++copy) add_link(copy - 1, copy, latency);
  return text;
}

std::string schedule_part(const Recording& recording, const std::optional<MeantProgram>& schedule,
                          Waiting waiting) {
  if (!schedule || !schedule->shape) {
    return fmt::format("schedule: {{program: {}{}}}\n", kListsFile,
                       waiting == Waiting::batched ? ", blocking: batched" : "");
  }
  const Shape& shape = *schedule->shape;
  std::string keys = fmt::format("name: {}, stages: {}, microbatches: {}", schedule->name, shape.stages,
                                 recording.microbatches);
  if (shape.virtual_stages > 1) keys += fmt::format(", virtual_stages: {}", shape.virtual_stages);
  if (shape.group_size > 0) keys += fmt::format(", group_size: {}", shape.group_size);
  if (recording.copies > 1) {
    keys += fmt::format(", data_parallel: {}, replica_sync: false", recording.copies);
  }
  if (waiting == Waiting::batched) keys += ", blocking: batched";
  return fmt::format("schedule: {{{}}}\n", keys);
}

}  // namespace

std::string recorded_scenario(const Autopsy& autopsy, const std::vector<RecordedRun>& runs,
                              const std::optional<MeantProgram>& schedule, bool means) {
  const Recording& recording = autopsy.recording;
  const RecordedDurations all = durations_of(recording);
  std::string text = comment_to_yaml(fmt::format(
      "Recorded costs of {}: {} over {} steps.", autopsy.name,
      means ? (recording.copies > 1 ? "one mean a stage and copy" : "one mean a stage") : "medians",
      recording.steps.size()));
  text += "model:\n  stages:\n";
  text += durations_key(recording, all, ActionKind::forward, "forward", means);
  if (all.of_kind.contains(ActionKind::backward_input)) {
    text += durations_key(recording, all, ActionKind::backward_input, "backward_input", means);
    text += durations_key(recording, all, ActionKind::backward_weight, "backward_weight", means);
  } else {
    text += durations_key(recording, all, ActionKind::backward, "backward", means);
  }
  if (!all.pairs.empty()) {
    std::vector<std::string> pairs;
    for (std::int32_t stage = 0; stage < recording.stages; ++stage) {
      const auto found = all.pairs.find(stage);
      pairs.push_back(duration_text(found == all.pairs.end() ? 0 : mean_duration(found->second)));
    }
    text += fmt::format("    overlapped_pair: [{}]\n", fmt::join(pairs, ", "));
  }
  const std::vector<Ns> gaps = host_gaps(recording, runs);
  if (std::ranges::any_of(gaps, [](Ns gap) { return gap > 0; })) {
    std::vector<std::string> texts;
    texts.reserve(gaps.size());
    for (const Ns gap : gaps) texts.push_back(duration_text(gap));
    text += fmt::format("    overhead: [{}]\n", fmt::join(texts, ", "));
  }
  text += cluster_part(recording, runs, autopsy.waiting, means);
  return text + schedule_part(recording, schedule, autopsy.waiting);
}

}  // namespace penstock
