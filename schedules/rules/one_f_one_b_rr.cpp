// PipeDream's schedule for replicated stages, in two parts. The first part distributes minibatches among the
// replicas of each stage. The second part is the rule, 1f1b-rr. Tested by one_f_one_b_rr_test.cpp and
// picture_test.cpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "schedules/ir/program_parts.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/rules/generators.hpp"
#include "schedules/rules/stage_replicas.hpp"

namespace penstock {

// Decides which replica of each stage runs each minibatch, and in which order.

/// The minibatches that each replica of one stage runs. The outer index is the replica. Each inner list is
/// in the order in which the replica runs its minibatches.
using ReplicaMinibatches = std::vector<std::vector<std::int32_t>>;

/// Distributes the minibatches 0..M-1 over the replicas of all stages. Minibatch g enters at replica g mod r
/// of stage 0, which has r replicas.
///
/// Routing::global: replica q of stage s runs every minibatch g with g mod r_s = q, in ascending order.
/// Routing::runtime: the rule of PipeDream's released runtime (msr-fiddle/pipedream). Replica q sends its
/// j-th minibatch to replica (j + q) mod r of the next stage. A receiver takes minibatches from groups of
/// upstream replicas (the rows below). Fails if a replica would wait forever for a minibatch.
tl::expected<std::vector<ReplicaMinibatches>, std::string> route_minibatches(
    std::span<const std::int32_t> replicas, std::int32_t minibatches, Routing routing);

/// Returns the shortest table that gives the replica of each minibatch of a stage. The minibatches go
/// through the table in order, and the table is repeated as often as necessary.
std::vector<std::int32_t> route_table(const ReplicaMinibatches& stage);

// Distributes minibatches over the replicas of stages. With Routing::runtime, a replica q' of a stage with r'
// replicas receives from the r replicas of the previous stage as follows. Row R_i holds the upstream replicas
// i, i+r', i+2r', ... below r. The replica begins at row q', or at the last row if there are fewer rows. It
// takes one minibatch from each replica of the row, from left to right. Then it continues with the previous
// row. After row 0 it continues with the last row.
//
//   r = 5, r' = 2:   R_0 = 0 2 4    R_1 = 1 3        q' = 0 takes from 0 2 4 1 3 0 2 4 ...
//                                                    q' = 1 takes from 1 3 0 2 4 1 3 ...
//
// Tested by one_f_one_b_rr_test.cpp.

namespace {

/// Distributes minibatches over the replicas of a stage in turn: minibatch g runs on replica g mod
/// `replicas`. This is the rule for the first stage, and for every stage under Routing::global.
ReplicaMinibatches round_robin(std::int32_t replicas, std::int32_t minibatches) {
  ReplicaMinibatches stage(index(replicas));
  for (std::int32_t g = 0; g < minibatches; ++g) stage[index(g % replicas)].push_back(g);
  return stage;
}

/// Returns the rows R_i of upstream replicas. R_i has the replicas i, i + r', i + 2 r', ... below `upstream`,
/// and r' is `replicas`.
std::vector<std::vector<std::size_t>> receive_rows(std::size_t upstream, std::size_t replicas) {
  std::vector<std::vector<std::size_t>> rows;
  for (std::size_t first = 0; first < std::min(upstream, replicas); ++first) {
    auto& row = rows.emplace_back();
    for (std::size_t replica = first; replica < upstream; replica += replicas) row.push_back(replica);
  }
  return rows;
}

/// Returns the minibatches that replica `self` runs. `queues` has one queue of minibatches from each
/// upstream replica, and `rows` says in which groups they are read. Fails if the replica would wait
/// forever.
tl::expected<std::vector<std::int32_t>, std::string> receive(
    std::vector<std::deque<std::int32_t>> queues, const std::vector<std::vector<std::size_t>>& rows,
    std::size_t self) {
  std::size_t left = 0;
  for (const auto& queue : queues) left += queue.size();
  std::vector<std::int32_t> received;
  std::size_t row = std::min(self, rows.size() - 1);
  while (left > 0) {
    for (const std::size_t upstream : rows[row]) {
      if (left == 0) break;
      if (queues[upstream].empty()) {
        return tl::unexpected(fmt::format(
            "replica {} waits for replica {} of the stage before it, which has no more", self, upstream));
      }
      received.push_back(queues[upstream].front());
      queues[upstream].pop_front();
      --left;
    }
    row = (row + rows.size() - 1) % rows.size();
  }
  return received;
}

/// Returns the minibatches of each replica of the next stage, which has r' = `replicas` replicas. Upstream
/// replica q sends its j-th minibatch to replica (j + q) mod r'. That replica reads its queues in the order
/// of receive_rows().
tl::expected<ReplicaMinibatches, std::string> next_stage(const ReplicaMinibatches& from,
                                                         std::int32_t replicas) {
  std::vector<std::vector<std::deque<std::int32_t>>> queues(
      index(replicas), std::vector<std::deque<std::int32_t>>(from.size()));
  for (std::size_t q = 0; q < from.size(); ++q) {
    for (std::size_t j = 0; j < from[q].size(); ++j) {
      queues[(j + q) % index(replicas)][q].push_back(from[q][j]);
    }
  }
  const auto rows = receive_rows(from.size(), index(replicas));
  ReplicaMinibatches stage;
  for (std::size_t self = 0; self < index(replicas); ++self) {
    auto received = receive(std::move(queues[self]), rows, self);
    if (!received) return tl::unexpected(received.error());
    stage.push_back(std::move(*received));
  }
  return stage;
}

}  // namespace

tl::expected<std::vector<ReplicaMinibatches>, std::string> route_minibatches(
    std::span<const std::int32_t> replicas, std::int32_t minibatches, Routing routing) {
  std::vector<ReplicaMinibatches> stages{round_robin(replicas.front(), minibatches)};
  for (std::size_t stage = 1; stage < replicas.size(); ++stage) {
    if (routing == Routing::global) {
      stages.push_back(round_robin(replicas[stage], minibatches));
      continue;
    }
    auto next = next_stage(stages.back(), replicas[stage]);
    if (!next) return tl::unexpected(fmt::format("at stage {} {}", stage, next.error()));
    stages.push_back(std::move(*next));
  }
  return stages;
}

std::vector<std::int32_t> route_table(const ReplicaMinibatches& stage) {
  std::size_t count = 0;
  for (const auto& minibatches : stage) count += minibatches.size();
  std::vector<std::int32_t> route(count);
  for (std::size_t replica = 0; replica < stage.size(); ++replica) {
    for (const std::int32_t g : stage[replica]) route[index(g)] = static_cast<std::int32_t>(replica);
  }
  // Computes the failure function of Knuth, Morris and Pratt, which gives the shortest period.
  std::vector<std::size_t> border(count, 0);
  for (std::size_t i = 1, matched = 0; i < count; ++i) {
    while (matched > 0 && route[i] != route[matched]) matched = border[matched - 1];
    if (route[i] == route[matched]) ++matched;
    border[i] = matched;
  }
  route.resize(count - border.back());
  return route;
}

// 1F1B-RR (PipeDream, SOSP'19, sections 3.2 and 3.3): asynchronous 1F1B over replicated stages with weight
// stashing. Every microbatch is a minibatch with its own update, and the pipeline is never flushed. With 3
// stages, one replica each and 5 minibatches (the STEP after each B takes no time):
//
//   rank 0   F0 F1 F2       B0 F3 B1 F4 B2    B3    B4
//   rank 1      F0 F1    B0 F2 B1 F3 B2 F4 B3    B4
//   rank 2         F0 B0 F1 B1 F2 B2 F3 B3 F4 B4
//
// Stage s has r_s replicas, and N is the number of all replicas. Each replica of stage s runs W_s = floor((N
// - 1 - sum_{j<s} r_j) / r_s) forwards before its first backward. W_0 + 1 is the paper's NOAM. The j-th
// forward of a replica uses the weights after max(0, j - W_s) updates of the stage. With stashing, its
// backward uses the same weights. Tested by one_f_one_b_rr_test.cpp.

namespace {

/// Returns the number of warm-up forwards W_s of each stage s, by the formula in the comment above. A stage
/// for which the shape states warm-ups gets the stated number.
std::vector<std::int32_t> warmups(const Shape& shape, const std::vector<std::int32_t>& replicas) {
  const std::int32_t workers = std::accumulate(replicas.begin(), replicas.end(), 0);
  std::vector<std::int32_t> counts;
  std::int32_t before = 0;
  for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
    const std::int32_t rule = round_robin_warmup(workers - before, replicas[index(stage)]);
    counts.push_back(warmup_of(shape, stage, rule));
    before += replicas[index(stage)];
  }
  return counts;
}

/// Returns true if all replicas of each stage run equally many minibatches. A gradient reduction requires
/// this.
bool replicas_work_equally(const std::vector<ReplicaMinibatches>& stages) {
  return std::ranges::all_of(stages, [](const ReplicaMinibatches& replicas) {
    return std::ranges::all_of(
        replicas, [&](const auto& minibatches) { return minibatches.size() == replicas.front().size(); });
  });
}

using Routed = tl::expected<std::vector<ReplicaMinibatches>, std::string>;

Routed route_evenly(const Shape& shape, const std::vector<std::int32_t>& replicas, std::int32_t minibatches) {
  Routed stages = route_minibatches(replicas, minibatches, shape.routing);
  if (stages && shape.replica_sync == ReplicaSync::on && !replicas_work_equally(*stages)) {
    return tl::unexpected<std::string>(
        "the replicas of a stage get different numbers of minibatches, so some would wait for a gradient "
        "reduction that never comes");
  }
  return stages;
}

/// The largest distance between the requested number of minibatches and a suggested one.
constexpr std::int64_t kFarthest = 1 << 22;
/// The limit for the work of all trials together, counted in minibatches plus queues. Routing this many
/// takes some tenths of a second.
constexpr std::int64_t kMostRouted = 1 << 24;

/// Returns a number g such that every possible number of minibatches is a multiple of g. Replicas that
/// reduce together run equally many minibatches, so g must be a multiple of each stage's number of
/// replicas.
std::int64_t grain_of(const Shape& shape, const std::vector<std::int32_t>& replicas) {
  std::int64_t grain = 1;
  if (shape.replica_sync == ReplicaSync::off) return grain;
  // The value is limited, because it could otherwise overflow 64 bits. The search never uses values above the
  // limit.
  for (const std::int32_t count : replicas)
    grain = std::min<std::int64_t>(kFarthest + 1, std::lcm(grain, std::int64_t{count}));
  return grain;
}

/// Returns the first number of minibatches that all replicas can share evenly. It tries from, from + step,
/// and so on. Returns nothing if the search first reaches kFarthest, or if its effort exceeds kMostRouted.
/// The effort of a trial is its number of minibatches plus its number of queues.
std::optional<std::int64_t> first_even(const Shape& shape, const std::vector<std::int32_t>& replicas,
                                       std::int64_t from, std::int64_t step) {
  std::int64_t queues = 0;
  for (std::size_t stage = 0; stage + 1 < replicas.size(); ++stage)
    queues += std::int64_t{replicas[stage]} * replicas[stage + 1];
  const std::int64_t last =
      std::min<std::int64_t>(from + kFarthest, std::numeric_limits<std::int32_t>::max());
  std::int64_t routed = 0;
  for (std::int64_t count = from; count > 0 && count <= last && routed < kMostRouted; count += step) {
    if (route_evenly(shape, replicas, static_cast<std::int32_t>(count))) return count;
    routed += count + queues;
  }
  return std::nullopt;
}

/// Returns the numbers of minibatches near `asked` that all replicas can share evenly, as text for the error
/// message.
std::string nearest(const Shape& shape, const std::vector<std::int32_t>& replicas, std::int64_t asked) {
  const std::int64_t grain = grain_of(shape, replicas);
  const std::int64_t here = asked / grain * grain;
  const auto below = first_even(shape, replicas, here, -grain);
  const bool is_near = here + grain <= asked + kFarthest;
  const auto above = is_near ? first_even(shape, replicas, here + grain, grain) : std::nullopt;
  const std::string upper = above ? fmt::format("{}", *above) : "none near above";
  return below ? fmt::format("{} and {}", *below, upper) : upper;
}

/// The weight versions that F and B of each minibatch use on one stage. The index is the number of the
/// minibatch.
struct Versions {
  std::vector<std::int32_t> of_forward;
  std::vector<std::int32_t> of_backward;
};

/// Returns the weight versions that one stage uses for each minibatch. They follow from the updates that
/// each replica has seen before its j-th minibatch. Without stashing, a backward uses the newest version.
Versions stage_versions(WeightPolicy policy, const ReplicaMinibatches& stage, std::int32_t warmup,
                        std::int32_t minibatches) {
  Versions versions{std::vector<std::int32_t>(index(minibatches)),
                    std::vector<std::int32_t>(index(minibatches))};
  for (const std::vector<std::int32_t>& mine : stage) {
    for (std::size_t j = 0; j < mine.size(); ++j) {
      const auto local = static_cast<std::int32_t>(j);
      const std::int32_t seen = std::max(0, local - warmup);
      versions.of_forward[index(mine[j])] = seen;
      versions.of_backward[index(mine[j])] = policy == WeightPolicy::latest ? local : seen;
    }
  }
  return versions;
}

/// Applies vertical sync: the stage uses the version that the input stage used, converted into a number of
/// STEPs of this stage.
void follow_input_stage(Versions& versions, const Versions& input, std::int32_t input_replicas,
                        std::int32_t replicas) {
  for (std::size_t g = 0; g < versions.of_forward.size(); ++g) {
    const std::int32_t admitted = input.of_forward[g] * input_replicas / replicas;
    versions.of_forward[g] = std::min(versions.of_forward[g], admitted);
    versions.of_backward[g] = versions.of_forward[g];
  }
}

/// Returns a replica's list: first the warm-up, then forwards and updates in alternation, then the
/// remaining updates. An update is a B, its reduction and its STEP.
std::vector<Action> replica_actions(std::int32_t stage, const std::vector<std::int32_t>& minibatches,
                                    std::int32_t stated_warmup, const Versions& versions, bool reduces) {
  std::vector<Action> list;
  const std::size_t warmup = std::min(index(stated_warmup), minibatches.size());
  const auto add_forward = [&](std::int32_t g) {
    list.push_back(forward(stage, g, versions.of_forward[index(g)]));
  };
  const auto add_update = [&](std::int32_t g) {
    list.push_back(backward(stage, g, versions.of_backward[index(g)]));
    if (reduces) list.push_back(whole_stage(ActionKind::reduce_grad, stage));
    list.push_back(whole_stage(ActionKind::step, stage));
  };
  for (std::size_t j = 0; j < warmup; ++j) add_forward(minibatches[j]);
  for (std::size_t j = warmup; j < minibatches.size(); ++j) {
    add_forward(minibatches[j]);
    add_update(minibatches[j - warmup]);
  }
  for (std::size_t j = minibatches.size() - warmup; j < minibatches.size(); ++j) add_update(minibatches[j]);
  return list;
}

/// An action that runs on each minibatch from `minibatch` on. It uses the weights after max(0, minibatch -
/// lag) updates.
struct Versioned {
  ActionKind kind = ActionKind::forward;
  std::int32_t minibatch = 0;
  std::int32_t lag = 0;
};

/// Appends `count` repetitions of a stage's actions. If `steps` is true, a STEP follows each repetition.
/// Repetitions with a constant weight version and repetitions with an increasing one are stored as separate
/// runs.
void repeat_versioned(ActionLoops& list, std::int32_t stage, std::vector<Versioned> actions, bool steps,
                      std::int32_t count) {
  while (count > 0) {
    std::int32_t part = count;
    std::vector<PatternAction> pattern;
    for (Versioned& versioned : actions) {
      const std::int32_t version = std::max(0, versioned.minibatch - versioned.lag);
      const bool moves = versioned.minibatch >= versioned.lag;
      if (!moves) part = std::min(part, versioned.lag - versioned.minibatch);
      pattern.push_back({.action = compute(versioned.kind, stage, versioned.minibatch, version),
                         .version_step = moves ? 1 : 0});
    }
    if (steps) pattern.push_back({.action = whole_stage(ActionKind::step, stage)});
    list.repeat(std::move(pattern), part);
    for (Versioned& versioned : actions) versioned.minibatch += part;
    count -= part;
  }
}

/// Returns the list of a stage that has one replica. It runs the minibatches 0, 1, ... in order. `rule` is
/// the number of warm-up forwards of this stage, and `input_rule` that of the first stage.
ActionLoops straight_list(const Shape& shape, std::int32_t stage, std::int32_t rule, std::int32_t input_rule,
                          std::int32_t minibatches) {
  const bool synced = shape.weights == WeightPolicy::vertical_sync;
  const std::int32_t lag = synced ? std::max(rule, input_rule) : rule;
  const std::int32_t lag_of_backward = shape.weights == WeightPolicy::latest ? 0 : lag;
  const std::int32_t warmup = std::min(rule, minibatches);
  const auto forwards = [&](std::int32_t first) { return Versioned{ActionKind::forward, first, lag}; };
  const auto backwards = [&](std::int32_t first) {
    return Versioned{ActionKind::backward, first, lag_of_backward};
  };
  ActionLoops list;
  repeat_versioned(list, stage, {forwards(0)}, false, warmup);
  repeat_versioned(list, stage, {forwards(warmup), backwards(0)}, true, minibatches - warmup);
  repeat_versioned(list, stage, {backwards(minibatches - warmup)}, true, warmup);
  return list;
}

}  // namespace

