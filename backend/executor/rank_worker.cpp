// Runs the actions of one rank in the order of its list. A compute action waits for its own RECVs and
// collectives. The worker gives an output to the transport as soon as the action that made it has ended.
// A SEND or RECV itself never waits, unless channels are blocking or batched.
//
//     1RECV_F0    1F0                    1SEND_F0        1RECV_F1    1F1
//     expect()    wait(), take(),        nothing: was    expect()    wait() ...
//                 forward(), send(),     sent after
//                 release()              its F
//
// Payloads are stored in two places. The inbox holds inputs of later actions of this rank. They come from
// messages, or from a neighbouring stage on the same rank. The outbox holds outputs that are not sent yet.
// executor.cpp starts and supervises the workers. Tests: tests/backend/numbers_test.cpp.

#include "backend/executor/rank_worker.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/executor/executor.hpp"
#include "backend/executor/stage_module.hpp"
#include "backend/executor/transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

RankWorker::RankWorker(const Execution& execution, std::int32_t rank, ProgramTimes& times, Progress& progress)
    : execution_(execution),
      flat_(execution.flat),
      rank_(rank),
      times_(times),
      progress_(progress),
      neighbours_(stage_neighbours(execution.program)),
      plan_(plan_of(execution.flat, rank)) {
  if (execution.queues.empty()) return;
  ahead_.emplace(flat_, rank, *execution.queues[index(rank)], progress,
                 [&transport = execution.transport] { transport.check(); });
}

void RankWorker::run(const std::stop_token& stop) {
  stop_ = stop;
  const std::int32_t end = flat_.rank_begin[index(rank_) + 1];
  for (std::int32_t position = flat_.rank_begin[index(rank_)]; position < end;) {
    if (stop.stop_requested()) throw Stopped{};
    stand_at(position, kNone);
    if (flat_.ops[index(position)] == FlatOp::compute) {
      run_group(position, stop);
      position = flat_.group_end(position);
    } else if (flat_.is_grouped(position)) {
      position = pass_group(position);
    } else if (flat_.ops[index(position)] == FlatOp::wait) {
      pass_wait(position++, stop);
    } else {
      pass(position++);
    }
  }
  finish_gathers();
  if (ahead_) {
    ahead_->drain(stop);
    execution_.transport.finish(rank_);
    ahead_->write_times(rank_, times_);
  }
  stand_at(end, kNone);
}

/// Waits for the UNSHARDs after the last STEP. No later action of the list needs these weights, so no
/// action has waited for them.
void RankWorker::finish_gathers() {
  while (!gathering_.empty()) {
    const std::int32_t position = gathering_.begin()->second;
    wait_for(flat_.message[index(position)]);
    accept_collective(position);
  }
}

void RankWorker::pass(std::int32_t position) {
  const std::int32_t message = flat_.message[index(position)];
  switch (flat_.ops[index(position)]) {
    case FlatOp::compute:
    case FlatOp::leaf:
    case FlatOp::wait:
      break;
    case FlatOp::send:
      // Outside of groups, the worker has already sent the message directly after the action that produced
      // it.
      if (flat_.is_grouped(position)) post_send(message);
      break;
    case FlatOp::recv:
      if (!flat_.is_grouped(position)) make_room(message);
      execution_.transport.expect(message);
      break;
    case FlatOp::collective:
      pass_collective(position);
      break;
    case FlatOp::reshard: {
      const Ns now = execution_.clock.now_ns();
      const std::int32_t stage = flat_.actions[index(position)].stage;
      // An UNSHARD of this stage may not have ended yet. No action needs its weights any more, so the worker
      // does not wait for it.
      gathering_.erase(stage);
      module_of(stage).reshard();
      stamp(position, now, now);
      break;
    }
    case FlatOp::barrier:
      make_room(message);
      execution_.transport.join(message, rank_, nullptr);
      wait_for(message);
      break;
  }
}

