// Counts the memory of one rank in a streamed walk. An action charges (adds) amounts of memory when it
// starts, and releases amounts when it ends:
//
//   F      charges activations        B, I, W   charge gradients if none are held
//   B      releases all of F's        I, W      release a part of F's activations each
//                                     I         charges what it recomputes, and W releases it
//   STEP   releases gradients; if the version that it replaces is used later, the version is held up to the
//          end of the last backward that uses it
//
// The time of a charge matters only if the amount is released at the same time. So only the charges of the
// latest time are stored.

#include "sim/engines/rank_ledger.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/needs.hpp"

namespace penstock {

void LiveVersions::step() {
  ++newest_;
  // A run is a sequence of versions with equal counts. The new version has the count 0, so it joins the last
  // run if that one also has the count 0.
  if (runs_.back().open != 0) runs_.push_back({.first = newest_, .open = 0});
}

void LiveVersions::drop(std::int32_t version) {
  set(version, kDropped);
  // Callers never pass a version that is older than the oldest live version. So dropped versions can be
  // removed when they are the oldest ones.
  if (runs_.front().open == kDropped) runs_.erase(runs_.begin());
}

std::size_t LiveVersions::run_of(std::int32_t version) const {
  const auto behind = std::ranges::upper_bound(runs_, version, {}, &Run::first);
  return static_cast<std::size_t>(behind - runs_.begin()) - 1;
}

void LiveVersions::set(std::int32_t version, std::int32_t open) {
  // Splits a run so that the version has its own run, and then joins neighbours with equal counts. If the run
  // {1,1} contains versions 1 to 5, set(3, 2) makes {1,1} {3,2} {4,1}.
  std::size_t run = run_of(version);
  if (runs_[run].first < version) begin_run(++run, version);
  const std::int32_t end = run + 1 < runs_.size() ? runs_[run + 1].first : newest_ + 1;
  if (version + 1 < end) begin_run(run + 1, version + 1);
  runs_[run].open = open;
  join_run_before(run + 1);
  join_run_before(run);
}

void LiveVersions::begin_run(std::size_t run, std::int32_t first) {
  runs_.insert(runs_.begin() + static_cast<std::ptrdiff_t>(run),
               {.first = first, .open = runs_[run - 1].open});
}

void LiveVersions::join_run_before(std::size_t run) {
  if (run == 0 || run >= runs_.size() || runs_[run - 1].open != runs_[run].open) return;
  runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(run));
}

RankLedger::RankLedger(const std::vector<std::int32_t>& stages, const CostTable& costs, TellingOrder order)
    : order_(order), held_(kMemoryCategoryCount + stages.size(), order) {
  for (const std::int32_t stage : stages) {
    const StageCost& cost = costs.stages[static_cast<std::size_t>(stage)];
    const std::size_t versions_kind = kMemoryCategoryCount + stages_.size();
    stages_.push_back({.stage = stage, .versions_kind = versions_kind, .versions = {}});
    held_.hold_for_ever(kind_of(MemoryCategory::weights), cost.weights);
    held_.hold_for_ever(kind_of(MemoryCategory::weight_versions), cost.cloned_weights);
    held_.hold_for_ever(kind_of(MemoryCategory::optimizer_state), cost.optimizer_state);
    held_.hold_for_ever(versions_kind, 1);
  }
}

Charged RankLedger::charged(const Fresh& what, Ns now_ns) const {
  const bool is_fresh = now_ns == instant_ns_ && std::ranges::find(fresh_, what) != fresh_.end();
  return is_fresh ? Charged::at_this_instant : Charged::earlier;
}

void RankLedger::note_fresh(const Fresh& what, Ns now_ns) {
  // The record is needed only to find the phase of a change. Changes that arrive in order are not sorted by
  // phase.
  if (order_ == TellingOrder::in_order) return;
  if (now_ns != instant_ns_) fresh_.clear();
  instant_ns_ = now_ns;
  fresh_.push_back(what);
}

void RankLedger::charge_transient(const PlacedAction& placed, Bytes bytes) {
  held_.charge(kind_of(MemoryCategory::transient), bytes, placed.start_ns, placed.position, placed.action);
}

void RankLedger::release_transient(const PlacedAction& placed, Bytes bytes) {
  held_.release_own(kind_of(MemoryCategory::transient), bytes, placed.end_ns, placed.position,
                    charged_at(placed.start_ns, placed.end_ns));
}

void RankLedger::forward(const PlacedAction& placed) {
  const Action& action = placed.action;
  held_.charge(kind_of(MemoryCategory::activations), placed.cost.kept, placed.start_ns, placed.position,
               action);
  note_fresh({.kind = kKeptByForward, .stage = action.stage, .number = action.microbatch}, placed.start_ns);
}

void RankLedger::recompute(const PlacedAction& placed) {
  const Action& action = placed.action;
  const std::size_t activations = kind_of(MemoryCategory::activations);
  held_.charge(activations, placed.cost.recomputed, placed.start_ns, placed.position, action);
  note_fresh({.kind = activations, .stage = action.stage, .number = action.microbatch}, placed.start_ns);
}

void RankLedger::release_activations(const PlacedAction& placed) {
  const Action& action = placed.action;
  if (action.kind == ActionKind::backward_weight && placed.cost.recomputed != 0) {
    const std::size_t activations = kind_of(MemoryCategory::activations);
    const Fresh made{.kind = activations, .stage = action.stage, .number = action.microbatch};
    held_.release(activations, placed.cost.recomputed, placed.end_ns, placed.position,
                  charged(made, placed.end_ns));
  }
  const Charged since =
      charged({.kind = kKeptByForward, .stage = action.stage, .number = action.microbatch}, placed.end_ns);
  held_.release(kind_of(MemoryCategory::activations), released_activations(placed.cost, action.kind),
                placed.end_ns, placed.position, since);
}