GeneratedLoops one_f_one_b_rr_loops(const Shape& shape) {
  const std::vector<std::int32_t> replicas = replica_counts(shape);
  if (std::ranges::any_of(replicas, [](std::int32_t count) { return count > 1; }))
    return one_f_one_b_rr(shape).map(rolled);
  const std::vector<std::int32_t> warmup = warmups(shape, replicas);
  const std::int32_t minibatches = shape.microbatches * shape.iterations;
  RolledProgram straight{.program = {.schedule = "1f1b-rr",
                                     .microbatches = minibatches,
                                     .mixed_versions = shape.weights == WeightPolicy::latest,
                                     .update = UpdateRule::microbatch},
                         .lists = {}};
  for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
    straight.program.placement.stages.push_back({.ranks = {stage}});
    straight.lists.push_back(straight_list(shape, stage, warmup[index(stage)], warmup.front(), minibatches));
  }
  straight.program.ranks.resize(straight.lists.size());
  return straight;
}

Generated one_f_one_b_rr(const Shape& shape) {
  const std::vector<std::int32_t> replicas = replica_counts(shape);
  const std::vector<std::int32_t> warmup = warmups(shape, replicas);
  const std::int32_t minibatches = shape.microbatches * shape.iterations;
  const Routed stages = route_evenly(shape, replicas, minibatches);
  if (!stages) {
    return tl::unexpected(fmt::format(
        "microbatches: {} minibatches do not divide among the replicas: {}; the nearest that work: {}",
        minibatches, stages.error(), nearest(shape, replicas, minibatches)));
  }
  Program program{.schedule = "1f1b-rr",
                  .microbatches = minibatches,
                  .mixed_versions = shape.weights == WeightPolicy::latest,
                  .update = UpdateRule::microbatch};
  Versions input;
  for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
    const ReplicaMinibatches& mine = (*stages)[index(stage)];
    Versions versions = stage_versions(shape.weights, mine, warmup[index(stage)], minibatches);
    if (stage == 0) input = versions;
    if (shape.weights == WeightPolicy::vertical_sync) {
      follow_input_stage(versions, input, replicas.front(), replicas[index(stage)]);
    }
    const bool reduces = replicas[index(stage)] > 1 && shape.replica_sync == ReplicaSync::on;
    StagePlacement placement{.ranks = {}, .route = route_table(mine)};
    for (const std::vector<std::int32_t>& minibatches_here : mine) {
      placement.ranks.push_back(program.rank_count());
      program.ranks.push_back(
          replica_actions(stage, minibatches_here, warmup[index(stage)], versions, reduces));
    }
    program.placement.stages.push_back(std::move(placement));
  }
  return program;
}

}  // namespace penstock
