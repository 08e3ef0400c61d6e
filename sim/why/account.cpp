// Divides the idle time of a run among its causes. All costs of the run change along a line, from the
// ideal run (l = 0) to the real run (l = 1):
//
//   cost(l) = ideal + l * (sum of what the causes add)
//
// Each start is a convex, piecewise linear function of l. Its derivative is the sum of the added costs along
// the binding chain of inputs, so it splits by cause. If several inputs bind, each gets an equal share. The
// integral of the derivatives over l gives each cause its part of an idle interval:
//
//   idle(X) = idle in the ideal run + sum over causes of integral of (part in d start(X)/dl
//                                                                     - part in d end(before X)/dl)
//
// This is the Aumann-Shapley share (Billera and Heath, Mathematics of Operations Research 7, 1982): it adds
// up, treats equal causes equally, and depends on no order in which causes are removed.
//
// The derivatives are found at samples of l. All times are multiplied by the same whole number, so that they
// stay whole and ties are exact. If the derivatives a and b of a start differ between two samples, then there
// is a kink between them. The change of the start gives the place of the kink, so that a single kink costs no
// accuracy:
//
//   change = theta * a + (1 - theta) * b        each part = theta * part of a + (1 - theta) * part of b
//
// If the slopes of all starts are equal at two samples, every start is a line between them, because it is
// convex. Then the same inputs bind at all samples between, and these samples are left out. Runs without a
// kink need two samples only.
//
// Tests: tests/sim/why_test.cpp compares with a slow evaluation of the definition.

#include "sim/why/account.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "report/why/explanation.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/needs.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {
namespace {

bool runs_on_rank(NodeKind kind) { return kind == NodeKind::compute || kind == NodeKind::step; }

/// The causes that add a cost in this run, numbered from 0. All other causes have no number, so that the
/// vectors of derivatives are short.
struct ActiveCauses {
  std::vector<IdleCause> causes;
  /// The numbers of the three causes that can add a cost to each kind of node. A cause without costs has the
  /// number causes.size(). The column with this number is never read.
  std::array<std::array<std::size_t, 3>, kNodeKinds> columns{};
  std::size_t queue = 0;
  std::size_t launch = 0;
};

ActiveCauses active_causes(const CauseGraph& graph, const GraphCosts& costs) {
  std::array<bool, kIdleCauses> is_active{};
  for (CauseNode node = 0; node < graph.size(); ++node) {
    const auto causes = causes_of(graph.kinds[node]);
    for (std::size_t i = 0; i < causes.size(); ++i)
      is_active[static_cast<std::size_t>(causes[i])] |= costs.nodes[node].added_ns[i] != 0;
  }
  is_active[static_cast<std::size_t>(IdleCause::queue)] = std::ranges::any_of(graph.inputs, is_release);
  is_active[static_cast<std::size_t>(IdleCause::launch)] |= !costs.lag.empty();
  ActiveCauses active;
  std::array<std::size_t, kIdleCauses> numbers{};
  for (std::size_t i = 0; i < kIdleCauses; ++i) {
    numbers[i] = active.causes.size();
    if (is_active[i]) active.causes.push_back(static_cast<IdleCause>(i));
  }
  const auto column = [&](IdleCause cause) {
    const auto i = static_cast<std::size_t>(cause);
    return is_active[i] ? numbers[i] : active.causes.size();
  };
  for (std::size_t kind = 0; kind < kNodeKinds; ++kind) {
    const auto causes = causes_of(static_cast<NodeKind>(kind));
    for (std::size_t i = 0; i < causes.size(); ++i) active.columns[kind][i] = column(causes[i]);
  }
  active.queue = column(IdleCause::queue);
  active.launch = column(IdleCause::launch);
  return active;
}

/// The derivatives of the starts of all nodes by l, one for each cause, at one value of l. l is the fraction
/// of the added costs that is included: 0 in the ideal run, and 1 in the real run.
class Derivatives {
 public:
  Derivatives(const CauseGraph& graph, const GraphCosts& costs, const ActiveCauses& active)
      : graph_(graph),
        costs_(costs),
        active_(active),
        width_(active.causes.size() + 1),
        starts_(graph.size() * width_) {}

