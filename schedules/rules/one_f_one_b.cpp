// 1F1B and its variants with one stage a rank and whole backwards: 1f1b, eager-1f1b, kfkb, seq-1f1b and
// pipedream-2bw. Each rank runs some warm-up forwards and then alternates between a forward and a backward.
// interleaved.cpp has several chunks a rank, and one_f_one_b_rr.cpp replicated stages. Tested by
// picture_test.cpp and conformance_test.cpp.

#include <algorithm>
#include <cstddef>
#include <cstdint>
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

// 1F1B with a flush (PipeDream-Flush, DAPPLE, Megatron's non-interleaved schedule). Each rank first runs one
// warm-up forward for every later stage. Then it alternates one forward with one backward. Finally it runs
// the remaining backwards. With 3 stages and 4 microbatches:
//
//   rank 0   F0 F1 F2       B0 F3 B1    B2    B3
//   rank 1      F0 F1    B0 F2 B1 F3 B2    B3
//   rank 2         F0 B0 F1 B1 F2 B2 F3 B3
//
// The option `warmup` states another number of warm-up forwards for each stage. More forwards hide the
// latency of links but need more memory. With expert_overlap, which only a single stage takes, F1 and B0 are
// an overlapped pair, and so on: F0 F1&B0 F2&B1 F3&B2 B3. stage_replicas.cpp says what `replicas` changes.

namespace {

/// Checks that no two stages wait for each other. A stage with r replicas and w warm-up forwards on each of
/// them has run at most (w + 1) r microbatches forward before it needs a gradient of the first r. The next
/// stage sends that gradient after w' r' + 1 forwards. Without replicas, w' must be at most w.
ShapeCheck check_warmups(const Shape& shape, const std::vector<StageReplica>& replicas,
                         const std::vector<std::int32_t>& warmups) {
  for (std::size_t i = 1; i < replicas.size(); ++i) {
    const StageReplica& here = replicas[i];
    const StageReplica& before = replicas[i - 1];
    if (here.stage == before.stage) continue;
    const std::int64_t needed =
        std::min<std::int64_t>(std::int64_t{warmups[i]} * here.step, shape.microbatches);
    if (needed < (std::int64_t{warmups[i - 1]} + 1) * before.step) continue;
    if (shape.replicas.empty()) {
      return tl::unexpected(fmt::format(
          "warmup: stage {} has {} warm-up forwards and stage {} only {}; each stage needs at least as many "
          "as the stage after it",
          here.stage, std::min(warmups[i], shape.microbatches), before.stage, warmups[i - 1]));
    }
    return tl::unexpected(
        fmt::format("warmup: stage {} runs {} x {} forwards ahead of its first backwards, and stage {} at "
                    "most {} x ({} + "
                    "1) without a gradient of it; give stage {} more warm-up forwards, or stage {} fewer",
                    here.stage, here.step, warmups[i], before.stage, before.step, warmups[i - 1],
                    before.stage, here.stage));
  }
  return {};
}

}  // namespace

GeneratedLoops one_f_one_b_loops(const Shape& shape) {
  const std::vector<StageReplica> replicas = stage_replicas(shape);
  std::vector<std::int32_t> warmups;
  warmups.reserve(replicas.size());
  for (const StageReplica& replica : replicas) {
    warmups.push_back(
        warmup_of(shape, replica.stage, replica.usual_warmup() + (shape.expert_overlap ? 1 : 0)));
  }
  if (auto checked = check_warmups(shape, replicas, warmups); !checked)
    return tl::unexpected(checked.error());
  RolledProgram rolled = replicated_program("1f1b", shape);
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    const StageReplica& replica = replicas[i];
    const std::int32_t warmup = std::min(warmups[i], replica.count);
    ActionLoops& list = rolled.lists[i];
    list.repeat({forward(replica.stage, replica.first)}, warmup, replica.step);
    Action next = forward(replica.stage, replica.microbatch(warmup));
    next.overlaps_next = shape.expert_overlap;
    list.repeat({next, backward(replica.stage, replica.first)}, replica.count - warmup, replica.step);
    list.repeat({backward(replica.stage, replica.microbatch(replica.count - warmup))}, warmup, replica.step);
  }
  append_updates(rolled, shape);
  return rolled;
}

