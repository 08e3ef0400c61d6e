// Computes idle time and its causes directly from the rules. Each function finds the inputs for which one
// action or message waited, and stores the result. The start of an action is the latest of its inputs. The
// derivative of the start is the mean of the derivatives of the latest inputs.

#include "tests/sim/plain_account.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "report/why/explanation.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "sim/network/message_costs.hpp"

namespace penstock {
namespace {

/// A point in time as a function of l: its value, and its derivative split by cause.
struct Instant {
  double time = 0;
  PlainShares parts{};
};

Instant later(Instant instant, IdleCause cause, double added, double l) {
  instant.time += l * added;
  instant.parts[static_cast<std::size_t>(cause)] += added;
  return instant;
}

/// Returns the latest instant. If several instants are equally late, each of them contributes the same part
/// of the derivative.
Instant latest(const std::vector<Instant>& inputs) {
  Instant result;
  for (const Instant& input : inputs) result.time = std::max(result.time, input.time);
  int binding = 0;
  for (const Instant& input : inputs) {
    if (std::abs(input.time - result.time) > 1e-6) continue;
    for (std::size_t c = 0; c < kIdleCauses; ++c) result.parts[c] += input.parts[c];
    ++binding;
  }
  for (double& part : result.parts) part /= std::max(1, binding);
  return result;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : std::floor((values[half - 1] + values[half]) / 2);
}

class PlainAccount {
 public:
  PlainAccount(const Experiment& experiment, const FlatProgram& flat, const ProgramTimes& times)
      : program_(experiment.program),
        channels_(experiment.channels),
        flat_(flat),
        alone_(walk_durations(experiment, flat)) {
    for (std::size_t id = 0; id < flat.messages.size(); ++id)
      hold_.push_back(
          static_cast<double>(times.message_end[id] - times.message_start[id] - alone_.latency[id]));
    for (std::int32_t rank = 0; rank < flat.rank_count; ++rank) {
      for (std::int32_t p = flat.rank_begin[index(rank)]; p < flat.rank_begin[index(rank) + 1]; ++p) {
        rank_of_.push_back(rank);
        if (flat.ops[index(p)] != FlatOp::compute || flat.actions[index(p)].kind == ActionKind::step)
          continue;
        durations_[kinds_of(p)][stages_of(p)][rank].push_back(static_cast<double>(alone_.compute[index(p)]));
      }
    }
  }

  PlainShares at(double l) {
    l_ = l;
    ends_.clear();
    launches_.clear();
    starts_of_messages_.clear();
    std::vector<Instant> ends;
    for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
      const std::vector<Instant> last = clock(flat_.rank_begin[index(rank) + 1], rank);
      ends.insert(ends.end(), last.begin(), last.end());
    }
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(flat_.messages.size()); ++id) {
      if (!is_awaited(id)) ends.push_back(message_end(id));
    }
    return latest(ends).parts;
  }

 private:
  using Words = std::vector<ActionKind>;
  using Stages = std::vector<std::int32_t>;

  Words kinds_of(std::int32_t p) const {
    Words kinds;
    for (std::int32_t q = p; q < flat_.group_end(p); ++q) kinds.push_back(flat_.actions[index(q)].kind);
    return kinds;
  }
  Stages stages_of(std::int32_t p) const {
    Stages stages;
    for (std::int32_t q = p; q < flat_.group_end(p); ++q) stages.push_back(flat_.actions[index(q)].stage);
    return stages;
  }

  double weight(const Stages& stages) const {
    double sum = 0;
    for (const std::int32_t stage : stages) {
      for (const std::int32_t rank : program_.placement.stages[index(stage)].ranks) {
        int held = 0;
        for (const StagePlacement& other : program_.placement.stages)
          held += static_cast<int>(std::ranges::count(other.ranks, rank));
        sum += 1.0 / held;
      }
    }
    return sum / static_cast<double>(stages.size());
  }

  double median_of_stages(const std::map<std::int32_t, std::vector<double>>& by_rank) const {
    std::vector<double> medians;
    medians.reserve(by_rank.size());
    for (const auto& [rank, values] : by_rank) medians.push_back(median(values));
    return median(medians);
  }

  /// Returns the end of an action that starts at `start`.
  Instant computed(Instant start, std::int32_t p) {
    const auto real = static_cast<double>(alone_.compute[index(p)]);
    if (flat_.actions[index(p)].kind == ActionKind::step) return later(start, IdleCause::step, real, l_);
    const auto& of_kind = durations_.at(kinds_of(p));
    const auto& of_stage = of_kind.at(stages_of(p));
    double work = 0;
    double weights = 0;
    for (const auto& [stages, by_rank] : of_kind) {
      double count = 0;
      for (const auto& [rank, values] : by_rank) count += static_cast<double>(values.size());
      work += count * median_of_stages(by_rank);
      weights += count * weight(stages);
    }
    const double ideal = std::round(weight(stages_of(p)) * work / weights);
    const double of_copies = median_of_stages(of_stage);
    const double on_rank = median(of_stage.at(rank_of_[index(p)]));
    start.time += ideal;
    start = later(start, IdleCause::imbalance, of_copies - ideal, l_);
    start = later(start, IdleCause::slow_rank, on_rank - of_copies, l_);
    return later(start, IdleCause::variation, real - on_rank, l_);
  }