  void find(const GraphTimes& times) {
    const std::vector<Ns>& moments = times.moments();
    for (CauseNode node = 0; node < graph_.size(); ++node) {
      double* const own = &starts_[node * width_];
      std::fill_n(own, width_, 0.0);
      const Ns latest = times.start(node) - times.lag(node);
      int binding = 0;
      for (std::uint32_t i = graph_.first_input[node]; i < graph_.first_input[node + 1]; ++i) {
        if (moments[graph_.inputs[i]] != latest) continue;
        add(graph_.inputs[i], own);
        ++binding;
      }
      if (binding > 1) {
        for (std::size_t c = 0; c < width_; ++c) own[c] /= binding;
      }
      if (!costs_.lag.empty()) own[active_.launch] += static_cast<double>(costs_.lag[node]);
    }
  }

  /// Returns the derivative of the start of a node by l, the fraction of the added costs. It has one entry
  /// for each cause.
  std::span<const double> of(CauseNode node) const { return {&starts_[node * width_], width_ - 1}; }

 private:
  /// Adds the derivative of a moment to `sums`. A moment is the end of a node, or its release, at which a
  /// message has left its channel.
  void add(Moment moment, double* sums) const {
    const CauseNode node = node_of(moment);
    const double* const start = &starts_[node * width_];
    for (std::size_t c = 0; c < width_; ++c) sums[c] += start[c];
    const NodeCost& cost = costs_.nodes[node];
    if (is_release(moment)) {
      sums[active_.queue] += static_cast<double>(cost.added_ns[0] + cost.added_ns[1]);
      return;
    }
    const auto& columns = active_.columns[static_cast<std::size_t>(graph_.kinds[node])];
    for (std::size_t i = 0; i < columns.size(); ++i)
      sums[columns[i]] += static_cast<double>(cost.added_ns[i]);
  }