Generated one_f_one_b(const Shape& shape) {
  return one_f_one_b_loops(shape).map(
      [&](RolledProgram rolled) { return spelled_out(std::move(rolled), shape); });
}

// Eager 1F1B (DAPPLE's policy PB; Alpa) is 1F1B with more warm-up: two forwards for every later stage. An
// activation then arrives before it is needed, even if links are slow. With 3 stages and 5 microbatches:
//
//   rank 0   F0 F1 F2 F3 F4 B0    B1    B2    B3    B4
//   rank 1      F0 F1 F2 B0 F3 B1 F4 B2    B3    B4
//   rank 2         F0 B0 F1 B1 F2 B2 F3 B3 F4 B4
//
// The work equals that of 1F1B. If transfers take no time, the total time is also equal. Stage s stores up to
// 2 (K - s) - 1 activations.

GeneratedLoops eager_one_f_one_b_loops(const Shape& shape) {
  Shape deeper = shape;
  deeper.warmup.clear();
  for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
    deeper.warmup.push_back(std::min(shape.microbatches, 2 * (shape.stages - 1 - stage)));
  }
  return one_f_one_b_loops(deeper).map([](RolledProgram rolled) {
    rolled.program.schedule = "eager-1f1b";
    return rolled;
  });
}

Generated eager_one_f_one_b(const Shape& shape) {
  return eager_one_f_one_b_loops(shape).map(
      [&](RolledProgram rolled) { return spelled_out(std::move(rolled), shape); });
}

// kFkB (Ada-Grouper, arXiv 2303.01675) is 1F1B over groups of k microbatches. A rank runs the k forwards or
// the k backwards of a group one after another. Before the first backward it runs one group of forwards for
// every later stage. With 3 stages, 6 microbatches and k = 2:
//
//   rank 0   F0 F1 F2 F3 F4 F5 B0 B1       B2 B3       B4 B5
//   rank 1      F0 F1 F2 F3 B0 B1 F4 F5 B2 B3       B4 B5
//   rank 2         F0 F1 B0 B1 F2 F3 B2 B3 F4 F5 B4 B5
//
// While a rank computes one microbatch of a group, the activation of the previous microbatch is in transfer,
// so computation hides the transfers. In 1F1B a rank waits for each transfer. If transfers take no time, the
// total time equals that of 1F1B. Stage s stores up to k (K - s) activations. k = 1 is 1F1B, and k = M has
// the order of GPipe. The last group may be smaller.

namespace {

/// Returns a list of microbatches from a list of groups. Each action of a group is replaced by one action for
/// each microbatch of the group.
std::vector<Action> over_microbatches(const std::vector<Action>& list, std::int32_t group,
                                      std::int32_t microbatches) {
  std::vector<Action> actions;
  actions.reserve(list.size() * index(group));
  for (Action action : list) {
    if (!has_microbatch(action.kind)) {
      actions.push_back(action);
      continue;
    }
    const std::int32_t first = action.microbatch * group;
    for (std::int32_t m = first; m < std::min(first + group, microbatches); ++m) {
      action.microbatch = m;
      actions.push_back(action);
    }
  }
  return actions;
}

}  // namespace

std::int32_t kfkb_group(const Shape& shape) {
  return std::min(shape.microbatches, shape.group_size > 0 ? shape.group_size : 2);
}