/// Waits for the SENDs or the REDUCE_GRAD that the WAIT at `position` names. If the rank has a compute
/// queue, the queue measures the WAIT's time as an action without work. This thread runs ahead of the
/// queue, so it cannot measure the time.
void RankWorker::pass_wait(std::int32_t position, const std::stop_token& stop) {
  for (std::int32_t w = flat_.next_wait[index(position)]; w != kNone; w = flat_.next_wait[index(w)]) {
    wait_for(flat_.message[index(w)]);
    if (flat_.ops[index(w)] == FlatOp::collective) accept_collective(w);
  }
  if (ahead_) {
    ahead_->begin(position, stop);
    ahead_->end();
    return;
  }
  const Ns now = execution_.clock.now_ns();
  stamp(position, now, now);
}

/// Posts all messages of a group of transfers. Then waits for all of them, unless the group says that the
/// rank does not wait. Returns the position after the group.
std::int32_t RankWorker::pass_group(std::int32_t first) {
  const std::int32_t end = flat_.transfer_group_end(first);
  for (std::int32_t position = first; position < end; ++position) {
    if (flat_.message[index(position)] != kNone) make_room(flat_.message[index(position)]);
  }
  execution_.transport.begin_group(rank_);
  for (std::int32_t position = first; position < end; ++position) pass(position);
  execution_.transport.end_group(rank_);
  if (!flat_.waits_in_group(first)) return end;
  for (std::int32_t position = first; position < end; ++position) {
    const FlatOp op = flat_.ops[index(position)];
    if (op != FlatOp::send && op != FlatOp::recv) continue;
    stand_at(position, kNone);
    wait_for(flat_.message[index(position)]);
  }
  return end;
}

void RankWorker::post_send(std::int32_t message) {
  auto made = outbox_.extract(flat_.messages[index(message)].first);
  execution_.transport.send(message, made.empty() ? nullptr : std::move(made.mapped()));
}

void RankWorker::pass_collective(std::int32_t position) {
  const Action& action = flat_.actions[index(position)];
  if (is_host_copy(action.kind)) {
    // The transport times the copy. An OFFLOAD also moves the bytes now. A RELOAD does not, because the B or
    // I that needs the activation calls the module's reload().
    if (action.kind == ActionKind::offload) module_of(action.stage).offload(action.microbatch);
    execution_.transport.join(flat_.message[index(position)], rank_, nullptr);
    return;
  }
  // The first STEP or F that needs the result of the collective passes it to the module. If no action needs
  // the result of an UNSHARD, finish_gathers() does so.
  if (action.kind == ActionKind::unshard) gathering_[action.stage] = position;
  if (!flat_.is_grouped(position)) make_room(flat_.message[index(position)]);
  execution_.transport.join(flat_.message[index(position)], rank_,
                            module_of(action.stage).contribution(action.kind));
}

// --- compute --------------------------------------------------------------------------------------

void RankWorker::run_group(std::int32_t position, const std::stop_token& stop) {
  wait_for_inputs(position);
  stand_at(position, kNone);
  const std::int32_t end = flat_.group_end(position);
  const std::span<const Action> group(&flat_.actions[index(position)], index(end - position));
  // begin() may wait because the queue is full, so it is called before the clock is read.
  if (ahead_) ahead_->begin(position, stop);
  const Ns start_ns = execution_.clock.now_ns();
  for (std::int32_t leaf = position; leaf < end; ++leaf) {
    const Action& action = flat_.actions[index(leaf)];
    run_leaf(leaf, {.action = action, .group = group, .first_of_group = leaf == position, .stop = stop});
  }
  const Ns end_ns = execution_.clock.now_ns();
  if (ahead_) ahead_->end();
  for (std::int32_t leaf = position; leaf < end; ++leaf) stamp(leaf, start_ns, end_ns);
  // The outputs are sent after the end is recorded, so that the action's time does not include the sending.
  send_outputs();
  // The inputs have been used, so messages that wait for the buffers of these inputs may start.
  execution_.transport.release(position);
  for (std::int32_t leaf = position; leaf < end; ++leaf) drop_versions(leaf);
}