  const CauseGraph& graph_;
  const GraphCosts& costs_;
  const ActiveCauses& active_;
  std::size_t width_;  // the number of causes, and one column for causes without costs
  std::vector<double> starts_;
};

/// Sets, for each moment, how much the makespan grows if the costs after this moment grow. The end of the run
/// has weight 1. Each node passes its weight on in equal shares to its binding inputs, which are those that
/// end last.
void find_weights(const CauseGraph& graph, const GraphTimes& times, std::vector<double>& weights) {
  std::ranges::fill(weights, 0.0);
  weights[end_of(graph.finish())] = 1;
  const std::vector<Ns>& moments = times.moments();
  for (CauseNode node = graph.finish() + 1; node-- > 0;) {
    const double weight = weights[end_of(node)] + weights[release_of(node)];
    if (weight == 0) continue;
    const Ns latest = times.start(node) - times.lag(node);
    const auto begin = graph.inputs.begin() + graph.first_input[node];
    const auto end = graph.inputs.begin() + graph.first_input[node + 1];
    const auto binding = std::count_if(begin, end, [&](Moment input) { return moments[input] == latest; });
    for (auto input = begin; input != end; ++input) {
      if (moments[*input] == latest) weights[*input] += weight / static_cast<double>(binding);
    }
  }
}

/// Returns an IdlePart for each compute group and STEP, and one for the end of the run. Only their nodes and
/// phases are set.
std::vector<IdlePart> intervals_of(const CauseGraph& graph, const FlatProgram& flat) {
  std::vector<std::vector<CauseNode>> of_rank(index(flat.rank_count));
  for (CauseNode node = 0; node < graph.size(); ++node) {
    if (runs_on_rank(graph.kinds[node])) of_rank[index(graph.ranks[node])].push_back(node);
  }
  const auto group_has = [&](CauseNode node, const auto& has_kind) {
    const std::int32_t begin = graph.subjects[node];
    for (std::int32_t p = begin; p < flat.group_end(begin); ++p) {
      if (has_kind(flat.actions[index(p)].kind)) return true;
    }
    return false;
  };
  std::vector<IdlePart> parts;
  for (std::size_t rank = 0; rank < of_rank.size(); ++rank) {
    std::vector<CauseNode>& nodes = of_rank[rank];
    const auto is_backward = [&](CauseNode node) { return group_has(node, makes_input_gradient); };
    const auto is_forward = [&](CauseNode node) {
      return group_has(node, [](ActionKind kind) { return kind == ActionKind::forward; });
    };
    // The last interval of the fill phase ends at the first backward pass, at the place `last_of_fill`. The
    // drain phase begins behind the last forward pass, at the place `first_of_drain`.
    auto last_of_fill = std::ranges::find_if(nodes, is_backward) - nodes.begin();
    if (last_of_fill == std::ssize(nodes)) last_of_fill = 0;
    const auto last_forward = std::ranges::find_if(nodes.rbegin(), nodes.rend(), is_forward);
    const auto first_of_drain = nodes.rend() - last_forward;
    nodes.push_back(graph.finish());
    for (std::ptrdiff_t i = 0; i < std::ssize(nodes); ++i) {
      const IdlePhase phase = i <= last_of_fill     ? IdlePhase::fill
                              : i >= first_of_drain ? IdlePhase::drain
                                                    : IdlePhase::order;
      parts.push_back({.rank = static_cast<std::int32_t>(rank),
                       .node = nodes[static_cast<std::size_t>(i)],
                       .previous = i == 0 ? kNoCauseNode : nodes[static_cast<std::size_t>(i - 1)],
                       .phase = phase});
    }
  }
  return parts;
}

Ns end_before(const IdlePart& part, const GraphTimes& times) {
  return part.previous == kNoCauseNode ? 0 : times.moments()[end_of(part.previous)];
}

/// The results of the passes over the graph at one value of l, the fraction of the added costs.
struct Sample {
  std::vector<double> derivatives;  // derivative of each start, one entry for each cause
  std::vector<Ns> starts;           // multiplied like all times of the sample
  std::vector<double> weights;      // weight of each moment in the makespan
};

/// The distance between two neighbouring samples of l, the fraction of the added costs. All times are
/// multiplied by a whole number, so that this distance is a whole number, too. In this unit, the first sample
/// is 1 away from the ideal run, and the last one is 1 away from the real run.
constexpr std::int64_t kStep = 64;

/// Returns the slope of a start: the sum of its derivatives by cause.
double slope_of(std::span<const double> derivatives) {
  return std::accumulate(derivatives.begin(), derivatives.end(), 0.0);
}

bool are_equal(double slope, double other) { return std::abs(slope - other) < 1e-6; }

/// Returns the fraction of the way between two samples in which the first sample's derivatives hold. `length`
/// is the distance of the samples.
double theta_of(std::span<const double> first, std::span<const double> second, Ns change,
                std::int64_t length) {
  const double a = slope_of(first);
  const double b = slope_of(second);
  if (are_equal(a, b)) return 0.5;
  return std::clamp((static_cast<double>(change) / static_cast<double>(length) - b) / (a - b), 0.0, 1.0);
}

/// An integrator of the derivatives of starts over l, the fraction of the added costs.
class Integral {
 public:
  /// Keeps references to the arguments, which must outlive the object. The last element of `nodes` must be
  /// the end of the run.
  Integral(const CauseGraph& graph, const GraphCosts& costs, const ActiveCauses& active,
           std::span<const CauseNode> nodes)
      : graph_(graph),
        nodes_(nodes),
        width_(active.causes.size()),
        times_(graph, costs),
        derivatives_(graph, costs, active),
        sums_(nodes.size() * width_, 0),
        weights_(2 * graph.size(), 0) {}