Generated kfkb(const Shape& shape) {
  const std::int32_t group = kfkb_group(shape);
  // The list is made by 1F1B with one microbatch for each group. Then each of these microbatches becomes k
  // microbatches.
  Shape groups = shape;
  groups.microbatches = (shape.microbatches + group - 1) / group;
  groups.checkpoint =
      Checkpoint::never;  // R belongs to a single microbatch, so R actions are inserted afterwards
  return one_f_one_b(groups).map([&](Program program) {
    program.schedule = "kfkb";
    program.microbatches = shape.microbatches;
    for (auto& list : program.ranks) list = over_microbatches(list, group, shape.microbatches);
    insert_recompute(program, shape);
    return program;
  });
}

// Sequence-sliced 1F1B (Sun et al., "Seq1F1B", arXiv 2406.03488): each microbatch is cut into q slices along
// the sequence, and 1F1B runs over slices. With causal attention, a slice's forward needs all earlier slices,
// and its backward needs all later ones. Within a microbatch, forwards therefore run in ascending order and
// backwards in descending order. With 2 stages, 2 microbatches and q = 2 (units 0 and 1 are the slices of
// microbatch 0):
//
//   rank 0   F0 F1 F2    B1 F3 B0    B3 B2
//   rank 1      F0 F1 B1 F2 B0 F3 B3 B2
//
// K is the number of stages. Stage s runs K + q - s - 2 warm-up forwards. It stores at most K + q - s - 1
// slices. q = 1 is 1F1B.

Generated seq_one_f_one_b(const Shape& shape) {
  Program program = looped_program("seq-1f1b", shape);
  program.slices = shape.slices;
  const std::int32_t units = program.unit_count();
  const std::int32_t last_slice = shape.slices - 1;
  for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
    const std::int32_t warmup = std::min(units, shape.stages - 1 - stage + last_slice);
    auto& list = program.ranks[static_cast<std::size_t>(stage)];
    for (std::int32_t k = 0; k < units + warmup; ++k) {
      if (k < units) list.push_back(forward(stage, k));
      if (k < warmup) continue;
      const std::int32_t slice = (k - warmup) % shape.slices;
      list.push_back(backward(stage, k - warmup - slice + last_slice - slice));
    }
  }
  append_steps(program);
  insert_recompute(program, shape);
  return program;
}

// PipeDream-2BW (Narayanan et al., ICML'21, section 3): 1F1B with two versions of the weights and without a
// flush between minibatches of M microbatches. Minibatch t > 0 runs forward and backward with the weights
// after t-1 updates: W(t+1) = W(t) - lr grad(W(t-1)). With 2 stages and two minibatches of 2 microbatches:
//
//   rank 0   F0 F1    B0 F2 B1 F3 B2    B3
//   rank 1      F0 B0 F1 B1 F2 B2 F3 B3
//
// One list holds the minibatches of all `iterations`, as for 1f1b-rr. A STEP follows every M-th backward. The
// paper requires M >= K. This rule also accepts fewer microbatches and then runs only M warm-up forwards. A
// forward is then at most one minibatch ahead of the backwards of its stage, so two versions are sufficient.

Generated pipedream_2bw(const Shape& shape) {
  Program program = looped_program("pipedream-2bw", shape);
  program.microbatches = shape.microbatches * shape.iterations;
  program.iterations = 1;
  program.update = UpdateRule::double_buffered;
  const auto version = [&](std::int32_t m) { return std::max(0, m / shape.microbatches - 1); };
  for (std::int32_t stage = 0; stage < shape.stages; ++stage) {
    const std::int32_t warmup = std::min(shape.microbatches, shape.stages - 1 - stage);
    auto& list = program.ranks[static_cast<std::size_t>(stage)];
    for (std::int32_t k = 0; k < program.microbatches + warmup; ++k) {
      if (k < program.microbatches) list.push_back(forward(stage, k, version(k)));
      if (k < warmup) continue;
      const std::int32_t m = k - warmup;
      list.push_back(backward(stage, m, version(m)));
      if ((m + 1) % shape.microbatches == 0) list.push_back(whole_stage(ActionKind::step, stage));
    }
  }
  return program;
}

}  // namespace penstock