void RankLedger::open_gradients(StageAccount& stage, const PlacedAction& placed) {
  stage.gradients_held = true;
  stage.gradients_since_ns = placed.start_ns;
  held_.charge(kind_of(MemoryCategory::gradients), placed.cost.gradients, placed.start_ns, placed.position,
               placed.action);
}

void RankLedger::close_gradients(StageAccount& stage, const PlacedAction& placed) {
  if (!stage.gradients_held) return;
  stage.gradients_held = false;
  held_.release(kind_of(MemoryCategory::gradients), placed.cost.gradients, placed.end_ns, placed.position,
                charged_at(stage.gradients_since_ns, placed.end_ns));
}

void RankLedger::drop_old_version(StageAccount& stage, const PlacedAction& placed) {
  const std::int32_t version = placed.action.weight_version;
  // An amount can be charged and released at the same instant only if STEPs that take no time follow one
  // another.
  const Charged replaced =
      charged({.kind = kind_of(MemoryCategory::weight_versions), .stage = stage.stage, .number = version},
              placed.end_ns);
  const Charged made =
      charged({.kind = stage.versions_kind, .stage = stage.stage, .number = version}, placed.end_ns);
  held_.release(kind_of(MemoryCategory::weight_versions), placed.cost.version_bytes(), placed.end_ns,
                placed.position, replaced);
  held_.release(stage.versions_kind, 1, placed.end_ns, placed.position, made);
  stage.versions.drop(version);
}

void RankLedger::replace_version(StageAccount& stage, const PlacedAction& placed, bool is_used_later) {
  const std::int32_t version = stage.versions.newest();
  const std::size_t old_versions = kind_of(MemoryCategory::weight_versions);
  const Fresh made{.kind = stage.versions_kind, .stage = stage.stage, .number = version};
  stage.versions.step();
  if (is_used_later) {
    held_.charge(old_versions, placed.cost.version_bytes(), placed.end_ns, placed.position, placed.action);
    note_fresh({.kind = old_versions, .stage = stage.stage, .number = version}, placed.end_ns);
  } else {
    held_.release(stage.versions_kind, 1, placed.end_ns, placed.position, charged(made, placed.end_ns));
    stage.versions.drop(version);
  }
  held_.charge(stage.versions_kind, 1, placed.end_ns, placed.position, placed.action);
  note_fresh({.kind = stage.versions_kind, .stage = stage.stage, .number = version + 1}, placed.end_ns);
}

void RankLedger::send(const Action& action, Bytes bytes, Ns produced_ns, Ns arrival_ns,
                      std::int64_t position) {
  const std::size_t kind = kind_of(MemoryCategory::send_buffers);
  held_.charge(kind, bytes, produced_ns, position, action);
  // If a message takes no time, its charge and its release have the same time and position. The release of
  // release_own() is sorted after the charge.
  held_.release_own(kind, bytes, arrival_ns, position, charged_at(produced_ns, arrival_ns));
}

void RankLedger::receive(const Action& action, Bytes bytes, Ns start_ns, std::int64_t position) {
  held_.charge(kind_of(MemoryCategory::receive_buffers), bytes, start_ns, position, action);
}

void RankLedger::received(const PlacedAction& consumer, Bytes bytes, Ns start_ns) {
  held_.release(kind_of(MemoryCategory::receive_buffers), bytes, consumer.end_ns, consumer.position,
                charged_at(start_ns, consumer.end_ns));
}

std::int32_t RankLedger::peak_weight_versions() const {
  std::int64_t most = 1;
  for (const StageAccount& stage : stages_) most = std::max(most, held_.peak(stage.versions_kind));
  return static_cast<std::int32_t>(most);
}

// Changes wait in a list. When the list is long, settle() sorts it and applies all changes before a time that
// no new change can precede:
//
//   time       1  1  2  4  4  7  9      no new change before 5: the first five are applied, in the order of
//   position   0  3  3  1  5  7  8      (time, phase, position, order); others may still come before 7
//
// The list is sorted only after its length has doubled, so a change costs O(log n) for n waiting changes.

void HeldAmounts::settle(Ns before_ns) {
  const auto key = [](const Change& change) {
    return std::tuple(change.time_ns, change.phase, change.position, change.order);
  };
  std::ranges::stable_sort(waiting_, {}, key);
  const auto rest = std::ranges::lower_bound(waiting_, before_ns, {}, &Change::time_ns);
  for (auto change = waiting_.begin(); change != rest; ++change) apply(*change);
  waiting_.erase(waiting_.begin(), rest);
  most_waiting_ = std::max(kFewWaiting, 2 * waiting_.size());
}

void HeldAmounts::note(const Change& change) {
  if (order_ == TellingOrder::in_order) {
    reach_peak(change);
  } else {
    waiting_.push_back(change);
  }
}

void HeldAmounts::reach_peak(const Change& change) {
  peak_total_ = total_;
  at_peak_ = change;
  for (std::size_t kind = 0; kind < kMemoryCategoryCount; ++kind) held_at_peak_[kind] = first_[kind].held;
}

RankMemory HeldAmounts::memory() const {
  RankMemory memory;
  memory.peak_bytes = peak_total_;
  memory.peak_time_ns = at_peak_.time_ns;
  if (peak_total_ > 0 && at_peak_.position >= 0) memory.peak_action = to_text(at_peak_.by);
  memory.at_peak = held_at_peak_;
  for (std::size_t kind = 0; kind < kMemoryCategoryCount; ++kind) memory.peaks[kind] = first_[kind].peak;
  return memory;
}

}  // namespace penstock