  /// Integrates from the ideal run to the real run with at most this number of samples, or one more for each
  /// step over samples that fails.
  void run(std::int32_t samples) {
    whole_ = kStep * (samples - 1) + 2;
    Sample now = sample_at(0);
    // Before the first and after the last sample there is a short step without a second sample.
    add(now, now, 1);
    std::int32_t step = samples - 1;
    for (std::int32_t number = 0; number < samples - 1;) {
      step = std::min(step, samples - 1 - number);
      Sample next = sample_at(number + step);
      if (step > 1 && !have_equal_slopes(now, next)) {
        step = 1;
        continue;
      }
      add(now, next, kStep * step);
      number += step;
      step *= 2;
      now = std::move(next);
    }
    add(now, now, 1);
  }

  /// The integrals: for each node, one entry for each cause.
  const std::vector<double>& sums() const { return sums_; }
  /// For each moment, the integral of the weight that it has in the makespan.
  std::vector<double> moment_weights() && { return std::move(weights_); }

 private:
  Sample sample_at(std::int32_t number) {
    times_.compute(RealParts::all(kStep * number + 1, whole_));
    derivatives_.find(times_);
    Sample sample{.derivatives = std::vector<double>(nodes_.size() * width_),
                  .starts = std::vector<Ns>(nodes_.size()),
                  .weights = std::vector<double>(2 * graph_.size())};
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      std::ranges::copy(derivatives_.of(nodes_[i]), sample.derivatives.begin() + offset(i));
      sample.starts[i] = times_.start(nodes_[i]);
    }
    find_weights(graph_, times_, sample.weights);
    return sample;
  }

  std::ptrdiff_t offset(std::size_t node) const { return static_cast<std::ptrdiff_t>(node * width_); }

  std::span<const double> derivatives_of(const Sample& sample, std::size_t node) const {
    return std::span(sample.derivatives).subspan(node * width_, width_);
  }

  bool have_equal_slopes(const Sample& first, const Sample& second) const {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (!are_equal(slope_of(derivatives_of(first, i)), slope_of(derivatives_of(second, i)))) return false;
    }
    return true;
  }

  /// Adds the integrals between two samples. `length` is their distance, in the unit of kStep.
  void add(const Sample& first, const Sample& second, std::int64_t length) {
    const double step = static_cast<double>(length) / static_cast<double>(whole_);
    double theta = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const std::span<const double> a = derivatives_of(first, i);
      const std::span<const double> b = derivatives_of(second, i);
      theta = theta_of(a, b, second.starts[i] - first.starts[i], length);
      for (std::size_t c = 0; c < width_; ++c)
        sums_[i * width_ + c] += step * (theta * a[c] + (1 - theta) * b[c]);
    }
    // After the loop, `theta` belongs to the last node, the end of the run.
    for (std::size_t m = 0; m < weights_.size(); ++m)
      weights_[m] += step * (theta * first.weights[m] + (1 - theta) * second.weights[m]);
  }

  const CauseGraph& graph_;
  std::span<const CauseNode> nodes_;
  std::size_t width_;
  GraphTimes times_;
  Derivatives derivatives_;
  std::int64_t whole_ = 1;
  std::vector<double> sums_;
  std::vector<double> weights_;
};

}  // namespace

std::vector<double> makespan_weights(const CauseGraph& graph, const GraphTimes& times) {
  std::vector<double> weights(2 * graph.size());
  find_weights(graph, times, weights);
  return weights;
}