void RankWorker::run_leaf(std::int32_t position, const ComputeCall& call) {
  const Action& action = flat_.actions[index(position)];
  StageModule& module = module_of(action.stage);
  // Only F, B and I have outputs for other stages, so only they get a number of outputs.
  ComputeCall with_outputs = call;
  switch (action.kind) {
    case ActionKind::forward:
      with_outputs.outputs = takers_of(neighbours_, action.stage, Flow::activation).size();
      // If an R recomputes the activations later, the module stores only the input.
      if (plan_.recomputed.contains({action.stage, action.microbatch})) with_outputs.kept = Kept::input;
      if (execution_.program.placement.stages[index(action.stage)].is_forward_only())
        with_outputs.kept = Kept::nothing;
      hand_on(action, Flow::activation, module.forward(with_outputs, inputs_of(action, Flow::activation)));
      break;
    case ActionKind::backward:
      with_outputs.outputs = takers_of(neighbours_, action.stage, Flow::gradient).size();
      hand_on(action, Flow::gradient, module.backward(with_outputs, inputs_of(action, Flow::gradient)));
      break;
    case ActionKind::backward_input:
      with_outputs.outputs = takers_of(neighbours_, action.stage, Flow::gradient).size();
      hand_on(action, Flow::gradient, module.backward_input(with_outputs, inputs_of(action, Flow::gradient)));
      break;
    case ActionKind::backward_weight:
      module.backward_weight(call);
      break;
    case ActionKind::recompute:
      module.recompute(call);
      break;
    case ActionKind::step:
      module.step(call);
      break;
    case ActionKind::send_forward:
    case ActionKind::recv_forward:
    case ActionKind::send_backward:
    case ActionKind::recv_backward:
    case ActionKind::unshard:
    case ActionKind::reshard:
    case ActionKind::reduce_grad:
    case ActionKind::wait_send_forward:
    case ActionKind::wait_send_backward:
    case ActionKind::wait_reduce_grad:
    case ActionKind::offload:
    case ActionKind::reload:
      throw std::logic_error("an action that is not computed stands at a compute position");
  }
}

void RankWorker::wait_for_inputs(std::int32_t position) {
  for (std::int32_t w = flat_.next_wait[index(position)]; w != kNone; w = flat_.next_wait[index(w)]) {
    const std::int32_t message = flat_.message[index(w)];
    wait_for(message);
    if (flat_.ops[index(w)] == FlatOp::collective) {
      accept_collective(w);
    } else {
      inbox_[message_of(flat_.actions[index(w)])] = execution_.transport.take(message);
    }
  }
}

void RankWorker::accept_collective(std::int32_t position) {
  const Action& action = flat_.actions[index(position)];
  if (action.kind == ActionKind::reload) {
    module_of(action.stage).reload(action.microbatch);
    return;
  }
  const std::vector<SharedPayload> contributions =
      execution_.transport.collect(flat_.message[index(position)], rank_);
  if (action.kind == ActionKind::unshard) gathering_.erase(action.stage);
  module_of(action.stage).accept(action.kind, contributions);
}

void RankWorker::wait_for(std::int32_t message) {
  stand_at(progress_.position, message);
  execution_.transport.wait(message, rank_);
}

void RankWorker::make_room(std::int32_t message) {
  if (!ahead_) return;
  ahead_->wait_while([&] { return !execution_.transport.has_room(message, rank_); }, stop_);
}

// --- payloads -------------------------------------------------------------------------------------

std::vector<Payload> RankWorker::inputs_of(const Action& action, Flow flow) {
  std::vector<Payload> inputs;
  for (const std::int32_t from : givers_of(neighbours_, action.stage, flow)) {
    // In a valid program the payload is in the inbox. Either a message has brought it, or the other stage has
    // run earlier on this rank.
    auto found = inbox_.extract({flow, from, action.stage, action.microbatch});
    if (found.empty()) {
      throw std::logic_error(fmt::format("nothing has come from stage {}", from));
    }
    inputs.push_back(std::move(found.mapped()));
  }
  return inputs;
}

void RankWorker::hand_on(const Action& action, Flow flow, std::vector<Payload> outputs) {
  const std::vector<std::int32_t>& takers = takers_of(neighbours_, action.stage, flow);
  if (outputs.size() != takers.size()) {
    throw std::logic_error(
        fmt::format("the module returned {} payloads, {} stages take one", outputs.size(), takers.size()));
  }
  for (std::size_t i = 0; i < takers.size(); ++i) {
    const StageMessage output{flow, action.stage, takers[i], action.microbatch};
    const auto message = plan_.messages.find(output);
    // An output without a message is for a stage on this rank, so it goes into the inbox.
    (message == plan_.messages.end() ? inbox_[output]
                                     : outbox_[flat_.messages[index(message->second)].first]) =
        std::move(outputs[i]);
  }
}

