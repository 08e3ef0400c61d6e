// Computes the times of a program from docs/design/semantics.md. The engine in this file was written from
// that page alone, without a look at the engines of sim/. It is simple and slow. At each instant it starts
// all that may start, and then it goes on to the next instant at which something ends:
//
//   rank 0  F0--F1--            at 0 F0 starts;  at 2 the message of F0 and F1 start;  at 3 the message
//   channel     m0~             releases its channel;  ...
//
// If it and the engines disagree, the page is wrong or incomplete, or an engine is wrong. The comments name
// the rules of the page. The engine does not support links that transfers share (14), rings on unequal links
// (16), `launch_order` (13), memory (section 6), and overlapped groups of more than two actions. The test
// independent_engine_test.cpp compares the engines with this one. reference_engine.hpp is the usual
// reference.
// reference.

#include "tests/sim/independent_engine.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

constexpr Ns kNotYet = -1;

class IndependentEngine {
 public:
  /// Prepares the run. If `posts_in_order` is true, a single SEND or RECV starts only when program order has
  /// reached it, as in checks for hangs (rule 8). This changes some times.
  IndependentEngine(const Experiment& experiment, bool posts_in_order)
      : posts_in_order_(posts_in_order),
        program_(experiment.program),
        costs_(experiment.costs),
        cluster_(experiment.cluster),
        channels_(experiment.channels),
        ranks_(experiment.program.ranks.size()) {
    for (std::int32_t rank = 0; rank < program_.rank_count(); ++rank) read_list(rank);
    for (Rank& rank : ranks_) join_ends(rank);
  }