  /// Returns the instants for which a rank waits before it continues at position `p` of its list.
  std::vector<Instant> clock(std::int32_t p, std::int32_t rank) {
    // A rank reaches all positions of a group of transfers when it reaches the first one.
    const bool is_end = p == flat_.rank_begin[index(rank) + 1];
    if (!is_end && flat_.is_grouped(p)) p = flat_.transfer_group[index(p)];
    if (p == flat_.rank_begin[index(rank)]) return {};
    const std::int32_t before = p - 1;
    const std::int32_t id = flat_.message[index(before)];
    switch (flat_.ops[index(before)]) {
      case FlatOp::compute:
        return {end(before)};
      case FlatOp::barrier:
        return {message_end(id)};
      case FlatOp::send:
      case FlatOp::recv:
        if (channels_.waits()) return after_group(flat_.transfer_group[index(before)], rank);
        break;
      case FlatOp::wait: {
        std::vector<Instant> after = clock(before, rank);
        for (std::int32_t w = flat_.next_wait[index(before)]; w != kNone; w = flat_.next_wait[index(w)])
          after.push_back(message_end(flat_.message[index(w)]));
        return after;
      }
      case FlatOp::leaf:
      case FlatOp::collective:
      case FlatOp::reshard:
        break;
    }
    return clock(before, rank);
  }

  /// Returns the instants for which a rank waits before it continues after a group of transfers.
  std::vector<Instant> after_group(std::int32_t first, std::int32_t rank) {
    std::vector<Instant> after;
    bool started_here = false;
    for (std::int32_t p = first; p < flat_.transfer_group_end(first); ++p) {
      const FlatOp op = flat_.ops[index(p)];
      if (op != FlatOp::send && op != FlatOp::recv) continue;
      const std::int32_t id = flat_.message[index(p)];
      // The rank itself has reached the start of the message, unless it receives an eager message.
      started_here = started_here || op == FlatOp::send || !flat_.messages[index(id)].eager;
      after.push_back(message_end(id));
    }
    if (started_here) return after;
    for (const Instant& instant : clock(first, rank)) after.push_back(instant);
    return after;
  }

  Instant end(std::int32_t p) {
    if (const auto known = ends_.find(p); known != ends_.end()) return known->second;
    std::vector<Instant> inputs = clock(p, rank_of_[index(p)]);
    std::set<std::int32_t> messages;
    for (std::int32_t w = flat_.next_wait[index(p)]; w != kNone; w = flat_.next_wait[index(w)])
      messages.insert(flat_.message[index(w)]);
    for (const std::int32_t id : messages) inputs.push_back(message_end(id));
    if (flat_.has_launches) inputs.push_back(launched(p));
    return ends_[p] = computed(latest(inputs), p);
  }

  /// Returns the instant at which the host of the rank has launched the action at a position.
  Instant launched(std::int32_t p) {
    if (const auto known = launches_.find(p); known != launches_.end()) return known->second;
    const auto is_launched = [&](std::int32_t q) {
      const FlatOp op = flat_.ops[index(q)];
      const bool is_transfer = op == FlatOp::send || op == FlatOp::recv;
      if (is_transfer && flat_.is_grouped(q)) return flat_.transfer_group[index(q)] == q;
      return op != FlatOp::leaf && op != FlatOp::reshard && op != FlatOp::wait && op != FlatOp::barrier;
    };
    const bool is_transfer = flat_.ops[index(p)] == FlatOp::send || flat_.ops[index(p)] == FlatOp::recv;
    if (is_transfer && !is_launched(p)) return launched(flat_.transfer_group[index(p)]);
    std::vector<Instant> inputs;
    const std::int32_t begin = flat_.rank_begin[index(rank_of_[index(p)])];
    std::int32_t before = p - 1;
    while (before >= begin && !is_launched(before)) --before;
    if (before >= begin) inputs.push_back(launched(before));
    if (flat_.ops[index(p)] == FlatOp::compute && flat_.most_ahead > 0) {
      std::int32_t ahead = 0;
      for (std::int32_t q = p - 1; q >= begin; --q) {
        if (flat_.ops[index(q)] == FlatOp::compute && ++ahead == flat_.most_ahead) inputs.push_back(end(q));
      }
    }
    return launches_[p] = later(latest(inputs), IdleCause::launch, static_cast<double>(alone_.launch), l_);
  }

