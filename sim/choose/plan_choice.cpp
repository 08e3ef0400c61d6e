// The moves of the search for a plan. A plan is a list of cuts and a list of replicas. A move copies both
// lists and changes one or two entries:
//
//     layers  0 1 2 | 3 4 | 5        cuts 3 5        a cut moves, a stage splits:   0 1 | 2 | 3 4 | 5
//     replicas  4      1    2        replicas 4 1 2                                   3   1    1    2
//
// Tests: tests/sim/plan_search_test.cpp.

#include "sim/choose/plan_trials.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/rules/generators.hpp"
#include "topology/cluster.hpp"
#include "topology/collective.hpp"

namespace penstock {

namespace {

/// A list of all neighbours of one choice, ordered by kind of move. A neighbour is a choice that one move
/// makes from it.
class Moves {
 public:
  Moves(const PlanChoice& from, const PlanSpace& space) : from_(from), space_(space) {
    if (from_.placement != PlanPlacement::stated) return;
    // Stated devices are valid only for the stated replicas. So the first move puts the devices in order, and
    // all other moves start from this choice.
    from_.placement = PlanPlacement::in_order;
    from_.devices.clear();
    found_.push_back(from_);
  }

  std::vector<PlanChoice> all() {
    move_cuts();
    move_replicas();
    for (std::size_t stage = 0; stage < from_.stages(); ++stage) split(stage);
    for (std::size_t stage = 0; stage + 1 < from_.stages(); ++stage) merge(stage);
    // Without a reduction, buckets have no effect. They are set to 0, because otherwise two choices would
    // mean the same plan.
    for (PlanChoice& choice : found_)
      if (!reduces(choice)) choice.buckets = 0;
    return std::move(found_);
  }

 private:
  /// Return the number of layers before the stage, and the number of layers up to the end of the stage.
  std::int32_t begin_of(std::size_t stage) const { return stage == 0 ? 0 : from_.cuts[stage - 1]; }
  std::int32_t end_of(std::size_t stage) const {
    return stage == from_.cuts.size() ? space_.layers : from_.cuts[stage];
  }
  std::int32_t idle() const { return space_.devices - from_.device_count(); }
  bool is_straight() const { return space_.form == PlanForm::straight; }

  void move_cuts() {
    for (std::size_t cut = 0; cut < from_.cuts.size(); ++cut) {
      // A cut may be anywhere between its neighbouring cuts. The stages on both sides must have at least one
      // layer.
      for (std::int32_t place = begin_of(cut) + 1; place < end_of(cut + 1); ++place) {
        if (place == from_.cuts[cut]) continue;
        found_.push_back(from_);
        found_.back().cuts[cut] = place;
      }
    }
  }

  /// Adds the choice in which one replica moves from stage `giver` to stage `taker`. The index after the
  /// last stage stands for the idle devices.
  void add_with(std::size_t giver, std::size_t taker) {
    found_.push_back(from_);
    if (giver < from_.stages()) --found_.back().replicas[giver];
    if (taker < from_.stages()) ++found_.back().replicas[taker];
  }

  void move_replicas() {
    if (is_straight()) return;
    const std::size_t idle_devices = from_.stages();
    for (std::size_t stage = 0; stage < from_.stages(); ++stage) {
      if (idle() > 0) add_with(idle_devices, stage);
      // The last replica of a stage stays, because only merge() removes stages.
      if (from_.replicas[stage] == 1) continue;
      add_with(stage, idle_devices);
      for (std::size_t taker = 0; taker < from_.stages(); ++taker)
        if (taker != stage) add_with(stage, taker);
    }
  }