  /// Returns the spans of all actions, rank by rank in program order, or nothing if the program hangs.
  std::optional<std::vector<Span>> run() {
    for (;;) {
      while (start_what_may_start()) {
      }
      const auto next = events_.upper_bound(now_);
      if (next == events_.end()) break;
      now_ = *next;
    }
    std::vector<Span> spans;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (const Entry& entry : ranks_[rank].entries) {
        if (entry.end == kNotYet) return std::nullopt;
        const auto number = static_cast<std::int32_t>(rank);
        spans.push_back({.rank = number,
                         .action = entry.action,
                         .replica = program_.placement.replica_on(entry.action.stage, number),
                         .start_ns = entry.start,
                         .end_ns = entry.end});
      }
    }
    return spans;
  }

 private:
  struct Step;
  /// An action of a list, in one iteration.
  struct Entry {
    Action action;
    Ns start = kNotYet;
    Ns end = kNotYet;
    Ns released = kNotYet;
    Step* step = nullptr;         ///< The step that launches the action.
    std::vector<Entry*> needs{};  ///< The entries that must have ended before a compute action or a WAIT.
  };
  enum class Do : std::uint8_t { compute, post, await, issue, join, wait, reshard, barrier };
  /// A point in the program order of a rank.
  struct Step {
    Do what;
    std::vector<Entry*> entries{};
    bool is_reached = false;
    Ns launched = kNotYet;
  };
  struct Rank {
    std::deque<Entry> entries{};
    std::deque<Step> steps{};
    std::size_t next = 0;         // the step that program order has reached
    std::size_t next_launch = 0;  // the step that the host launches next
    Ns host_is_free = 0;
    std::vector<const Entry*> launched_compute{};
    std::int32_t barriers = 0;
  };
  /// A SEND and its RECV. The lists `ahead_of_send` and `ahead_of_recv` have the messages that must have
  /// released the FIFOs at both ends.
  struct Message {
    Entry* send = nullptr;
    Entry* recv = nullptr;
    Entry* producer = nullptr;
    Entry* frees_place = nullptr;  // the consumer of RECV k - n (rule 11)
    std::vector<const Entry*> ahead_of_send{};
    std::vector<const Entry*> ahead_of_recv{};
    Ns hold = 0;
    Ns latency = 0;
    bool is_eager = false;
  };
  struct Collective {
    std::vector<Entry*> members{};
    std::vector<const Entry*> before{};  // the collectives that come before it on its members
  };
  /// An OFFLOAD or RELOAD (rule 29).
  struct Copy {
    Entry* entry = nullptr;
    std::vector<const Entry*> before{};  // the copies that it waits for
  };
  using Name = std::tuple<ActionKind, std::int32_t, std::int32_t, std::int32_t>;

  static Name name_of(const Action& action) {
    return {action.kind, action.stage, action.microbatch, action.peer};
  }
  bool has_ended(const Entry* entry) const { return entry->end != kNotYet && entry->end <= now_; }
  bool has_released(const Entry* entry) const {
    return entry->released != kNotYet && entry->released <= now_;
  }
  bool is_launched(const Step* step) const { return step->launched != kNotYet && step->launched <= now_; }
  void set_times(Entry& entry, Ns hold, Ns latency) {
    entry.start = now_;
    entry.released = now_ + hold;
    entry.end = now_ + hold + latency;
    events_.insert({entry.released, entry.end});
  }

  // --- reading the lists -----------------------------------------------------------------------------------

  /// Divides the list of a rank into steps.
  void read_list(std::int32_t number) {
    Rank& rank = ranks_[index(number)];
    const std::vector<Action>& list = program_.ranks[index(number)];
    const std::vector<std::int32_t> steps = steps_per_pass(program_, number);
    std::map<std::pair<std::int32_t, ActionKind>, Entry*> last;  // of each stage and kind of collective
    std::map<std::int32_t, std::size_t> collectives_of_stage;
    const Entry* last_collective = nullptr;
    for (std::int32_t iteration = 0; iteration < program_.iterations; ++iteration) {
      if (iteration > 0 && program_.barrier) rank.steps.push_back({.what = Do::barrier});
      Step* batch = nullptr;  // the group of `blocking: batched` that is open
      for (std::size_t i = 0; i < list.size(); ++i) {
        const Action action = of_iteration(list[i], iteration, program_.unit_count(), steps);
        Entry& entry = rank.entries.emplace_back(Entry{.action = action});
        if (action.microbatch != kNoMicrobatch && !is_wait(action.kind)) by_name_[name_of(action)] = &entry;
        const auto open = [&](Do what) { rank.steps.push_back({.what = what}); };
        const bool is_first = opens_group(list, i);
        if (is_transfer(action.kind)) {
          const bool is_group = is_grouped_transfer(list, i);
          const bool is_batched = channels_.blocking == Blocking::batched;
          const bool is_last = !list[i].overlaps_next;
          if (is_batched ? batch == nullptr : is_first) {
            open(is_group || channels_.waits() ? Do::post : Do::issue);
            batch = &rank.steps.back();
          }
          entry.step = batch;
          batch->entries.push_back(&entry);
          const bool ends = is_batched ? ends_batch(list, i) : is_last;
          if (ends && (channels_.waits() || (is_group && !action.no_wait)))
            rank.steps.push_back({.what = Do::await, .entries = batch->entries});
          if (ends) batch = nullptr;
          continue;
        }
        if (is_compute(action.kind)) {
          if (is_first) open(Do::compute);
          for (const ActionKind kind : {ActionKind::unshard, ActionKind::reduce_grad}) {
            const auto found = last.find({action.stage, kind});
            const bool reuses_gradients = program_.sharding > 1 && makes_weight_gradient(action.kind);
            const bool is_step = action.kind == ActionKind::step;
            const bool waits = kind == ActionKind::unshard ? !is_step : is_step || reuses_gradients;
            if (waits && found != last.end()) entry.needs.push_back(found->second);
          }
          const auto reload = by_name_.find({ActionKind::reload, action.stage, action.microbatch, kNoPeer});
          const bool uses = action.kind == ActionKind::backward || action.kind == ActionKind::backward_input;
          if (uses && reload != by_name_.end()) entry.needs.push_back(reload->second);
        } else if (is_host_copy(action.kind)) {
          open(Do::join);
          Copy copy{.entry = &entry};
          for (const Entry& other : rank.entries) {
            const bool is_its_offload = other.action.kind == ActionKind::offload &&
                                        other.action.stage == action.stage &&
                                        other.action.microbatch == action.microbatch;
            const bool is_in_queue =
                is_host_copy(other.action.kind) && (!costs_.host.duplex || other.action.kind == action.kind);
            if (&other != &entry && (is_in_queue || is_its_offload)) copy.before.push_back(&other);
          }
          copies_.push_back(copy);
        } else if (is_wait(action.kind)) {
          open(Do::wait);
          for (Entry& other : rank.entries) {
            const bool is_awaited = other.action.kind == awaited_kind(action.kind) &&
                                    other.action.stage == action.stage &&
                                    other.action.microbatch == action.microbatch;
            if (is_awaited) entry.needs.push_back(&other);
          }
        } else if (action.kind == ActionKind::reshard) {
          open(Do::reshard);
        } else {
          open(Do::join);
          last[{action.stage, action.kind}] = &entry;
          Collective& collective = collectives_[{action.stage, collectives_of_stage[action.stage]++}];
          collective.members.push_back(&entry);
          if (last_collective != nullptr) collective.before.push_back(last_collective);
          last_collective = &entry;
        }
        entry.step = &rank.steps.back();
        entry.step->entries.push_back(&entry);
      }
    }
  }

  /// Returns true if a group of `blocking: batched` ends at a SEND or RECV (rules 7 and 28).
  static bool ends_batch(const std::vector<Action>& list, std::size_t position) {
    if (is_grouped_transfer(list, position)) return !list[position].overlaps_next;
    for (std::size_t i = position + 1; i < list.size(); ++i) {
      if (is_compute(list[i].kind) || is_wait(list[i].kind)) return true;
      if (is_transfer(list[i].kind)) return is_grouped_transfer(list, i);
    }
    return true;
  }

  /// Returns the stages between which the message of a SEND or RECV goes, and true if it is an activation.
  static std::tuple<std::int32_t, std::int32_t, bool> route_of(const Action& end) {
    const bool is_activation = end.kind == ActionKind::send_forward || end.kind == ActionKind::recv_forward;
    return is_send(end.kind) ? std::tuple(end.stage, end.peer, is_activation)
                             : std::tuple(end.peer, end.stage, is_activation);
  }
  /// Returns the rank that runs a microbatch on a stage. Every iteration repeats the lists on the same ranks.
  std::int32_t rank_of(std::int32_t stage, std::int32_t microbatch) const {
    return program_.placement.rank_of(stage, microbatch % program_.unit_count());
  }
  std::int32_t peer_rank(const Action& end) const { return rank_of(end.peer, end.microbatch); }

  using Fifo = std::tuple<std::int32_t, std::int32_t, bool>;
  /// Returns the FIFO of a SEND or RECV on its rank (rule 12).
  Fifo fifo_of(const Action& end) const {
    const bool is_activation = std::get<2>(route_of(end));
    switch (channels_.model) {
      case ChannelModel::rank:
        return {0, 0, false};
      case ChannelModel::pair:
        return {peer_rank(end), 0, false};
      case ChannelModel::direction:
        return {0, 0, is_activation};
      case ChannelModel::directed:
        return {peer_rank(end), 0, is_send(end.kind)};
      case ChannelModel::boundary:
        break;
    }
    return route_of(end);
  }
  /// Returns a key that is equal for messages of a group that follow each other (rule 7).
  std::tuple<Fifo, bool> line_of(const Action& end) const {
    if (channels_.model == ChannelModel::boundary) return {route_of(end), false};
    const bool flow = channels_.model == ChannelModel::direction && std::get<2>(route_of(end));
    return {{peer_rank(end), 0, is_send(end.kind)}, flow};
  }

  Entry* compute_of(std::int32_t stage, std::int32_t microbatch, bool is_activation) {
    for (const ActionKind kind : {ActionKind::forward, ActionKind::backward, ActionKind::backward_input}) {
      const auto found = by_name_.find({kind, stage, microbatch, kNoPeer});
      if ((kind == ActionKind::forward) == is_activation && found != by_name_.end()) return found->second;
    }
    return nullptr;
  }

  /// Finds, for each SEND and RECV of a rank, the messages that are ahead of it in its FIFO.
  void join_ends(Rank& rank) {
    std::map<Fifo, std::vector<Entry*>> fifos;
    std::map<Fifo, std::vector<Entry*>> receives;  // the consumers of the RECVs of each FIFO
    const EdgeNumbers edges(program_);
    for (Entry& entry : rank.entries) {
      const Action& end = entry.action;
      if (!is_transfer(end.kind)) continue;
      const auto [from, to, is_activation] = route_of(end);
      Message& message = messages_[{from, to, is_activation, end.microbatch}];
      std::vector<const Entry*> ahead;
      const Fifo fifo = fifo_of(end);
      for (const Entry* other : fifos[fifo]) {
        if (other->step != entry.step || line_of(other->action) == line_of(end)) ahead.push_back(other);
      }
      fifos[fifo].push_back(&entry);
      if (is_send(end.kind)) {
        message.send = &entry;
        message.ahead_of_send = ahead;
        message.producer = compute_of(from, end.microbatch, is_activation);
        const Route links = cluster_.route(rank_of(from, end.microbatch), peer_rank(end));
        const Bytes bytes = transfer_bytes(costs_, edges, end);
        message.hold = serialization_ns(bytes, links.bytes_per_second);
        message.latency = links.latency_ns;
        message.is_eager = bytes < channels_.eager_bytes;
        continue;
      }
      message.recv = &entry;
      message.ahead_of_recv = ahead;
      Entry* const consumer = compute_of(to, end.microbatch, is_activation);
      consumer->needs.push_back(&entry);
      const auto late = by_name_.find({ActionKind::recompute, to, end.microbatch, kNoPeer});
      const bool is_late = program_.recompute == RecomputeTiming::late && !is_activation;
      if (is_late && late != by_name_.end()) late->second->needs.push_back(&entry);
      std::vector<Entry*>& consumers = receives[fifo];
      consumers.push_back(consumer);
      if (channels_.capacity > 0 && consumers.size() > index(channels_.capacity))
        message.frees_place = consumers[consumers.size() - 1 - index(channels_.capacity)];
    }
  }

  // --- running ---------------------------------------------------------------------------------------------

  /// Starts every action and message that may start at this instant. Returns true if anything has changed.
  bool start_what_may_start() {
    bool changed = false;
    for (Rank& rank : ranks_) {
      while (launch_next(rank)) changed = true;
      while (rank.next < rank.steps.size() && pass(rank, rank.steps[rank.next], changed)) {
        ++rank.next;
        changed = true;
      }
    }
    for (auto& [name, message] : messages_) {
      if (message.send->start != kNotYet || !may_start(message)) continue;
      set_times(*message.send, message.hold, message.latency);
      set_times(*message.recv, message.hold, message.latency);
      changed = true;
    }
    for (auto& [name, collective] : collectives_) {
      const auto is_ready = [&](const Entry* member) {
        return member->step->is_reached && is_launched(member->step);
      };
      const bool starts = collective.members.front()->start == kNotYet &&
                          std::ranges::all_of(collective.members, is_ready) &&
                          std::ranges::all_of(collective.before, [&](auto* e) { return has_ended(e); });
      if (!starts) continue;
      const Ns takes = duration_of(collective.members.front()->action);
      for (Entry* member : collective.members) set_times(*member, takes, 0);
      changed = true;
    }
    for (const Copy& copy : copies_) {
      const Step* const step = copy.entry->step;
      const bool starts = copy.entry->start == kNotYet && step->is_reached && is_launched(step) &&
                          std::ranges::all_of(copy.before, [&](auto* e) { return has_ended(e); });
      if (!starts) continue;
      const Bytes bytes = costs_.stage_of(copy.entry->action).kept;
      set_times(*copy.entry, costs_.host.latency_ns + serialization_ns(bytes, costs_.host.bytes_per_second),
                0);
      changed = true;
    }
    return changed;
  }

  /// Launches the next step of a rank (rule 23), if the host need not wait.
  bool launch_next(Rank& rank) {
    if (rank.next_launch == rank.steps.size()) return false;
    Step& step = rank.steps[rank.next_launch];
    const bool takes_time =
        step.what == Do::compute || step.what == Do::post || step.what == Do::issue || step.what == Do::join;
    if (step.what == Do::compute) {
      const std::size_t ahead = index(costs_.launch.most_ahead);
      if (ahead > 0 && rank.launched_compute.size() >= ahead) {
        const Entry* const awaited = rank.launched_compute[rank.launched_compute.size() - ahead];
        if (!has_ended(awaited)) return false;
        rank.host_is_free = std::max(rank.host_is_free, awaited->end);
      }
      rank.launched_compute.push_back(step.entries.front());
    }
    if (takes_time) rank.host_is_free += costs_.launch.overhead_ns;
    step.launched = rank.host_is_free;
    events_.insert(step.launched);
    ++rank.next_launch;
    return true;
  }

  /// Returns true if the program order of a rank may continue after this step now.
  bool pass(Rank& rank, Step& step, bool& changed) {
    const auto have_ended = [&](const std::vector<Entry*>& entries) {
      return std::ranges::all_of(entries, [&](const Entry* entry) { return has_ended(entry); });
    };
    const auto needs_are_there = [&] {
      return std::ranges::all_of(step.entries, [&](const Entry* entry) { return have_ended(entry->needs); });
    };
    switch (step.what) {
      case Do::compute:
        if (step.entries.front()->start == kNotYet && is_launched(&step) && needs_are_there()) {
          for (Entry* entry : step.entries) set_times(*entry, duration_of(step), 0);
          changed = true;
        }
        return have_ended(step.entries);
      case Do::post:
      case Do::issue:
      case Do::join:
        step.is_reached = true;
        return true;
      case Do::await:
        return have_ended(step.entries);
      case Do::wait:
        if (!needs_are_there()) return false;
        set_times(*step.entries.front(), 0, 0);
        return true;
      case Do::reshard:
        set_times(*step.entries.front(), 0, 0);
        return true;
      case Do::barrier:
        if (!std::exchange(step.is_reached, true)) {
          ++rank.barriers;
          changed = true;
        }
        return std::ranges::all_of(ranks_,
                                   [&](const Rank& other) { return other.barriers >= rank.barriers; });
    }
    return false;
  }

  /// Returns true if a message may start (rules 7, 8, 10 and 11).
  bool may_start(const Message& message) const {
    const auto end_is_ready = [&](const Entry* end, const std::vector<const Entry*>& ahead) {
      return is_launched(end->step) &&
             ((end->step->what == Do::issue && !posts_in_order_) || end->step->is_reached) &&
             std::ranges::all_of(ahead, [&](const Entry* other) { return has_released(other); });
    };
    if (!has_ended(message.producer) || !end_is_ready(message.send, message.ahead_of_send)) return false;
    if (message.is_eager) return true;
    const bool has_place = message.frees_place == nullptr || has_ended(message.frees_place);
    return has_place && end_is_ready(message.recv, message.ahead_of_recv);
  }

  /// Returns the time of an action, or of an overlapped pair (rule 4).
  Ns duration_of(const Step& step) const {
    Ns sum = 0;
    Ns stated = -1;
    for (const Entry* entry : step.entries) {
      const StageCost& cost = costs_.stage_of(entry->action);
      sum += duration_ns(cost, entry->action.kind);
      stated = std::max(stated, cost.overlapped_pair_ns);
    }
    return step.entries.size() == 2 && stated >= 0 ? stated : sum;
  }
  /// Returns the time of a collective on equal links (rule 16).
  Ns duration_of(const Action& collective) const {
    const std::vector<std::int32_t>& group = program_.placement.stages[index(collective.stage)].ranks;
    const auto n = static_cast<std::int64_t>(group.size());
    if (n == 1) return 0;
    const bool reduces = collective.kind == ActionKind::reduce_grad;
    const bool sums = reduces && program_.sharding == 0;
    const StageCost& cost = costs_.stages[index(collective.stage)];
    const std::int64_t steps = (sums ? 2 : 1) * (n - 1);
    const Bytes bytes = (steps * (reduces ? cost.gradients : cost.weights) + n - 1) / n;
    const Route links = cluster_.route(group[0], group[1]);
    return serialization_ns(bytes, links.bytes_per_second) + steps * links.latency_ns;
  }

  bool posts_in_order_;
  const Program& program_;
  const CostTable& costs_;
  const Cluster& cluster_;
  const ChannelOptions& channels_;
  std::vector<Rank> ranks_;
  std::map<Name, Entry*> by_name_;
  std::map<std::tuple<std::int32_t, std::int32_t, bool, std::int32_t>, Message> messages_;
  std::map<std::pair<std::int32_t, std::size_t>, Collective> collectives_;
  std::vector<Copy> copies_;
  std::set<Ns> events_;
  Ns now_ = 0;
};

}  // namespace

std::optional<std::vector<Span>> times_by_the_page(const Experiment& experiment, bool posts_in_order) {
  return IndependentEngine(experiment, posts_in_order).run();
}

}  // namespace penstock