/// Sends all outputs of a group of actions together, because the actions end together. The outputs leave in
/// list order, as the semantics require for launches. pass_group() sends the SENDs that are in groups of
/// transfers.
void RankWorker::send_outputs() {
  for (auto entry = outbox_.begin(); entry != outbox_.end();) {
    const auto here = entry++;
    if (flat_.is_grouped(here->first)) continue;
    make_room(flat_.message[index(here->first)]);
    execution_.transport.send(flat_.message[index(here->first)], std::move(here->second));
    outbox_.erase(here);
  }
}

// --- bookkeeping ----------------------------------------------------------------------------------

void RankWorker::drop_versions(std::int32_t position) {
  const auto dropped = plan_.dropped_after.find(position);
  if (dropped == plan_.dropped_after.end()) return;
  for (const StageVersion& old : dropped->second) module_of(old.stage).drop_version(old.version);
}

void RankWorker::stamp(std::int32_t position, Ns start_ns, Ns end_ns) {
  times_.start[index(position)] = start_ns;
  times_.end[index(position)] = end_ns;
}

StageModule& RankWorker::module_of(std::int32_t stage) {
  StageModule* module = execution_.modules[index(rank_)][index(stage)].get();
  if (module == nullptr)
    throw std::logic_error(fmt::format("rank {} has no module of stage {}", rank_, stage));
  return *module;
}

void RankWorker::stand_at(std::int32_t position, std::int32_t message) {
  progress_.since_ns = std::chrono::steady_clock::now().time_since_epoch().count();
  progress_.position = position;
  progress_.waits_for = message;
}

// Prepares the tables that a worker would otherwise have to compute while the clock runs. The worker drops a
// weight version after its last use. If the STEP that replaces the version comes later, the worker drops it
// after that STEP:
//
//     0F0   0F1   0B0   STEP   0F2   0B1   STEP   0B2        B takes the version of its F
//     v0    v0    v0           v1    v0           v1
//                                    ^ v0 goes    ^ v1 goes, after the STEP to v2

namespace {

/// Returns the weight versions that the rank drops after each position of its list [begin, end). The newest
/// version of each stage is never dropped. VersionLife (ir/needs.hpp) decides when a version is no longer
/// needed. The checker and the prediction of memory use the same rule.
std::map<std::int32_t, std::vector<StageVersion>> dropped_versions(const FlatProgram& flat,
                                                                   std::int32_t begin, std::int32_t end) {
  std::map<std::int32_t, VersionLives> stages;
  for (std::int32_t p = begin; p < end; ++p) {
    // A barrier has a default Action, which would otherwise be read as an F of stage 0.
    if (flat.ops[index(p)] == FlatOp::barrier) continue;
    stages[flat.actions[index(p)].stage].note(flat.actions[index(p)], p);
  }
  std::map<std::int32_t, std::vector<StageVersion>> dropped;
  for (const auto& [stage, versions] : stages) {
    // all() returns the versions in ascending order, starting at 0.
    for (std::int32_t version = 0; const VersionLife& life : versions.all()) {
      if (life.dropped_by() != kNoPosition) dropped[life.dropped_by()].push_back({stage, version});
      ++version;
    }
  }
  return dropped;
}

}  // namespace

RankPlan plan_of(const FlatProgram& flat, std::int32_t rank) {
  const std::int32_t begin = flat.rank_begin[index(rank)];
  const std::int32_t end = flat.rank_begin[index(rank) + 1];
  RankPlan plan{.messages = {}, .recomputed = {}, .dropped_after = dropped_versions(flat, begin, end)};
  for (std::int32_t p = begin; p < end; ++p) {
    const Action& action = flat.actions[index(p)];
    // Microbatch numbers continue from one iteration to the next, so no two messages have the same key.
    if (flat.ops[index(p)] == FlatOp::send) {
      plan.messages[message_of(action)] = flat.message[index(p)];
    }
    if (action.kind == ActionKind::recompute) plan.recomputed.insert({action.stage, action.microbatch});
  }
  return plan;
}

}  // namespace penstock