  /// Adds all choices in which the stage becomes two stages. The cut may be at any layer, and the replicas
  /// are divided in any way. Each part has at least one replica.
  void split(std::size_t stage) {
    // A stage with one replica can be split only if an idle device becomes the second replica.
    const bool takes_idle = idle() > 0 && (is_straight() || from_.replicas[stage] == 1);
    const std::int32_t shared = from_.replicas[stage] + (takes_idle ? 1 : 0);
    for (std::int32_t share = 1; share < shared; ++share) {
      for (std::int32_t place = begin_of(stage) + 1; place < end_of(stage); ++place) {
        PlanChoice& choice = found_.emplace_back(from_);
        const auto at = static_cast<std::ptrdiff_t>(stage);
        choice.cuts.insert(choice.cuts.begin() + at, place);
        choice.replicas[stage] = share;
        choice.replicas.insert(choice.replicas.begin() + at + 1, shared - share);
      }
    }
  }

  /// Adds the choice in which the stage is merged with the next one.
  void merge(std::size_t stage) {
    PlanChoice merged = from_;
    const auto at = static_cast<std::ptrdiff_t>(stage);
    merged.cuts.erase(merged.cuts.begin() + at);
    merged.replicas[stage] = is_straight() ? 1 : from_.replicas[stage] + from_.replicas[stage + 1];
    merged.replicas.erase(merged.replicas.begin() + at + 1);
    found_.push_back(merged);
    if (is_straight()) return;
    // The merged stage may have more replicas than it needs, so further moves also give one or two of them to
    // another stage.
    for (std::int32_t handed = 1; handed <= 2 && handed < merged.replicas[stage]; ++handed) {
      for (std::size_t taker = 0; taker < merged.stages(); ++taker) {
        if (taker == stage) continue;
        PlanChoice& choice = found_.emplace_back(merged);
        choice.replicas[stage] -= handed;
        choice.replicas[taker] += handed;
      }
    }
  }