Account account_of(const CauseGraph& graph, const FlatProgram& flat, const GraphCosts& costs,
                   std::int32_t samples) {
  Account account;
  account.parts = intervals_of(graph, flat);
  GraphTimes times(graph, costs);
  account.ideal_ns = times.compute(RealParts::all(0, 1));
  for (IdlePart& part : account.parts) part.ideal_ns = times.start(part.node) - end_before(part, times);

  const ActiveCauses active = active_causes(graph, costs);
  const std::size_t width = active.causes.size();
  std::vector<CauseNode> nodes;
  std::vector<std::size_t> place(graph.size(), 0);
  for (CauseNode node = 0; node < graph.size(); ++node) {
    if (!runs_on_rank(graph.kinds[node]) && node != graph.finish()) continue;
    place[node] = nodes.size();
    nodes.push_back(node);
  }
  Integral integral(graph, costs, active, nodes);
  integral.run(samples);
  const std::vector<double>& sums = integral.sums();

  account.makespan_ns = times.compute(RealParts::all(1, 1));
  std::vector<double> parts(width);
  for (std::size_t i = 0; i < account.parts.size(); ++i) {
    IdlePart& part = account.parts[i];
    part.start_ns = end_before(part, times);
    part.end_ns = times.start(part.node);
    std::copy_n(sums.begin() + static_cast<std::ptrdiff_t>(place[part.node] * width), width, parts.begin());
    if (part.previous != kNoCauseNode) {
      for (std::size_t c = 0; c < width; ++c) parts[c] -= sums[place[part.previous] * width + c];
      const auto& columns = active.columns[static_cast<std::size_t>(graph.kinds[part.previous])];
      for (std::size_t k = 0; k < columns.size(); ++k) {
        if (columns[k] < width)
          parts[columns[k]] -= static_cast<double>(costs.nodes[part.previous].added_ns[k]);
      }
    }
    const std::vector<Ns> whole = rounded_parts(parts, part.end_ns - part.start_ns - part.ideal_ns);
    for (std::size_t c = 0; c < width; ++c)
      part.causes[static_cast<std::size_t>(active.causes[c])] = whole[c];
  }
  account.moment_weights = std::move(integral).moment_weights();
  return account;
}

// Computes a lower bound of the makespan. A rank cannot begin before the first of its actions has its data.
// After the rank's last action, the run continues until everything that depends on it has ended. Between the
// two, the rank does all its work:
//
//   rank r   |-- head --|-------- work --------|-- tail --|
//
// Heads and tails are longest paths along data, without the order of the lists.

namespace {

/// A reader that finds, for a compute group, the compute groups that produce its data. It reads the groups in
/// the order of their nodes. For each stage and microbatch, it stores which group has produced which data.
class DataReader {
 public:
  DataReader(const CauseGraph& graph, const FlatProgram& flat, const Program& program, std::size_t units)
      : graph_(graph),
        flat_(flat),
        recompute_timing_(program.recompute),
        neighbours_(stage_neighbours(program)),
        units_(units),
        forward_(index(program.stage_count()) * units, kNoCauseNode),
        recompute_(forward_),
        backward_(forward_) {}

  /// Adds the compute groups whose data this compute group needs to `inputs`.
  void read(CauseNode node, std::vector<CauseNode>& inputs) {
    const auto begin = static_cast<std::ptrdiff_t>(inputs.size());
    const std::int32_t position = graph_.subjects[node];
    for (std::int32_t w = flat_.next_wait[index(position)]; w != kNone; w = flat_.next_wait[index(w)]) {
      const std::int32_t producer = flat_.messages[index(flat_.message[index(w)])].producer;
      if (producer != kNone) inputs.push_back(graph_.of_position[index(producer)]);
    }
    for (std::int32_t p = position; p < flat_.group_end(position); ++p)
      add_left(node, flat_.actions[index(p)], inputs);
    inputs.erase(std::remove(inputs.begin() + begin, inputs.end(), kNoCauseNode), inputs.end());
    for (std::int32_t p = position; p < flat_.group_end(position); ++p) leave(node, flat_.actions[index(p)]);
  }

 private:
  std::size_t place(std::int32_t stage, std::int32_t unit) const {
    return index(stage) * units_ + index(unit);
  }

  /// Adds the earlier actions of the rank whose data the action needs.
  void add_left(CauseNode node, const Action& action, std::vector<CauseNode>& inputs) const {
    const std::size_t own = place(action.stage, action.microbatch);
    if (action.kind != ActionKind::forward) inputs.push_back(forward_[own]);
    if (makes_input_gradient(action.kind)) inputs.push_back(recompute_[own]);
    if (action.kind == ActionKind::backward_weight) inputs.push_back(backward_[own]);
    const auto flow = input_of(action.kind, recompute_timing_);
    if (!flow) return;
    for (const std::int32_t giver : givers_of(neighbours_, action.stage, *flow)) {
      const std::vector<CauseNode>& given = *flow == Flow::activation ? forward_ : backward_;
      const CauseNode input = given[place(giver, action.microbatch)];
      if (input != kNoCauseNode && graph_.ranks[input] == graph_.ranks[node]) inputs.push_back(input);
    }
  }