  Instant message_start(std::int32_t id) {
    if (const auto known = starts_of_messages_.find(id); known != starts_of_messages_.end())
      return known->second;
    const FlatMessage& message = flat_.messages[index(id)];
    std::vector<Instant> inputs;
    const auto add_clock = [&](std::int32_t p) {
      for (const Instant& instant : clock(p, rank_of_[index(p)])) inputs.push_back(instant);
    };
    if (message.recv == kNone) {
      for (std::int32_t m = message.first; m != kNone; m = flat_.next_member[index(m)]) {
        add_clock(m);
        if (flat_.ops[index(m)] != FlatOp::collective) continue;
        if (flat_.has_launches) inputs.push_back(launched(m));
      }
      std::set<std::int32_t> earlier;
      for (std::int32_t q = 0; q < flat_.position_count(); ++q) {
        const bool leads_here = flat_.ops[index(q)] == FlatOp::collective &&
                                flat_.next_collective[index(q)] != kNone &&
                                flat_.message[index(flat_.next_collective[index(q)])] == id;
        if (leads_here) earlier.insert(flat_.message[index(q)]);
      }
      // A RELOAD waits for its OFFLOAD.
      for (std::size_t other = 0; other < flat_.messages.size(); ++other) {
        if (flat_.is_host_copy(flat_.messages[other]) && flat_.messages[other].next_at_receiver == id)
          earlier.insert(static_cast<std::int32_t>(other));
      }
      for (const std::int32_t other : earlier) inputs.push_back(message_end(other));
      return starts_of_messages_[id] = latest(inputs);
    }
    if (channels_.waits()) {
      add_clock(message.first);
      if (!message.eager) add_clock(message.recv);
    } else if (message.producer != kNone) {
      inputs.push_back(end(message.producer));
    }
    if (flat_.has_launches) {
      inputs.push_back(launched(message.first));
      if (!message.eager) inputs.push_back(launched(message.recv));
    }
    for (std::int32_t other = 0; other < static_cast<std::int32_t>(flat_.messages.size()); ++other) {
      const FlatMessage& before = flat_.messages[index(other)];
      if (before.next_at_sender != id && before.next_at_receiver != id) continue;
      inputs.push_back(later(message_start(other), IdleCause::queue, hold_[index(other)], l_));
    }
    for (std::int32_t p = 0; p < static_cast<std::int32_t>(flat_.released_by_consumer.size()); ++p) {
      std::int32_t m = flat_.released_by_consumer[index(p)];
      for (; m != kNone; m = flat_.messages[index(m)].next_of_capacity) {
        if (m == id) inputs.push_back(end(p));
      }
    }
    return starts_of_messages_[id] = latest(inputs);
  }

  Instant message_end(std::int32_t id) {
    const FlatMessage& message = flat_.messages[index(id)];
    Instant instant = message_start(id);
    if (message.recv == kNone) {
      const bool is_barrier = flat_.ops[index(message.first)] == FlatOp::barrier;
      const bool is_copy = flat_.is_host_copy(message);
      const IdleCause cause = is_copy ? IdleCause::offload : IdleCause::collective;
      return is_barrier ? instant : later(instant, cause, hold_[index(id)], l_);
    }
    const auto alone = static_cast<double>(alone_.hold[index(id)]);
    instant = later(instant, IdleCause::bandwidth, alone, l_);
    instant = later(instant, IdleCause::shared_link, hold_[index(id)] - alone, l_);
    return later(instant, IdleCause::latency, static_cast<double>(alone_.latency[index(id)]), l_);
  }

  /// Returns true if an action or a message waits for the end of this message.
  bool is_awaited(std::int32_t id) const {
    const FlatMessage& message = flat_.messages[index(id)];
    const bool is_barrier = message.recv == kNone && flat_.ops[index(message.first)] == FlatOp::barrier;
    if (is_barrier || (message.recv != kNone && channels_.waits())) return true;
    if (flat_.is_host_copy(message) && message.next_at_receiver != kNone) return true;
    for (std::int32_t p = 0; p < flat_.position_count(); ++p) {
      if (flat_.ops[index(p)] == FlatOp::collective && flat_.message[index(p)] == id &&
          flat_.next_collective[index(p)] != kNone) {
        return true;
      }
      if (flat_.ops[index(p)] != FlatOp::compute && flat_.ops[index(p)] != FlatOp::wait) continue;
      for (std::int32_t w = flat_.next_wait[index(p)]; w != kNone; w = flat_.next_wait[index(w)]) {
        if (flat_.message[index(w)] == id) return true;
      }
    }
    return false;
  }

  const Program& program_;
  const ChannelOptions& channels_;
  const FlatProgram& flat_;
  WalkDurations alone_;
  std::vector<double> hold_;
  std::vector<std::int32_t> rank_of_;                                                         // by position
  std::map<Words, std::map<Stages, std::map<std::int32_t, std::vector<double>>>> durations_;  // ..., by rank
  double l_ = 0;
  std::map<std::int32_t, Instant> ends_;
  std::map<std::int32_t, Instant> launches_;
  std::map<std::int32_t, Instant> starts_of_messages_;
};

}  // namespace

PlainShares plain_shares(const Experiment& experiment, const FlatProgram& flat, const ProgramTimes& times,
                         std::int32_t samples) {
  PlainAccount account(experiment, flat, times);
  PlainShares mean{};
  for (std::int32_t sample = 0; sample < samples; ++sample) {
    const PlainShares parts = account.at((2.0 * sample + 1) / (2.0 * samples));
    for (std::size_t c = 0; c < kIdleCauses; ++c) mean[c] += parts[c] / samples;
  }
  return mean;
}

}  // namespace penstock