  PlanChoice from_;
  const PlanSpace& space_;
  std::vector<PlanChoice> found_;
};

/// Adds all choices that begin with the stages of `begun`, which has a cut after each of its stages. The next
/// stage may have any number of the free devices, and any number of the remaining layers.
void add_choices(PlanChoice begun, const PlanSpace& space, std::vector<PlanChoice>& found) {
  const std::int32_t from = begun.cuts.empty() ? 0 : begun.cuts.back();
  const std::int32_t left = space.devices - begun.device_count();
  const std::int32_t most = space.form == PlanForm::straight ? std::min(left, 1) : left;
  for (std::int32_t replicas = 1; replicas <= most; ++replicas) {
    PlanChoice next = begun;
    next.replicas.push_back(replicas);
    found.push_back(next);
    if (left == replicas) continue;
    for (std::int32_t cut = from + 1; cut < space.layers; ++cut) {
      next.cuts.push_back(cut);
      add_choices(next, space, found);
      next.cuts.pop_back();
    }
  }
}

}  // namespace

std::int32_t PlanChoice::device_count() const { return std::accumulate(replicas.begin(), replicas.end(), 0); }

std::int32_t warmup_of(const PlanChoice& choice, std::size_t stage, std::int32_t later) {
  const std::int32_t replicas = choice.replicas[stage];
  return round_robin_warmup(later + replicas, replicas) + choice.deeper;
}

bool reduces(const PlanChoice& choice) {
  return std::ranges::any_of(choice.replicas, [](std::int32_t replicas) { return replicas > 1; });
}

std::string configuration_of(const PlanChoice& choice) {
  return fmt::format("{}", fmt::join(choice.replicas, "-"));
}

// For k stages, there are C(layers - 1, k - 1) sets of cuts and C(devices, k) lists of replicas, which may
// leave devices idle. A straight plan has only one list of replicas.
std::int64_t count_choices(const PlanSpace& space, std::int64_t most) {
  double total = 0;
  double cuts = 1;
  double replications = space.devices;
  for (std::int32_t stages = 1; stages <= std::min(space.layers, space.devices); ++stages) {
    total += cuts * (space.form == PlanForm::straight ? 1 : replications);
    cuts *= static_cast<double>(space.layers - stages) / stages;
    replications *= static_cast<double>(space.devices - stages) / (stages + 1);
    // The number may be too large for an integer, so the loop ends at `most`.
    if (total > static_cast<double>(most)) return most;
  }
  return std::llround(total);
}

std::vector<PlanChoice> all_choices(const PlanSpace& space) {
  std::vector<PlanChoice> found;
  add_choices({}, space, found);
  return found;
}

std::vector<PlanChoice> neighbours(const PlanChoice& choice, const PlanSpace& space) {
  return Moves(choice, space).all();
}

// Computes a lower bound of a plan's period without a simulation. C_s is the compute time of a minibatch on
// stage s, R_s the time of the stage's ring, r_s its number of replicas, and W_s its warm-up. On average, a
// minibatch sends x bytes over a link of bandwidth B:
//
//     period >= (C_s + R_s) / r_s                                   a replica's STEP waits for its ring
//     period >= x / B                                               for every link
//     period >= (time from F on s to the end and back + R_s) / (r_s (W_s + 1))
//
// The third line is true because forward j + W + 1 of a replica comes after the update by its minibatch j. If
// gradients are reduced in buckets, the ring may run during the backward pass, and max(C_s, R_s) replaces the
// sum. With a flush, a stage reduces once for M microbatches and not once for r_s of them. The period is then
// that of a microbatch, a M-th of the minibatch's time. plan_trials.cpp simulates the plans that this bound
// does not exclude. Tests: tests/sim/plan_search_test.cpp.

namespace {

constexpr double kRoundings = 1 - 1e-7;  // a margin, because the simulator rounds to nanoseconds

/// Returns the devices of all replicas, stage by stage. Each replica gets a device of the server with most
/// free devices, and of the first one if several are equal. For example, on two servers of 4 devices, two
/// stages with 4 and 2 replicas get the devices 0 4 1 5 | 2 6.
std::vector<std::int32_t> spread(const PlanChoice& choice, std::int32_t servers, std::int32_t size) {
  std::vector<std::int32_t> used(static_cast<std::size_t>(servers), 0);
  std::vector<std::int32_t> devices;
  for (std::int32_t rank = 0; rank < choice.device_count(); ++rank) {
    const auto emptiest = std::ranges::min_element(used) - used.begin();
    devices.push_back((static_cast<std::int32_t>(emptiest) * size) +
                      used[static_cast<std::size_t>(emptiest)]++);
  }
  return devices;
}

}  // namespace

// The devices of a component have consecutive numbers. A server is a component of the highest level. Its
// number of devices is the product over the levels below.
std::vector<std::int32_t> devices_of(const PlanChoice& choice, std::span<const BandwidthLevel> levels) {
  if (choice.placement == PlanPlacement::stated) return choice.devices;
  if (choice.placement == PlanPlacement::spread && levels.size() > 1) {
    std::int32_t size = 1;
    for (const BandwidthLevel& level : levels.first(levels.size() - 1)) size *= level.components;
    return spread(choice, levels.back().components, size);
  }
  std::vector<std::int32_t> devices(static_cast<std::size_t>(choice.device_count()));
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}

PlanBound::PlanBound(const LayerGraph& graph, std::span<const std::int32_t> order,
                     std::span<const BandwidthLevel> levels, const Cluster& cluster,
                     PlanReductions reductions, std::int64_t state)
    : levels_(levels.begin(), levels.end()),
      cluster_(cluster),
      overhead_ns_(static_cast<double>(2 * graph.overhead_ns)),
      buckets_(reductions.in_buckets),
      microbatches_(reductions.microbatches),
      state_(static_cast<double>(state)),
      routes_(cluster.devices().size()) {
  // An output is alive from its layer to the last layer that reads it, in this order of layers. A cut sends
  // all outputs that are alive at the cut.
  std::vector<std::size_t> last(graph.layers.size(), 0);
  for (std::size_t place = 0; place < order.size(); ++place) {
    last[static_cast<std::size_t>(order[place])] = place;
    for (const std::int32_t input : graph.layers[static_cast<std::size_t>(order[place])].inputs)
      last[static_cast<std::size_t>(input)] = place;
  }
  std::vector<double> dies(order.size(), 0);
  sums_.assign(order.size() + 1, {});
  for (std::size_t place = 0; place < order.size(); ++place) {
    const Layer& layer = graph.layers[static_cast<std::size_t>(order[place])];
    const auto output = static_cast<double>(layer.output);
    // An output that no layer reads ends at its own layer, so no cut counts it.
    dies[last[static_cast<std::size_t>(order[place])]] += output;
    sums_[place + 1] = {
        .time_ns = sums_[place].time_ns + static_cast<double>(layer.forward_ns + layer.backward_ns),
        .weights = sums_[place].weights + static_cast<double>(layer.weights),
        .kept = sums_[place].kept + static_cast<double>(layer.kept_bytes()),
        .alive = sums_[place].alive + output - dies[place]};
  }
}

// Each possible cut stores sums over all layers before it. The sums of a stage are those at the cut after it
// minus those at the cut before it. Only `alive` is a value of the cut itself and is not subtracted.
const PlanBound::Sums& PlanBound::sums_before(const PlanChoice& choice, std::size_t stage) const {
  if (stage == choice.stages()) return sums_.back();
  return sums_[static_cast<std::size_t>(stage == 0 ? 0 : choice.cuts[stage - 1])];
}

const PlanBound::RoutePrice& PlanBound::route_price(std::int32_t from, std::int32_t to) {
  std::vector<RoutePrice>& from_here = routes_[index(from)];
  // The vector gets its full size at once, so that references to its elements stay valid.
  if (from_here.empty()) from_here.resize(cluster_.devices().size());
  RoutePrice& known = from_here[index(to)];
  if (known.is_known) return known;
  const Route route = cluster_.route(from, to);
  known = {.links = {route.links.begin(), route.links.end()},
           .ns_per_byte = 1e9 / route.bytes_per_second,
           .latency_ns = static_cast<double>(route.latency_ns),
           .is_known = true};
  return known;
}

void PlanBound::load(LinkNumber link, double bytes) {
  const auto at = static_cast<std::size_t>(link);
  if (at >= link_ns_.size()) link_ns_.resize(at + 1, 0);
  link_ns_[at] += bytes * 1e9 / cluster_.link_bytes_per_second(link);
}

const PlanBound::Ring& PlanBound::ring(Devices devices) {
  std::vector<std::int32_t> key(devices.begin(), devices.end());
  const auto known = rings_.find(key);
  if (known != rings_.end()) return known->second;
  Ring ring;
  const std::vector<std::int32_t> order = ring_order(cluster_, devices);
  // A ring's time grows linearly with its bytes, so the time for one size gives the time for each byte.
  constexpr Bytes kBytes = Bytes{1} << 30;
  const CollectiveRoute route = collective_route(cluster_, order, Collective::all_reduce, kBytes);
  ring.ns_per_byte =
      static_cast<double>(route.cost.bytes_per_link) / kBytes * 1e9 / route.cost.bytes_per_second;
  ring.latency_ns = static_cast<double>(route.cost.latency_ns);
  for (const CollectivePhase& phase : route.phases) {
    for (const RingHop& hop : phase.hops) {
      for (const LinkNumber link : route_price(hop.from, hop.to).links)
        ring.loads.emplace_back(link, static_cast<double>(hop.bytes) / kBytes);
    }
  }
  return rings_.emplace(std::move(key), std::move(ring)).first->second;
}

// Adds the times of the ring's bytes to its links. The ring runs once for `minibatches` minibatches.
void PlanBound::load_ring(const Ring& ring, double bytes, double minibatches) {
  for (const auto& [link, part] : ring.loads) load(link, part * bytes / minibatches);
}

/// Adds the time of a minibatch's messages in both directions to each link that carries them. Returns the
/// shortest time that both directions take together.
double PlanBound::cross(Devices from, Devices to, double bytes) {
  // Replica g mod r sends minibatch g to replica g mod r'. The pairs repeat after lcm(r, r') minibatches, of
  // which each pair has carried one.
  const std::size_t pairs = std::lcm(from.size(), to.size());
  // With a flush, M microbatches may end in the middle of the pairs. Some pairs then carry only M / pairs,
  // rounded down.
  const auto all = static_cast<std::size_t>(microbatches_);
  const std::size_t carried = all > 0 ? all / pairs : 1;
  const double share = static_cast<double>(carried) / static_cast<double>(all > 0 ? all : pairs);
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    const std::int32_t here = from[pair % from.size()];
    const std::int32_t there = to[pair % to.size()];
    double ns = 0;
    for (const RoutePrice* one : {&route_price(here, there), &route_price(there, here)}) {
      ns += one->ns_per_byte * bytes + one->latency_ns;
      for (const LinkNumber link : one->links) load(link, bytes * share);
    }
    // The time of the fastest pair is the lower bound, because all other pairs take longer.
    least = std::min(least, ns);
  }
  return least;
}