  void leave(CauseNode node, const Action& action) {
    const std::size_t own = place(action.stage, action.microbatch);
    if (action.kind == ActionKind::forward) forward_[own] = node;
    if (action.kind == ActionKind::recompute) recompute_[own] = node;
    if (makes_input_gradient(action.kind)) backward_[own] = node;
  }

  const CauseGraph& graph_;
  const FlatProgram& flat_;
  RecomputeTiming recompute_timing_;
  StageNeighbours neighbours_;
  std::size_t units_;
  std::vector<CauseNode> forward_;  // F of each stage and microbatch
  std::vector<CauseNode> recompute_;
  std::vector<CauseNode> backward_;  // B or I of each stage and microbatch
};

std::size_t units_of(const FlatProgram& flat) {
  std::int32_t most = -1;
  for (const Action& action : flat.actions) most = std::max(most, action.microbatch);
  return index(most + 1);
}

}  // namespace

DataInputs data_inputs(const CauseGraph& graph, const FlatProgram& flat, const Program& program) {
  DataReader reader(graph, flat, program, units_of(flat));
  DataInputs inputs;
  inputs.first.push_back(0);
  for (CauseNode node = 0; node < graph.size(); ++node) {
    if (graph.kinds[node] == NodeKind::compute) reader.read(node, inputs.nodes);
    inputs.first.push_back(static_cast<std::uint32_t>(inputs.nodes.size()));
  }
  return inputs;
}

IdealBound ideal_bound(const CauseGraph& graph, const FlatProgram& flat, const Program& program,
                       const GraphCosts& costs) {
  const DataInputs inputs = data_inputs(graph, flat, program);
  std::vector<Ns> head(graph.size(), 0);
  std::vector<Ns> tail(graph.size(), 0);
  for (CauseNode node = 0; node < graph.size(); ++node) {
    for (std::uint32_t i = inputs.first[node]; i < inputs.first[node + 1]; ++i) {
      const CauseNode input = inputs.nodes[i];
      head[node] = std::max(head[node], head[input] + costs.nodes[input].ideal_ns);
    }
  }
  for (CauseNode node = graph.finish() + 1; node-- > 0;) {
    for (std::uint32_t i = inputs.first[node]; i < inputs.first[node + 1]; ++i) {
      const CauseNode input = inputs.nodes[i];
      tail[input] = std::max(tail[input], tail[node] + costs.nodes[node].ideal_ns);
    }
  }

  struct RankLoad {
    std::optional<Ns> head{};
    std::optional<Ns> tail{};
    Ns work = 0;
    Ns sum() const { return head.value_or(0) + work + tail.value_or(0); }
  };
  const auto iterations = index(program.iterations);
  std::vector<std::vector<RankLoad>> loads(iterations, std::vector<RankLoad>(index(flat.rank_count)));
  for (CauseNode node = 0; node < graph.size(); ++node) {
    if (graph.kinds[node] != NodeKind::compute) continue;
    const std::int32_t unit = flat.actions[index(graph.subjects[node])].microbatch;
    const std::size_t iteration = std::min(iterations - 1, index(unit / program.unit_count()));
    RankLoad& load = loads[iteration][index(graph.ranks[node])];
    load.head = std::min(head[node], load.head.value_or(head[node]));
    load.tail = std::min(tail[node], load.tail.value_or(tail[node]));
    load.work += costs.nodes[node].ideal_ns;
  }
  IdealBound bound;
  for (const std::vector<RankLoad>& iteration : loads) {
    const auto most = std::ranges::max_element(iteration, {}, &RankLoad::sum);
    bound.bound_ns += most->sum();
    bound.head_ns += most->head.value_or(0);
    bound.tail_ns += most->tail.value_or(0);
  }
  return bound;
}

}  // namespace penstock
