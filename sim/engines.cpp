// Which engine an experiment needs.

#include "sim/engines.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

#include <tl/expected.hpp>

#include "report/timeline.hpp"
#include "scenarios/experiment.hpp"
#include "schedules/action.hpp"
#include "schedules/channel.hpp"
#include "schedules/channel_check.hpp"
#include "schedules/program.hpp"
#include "topology/cluster.hpp"

namespace penstock {
namespace {

/// Messages that never overlap in time with each other: those of one queue between two ranks, or the
/// collectives of one group of ranks, each of which has one queue for them.
using Stream = std::tuple<std::int32_t, std::int32_t, std::int32_t, std::int32_t>;

class LinkUsers {
 public:
  explicit LinkUsers(const Experiment& experiment) : cluster_(experiment.cluster) {}

  /// True when another stream crosses a link of limited bandwidth on this route, too.
  bool add(const Stream& stream, std::int32_t from, std::int32_t to) {
    if (!known_.insert({stream, from, to}).second) return false;
    bool shared = false;
    for (const std::int32_t link : cluster_.route(from, to).links) {
      if (!std::isfinite(cluster_.links()[static_cast<std::size_t>(link)].bytes_per_second)) continue;
      const auto [entry, first] = first_user_.try_emplace(link, stream);
      shared |= !first && entry->second != stream;
    }
    return shared;
  }

 private:
  const Cluster& cluster_;
  std::set<std::tuple<Stream, std::int32_t, std::int32_t>> known_;
  std::map<std::int32_t, Stream> first_user_;
};

/// Only `boundary` and `direction` channels let one pair of ranks have two transfers under way.
Stream stream_of(const Action& send, std::int32_t from, std::int32_t to, ChannelModel model) {
  switch (model) {
    case ChannelModel::rank:
    case ChannelModel::pair:
    case ChannelModel::directed:
      return {from, to, 0, 0};
    case ChannelModel::direction:
      return {from, to, send.kind == ActionKind::send_forward ? 0 : 1, 0};
    case ChannelModel::boundary:
      return {from, to, send.stage, send.peer};
  }
  return {};
}

/// The rings of the groups of ranks that have collectives.
class Rings {
 public:
  explicit Rings(const Program& program) : program_(program) {}

  /// True when another stream crosses a link of the stage's ring, too.
  bool add(std::int32_t stage, LinkUsers& users) {
    if (!known_.insert(stage).second) return false;
    const std::vector<std::int32_t>& ranks = program_.placement.stages[static_cast<std::size_t>(stage)].ranks;
    const auto [group, is_new] = groups_.try_emplace(ranks, static_cast<std::int32_t>(groups_.size()));
    bool shared = false;
    for (std::size_t i = 0; is_new && ranks.size() > 1 && i < ranks.size(); ++i) {
      shared |= users.add({-1, group->second, 0, 0}, ranks[i], ranks[(i + 1) % ranks.size()]);
    }
    return shared;
  }

 private:
  const Program& program_;
  std::set<std::int32_t> known_;  // stages
  std::map<std::vector<std::int32_t>, std::int32_t> groups_;
};

}  // namespace

std::string_view to_text(Engine engine) {
  switch (engine) {
    case Engine::automatic:
      return "auto";
    case Engine::critical_path:
      return "critical-path";
    case Engine::event:
      return "event";
  }
  return "";
}

bool links_are_shared(const Experiment& experiment) {
  const Program& program = experiment.program;
  LinkUsers users(experiment);
  Rings rings(program);
  for (std::int32_t rank = 0; rank < program.rank_count(); ++rank) {
    for (const Action& action : program.ranks[static_cast<std::size_t>(rank)]) {
      if (is_send(action.kind)) {
        const std::int32_t to = program.placement.rank_of(action.peer, action.microbatch);
        if (users.add(stream_of(action, rank, to, experiment.channels.model), rank, to)) return true;
      } else if (is_collective(action.kind)) {
        if (rings.add(action.stage, users)) return true;
      }
    }
  }
  return false;
}

Engine resolve(const Experiment& experiment, Engine engine) {
  if (engine != Engine::automatic) return engine;
  return links_are_shared(experiment) ? Engine::event : Engine::critical_path;
}

tl::expected<Timeline, Hang> run_engine(const Experiment& experiment, Engine engine) {
  return resolve(experiment, engine) == Engine::event ? event_simulation(experiment)
                                                      : critical_path(experiment);
}

}  // namespace penstock