double PlanBound::period_ns(const PlanChoice& choice) {
  const std::vector<std::int32_t> devices = devices_of(choice, levels_);
  link_ns_.assign(link_ns_.size(), 0);
  // The loop starts at the last stage, because the round trip of a stage includes those of all later stages.
  double period = 0;
  double round_trip_ns = 0;  // time from the forward pass of the stage to the end of the pipeline and back
  std::size_t end = devices.size();
  auto later = static_cast<std::int32_t>(0);
  Devices behind;
  for (std::size_t s = choice.stages(); s-- > 0;) {
    const auto replicas = static_cast<std::size_t>(choice.replicas[s]);
    const Devices here(devices.data() + end - replicas, replicas);
    end -= replicas;
    const Sums& before = sums_before(choice, s);
    const Sums& after = sums_before(choice, s + 1);
    const double compute = after.time_ns - before.time_ns + overhead_ns_;
    const double weights = after.weights - before.weights;
    if (!behind.empty()) round_trip_ns += cross(here, behind, after.alive);
    round_trip_ns += compute;
    const auto r = static_cast<double>(replicas);
    double reduction = 0;
    if (replicas > 1) {
      const Ring& around = ring(here);
      reduction = around.ns_per_byte * weights + around.latency_ns;
      // A ring reduces the gradients of one minibatch on each of the r replicas. Therefore one run of the
      // ring serves r minibatches.
      const double together = microbatches_ > 0 ? microbatches_ : r;
      reduction *= r / together;
      load_ring(around, weights, together);
    }
    // If computation and ring run at the same time, the longer of the two is the bound.
    const bool hides = buckets_ || choice.buckets > 0;
    period = std::max(period, (hides ? std::max(compute, reduction) : compute + reduction) / r);
    // The third line of the formula: the round trip and the reduction, divided by r (W + 1).
    const std::int32_t warmup = warmup_of(choice, s, later);
    const double reduced = hides || microbatches_ > 0 ? 0 : reduction;
    period = std::max(period, (round_trip_ns + reduced) / (r * (warmup + 1)));
    later += choice.replicas[s];
    behind = here;
  }
  for (const double ns : link_ns_) period = std::max(period, ns);
  return period * kRoundings;
}

// For a stage with the weights w, the activations a of a minibatch and the warm-up W, the bound is w (1 +
// state) + a (W + 1). `state` covers the gradients and the optimizer state. With buckets, the gradients of
// one bucket may be freed before those of the next one exist, so `state` is not counted.
double PlanBound::peak_bytes(const PlanChoice& choice) const {
  const double state = buckets_ || choice.buckets > 0 ? 0 : state_;
  double peak = 0;
  std::int32_t later = 0;
  for (std::size_t s = choice.stages(); s-- > 0;) {
    const Sums& before = sums_before(choice, s);
    const Sums& after = sums_before(choice, s + 1);
    std::int32_t live = warmup_of(choice, s, later) + 1;
    // With a flush, a replica runs only its share of the M microbatches. The first replica has the largest
    // share, so it bounds the live microbatches.
    if (microbatches_ > 0) {
      const std::int32_t replicas = choice.replicas[s];
      live = std::min(live, microbatches_ / replicas + (microbatches_ % replicas > 0 ? 1 : 0));
    }
    peak = std::max(peak, (after.weights - before.weights) * (1 + state) + (after.kept - before.kept) * live);
    later += choice.replicas[s];
  }
  return peak * kRoundings;
}

}  // namespace penstock
