// Simulates the pipelines of bench/shared_links.hpp in SimGrid, with the same servers, links, durations and
// messages:
//
//     simgrid_shared_links PIPELINES STAGES MICROBATCHES MESSAGE_BYTES    prints "makespan_ms processor_ms"
//
// A rank is an actor that runs its 1F1B list. Each of its two channels is an actor that sends one message
// after another and records the arrivals. As in Penstock, the latency is added after the transfer and does
// not occupy the link. The processor time includes only the simulation.

#include <simgrid/s4u.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

namespace {

namespace s4u = simgrid::s4u;

constexpr double kLatency = 4e-6;
constexpr double kBytesPerSecond = 50.0 * (1 << 30);

struct Shape {
  int pipelines = 0;
  int stages = 0;
  int microbatches = 0;
  std::uint64_t message_bytes = 0;
};

/// A channel for messages from a rank to the next or the previous rank, one message at a time.
struct Channel {
  s4u::SemaphorePtr produced = s4u::Semaphore::create(0);
  s4u::SemaphorePtr sent = s4u::Semaphore::create(0);
  std::vector<double> arrivals;  // in seconds, by message
  int received = 0;              // number of messages that the receiver has used

  void carry(s4u::Host* from, s4u::Host* to, const Shape& shape) {
    for (int m = 0; m < shape.microbatches; ++m) {
      produced->acquire();
      s4u::Comm::sendto(from, to, shape.message_bytes);
      arrivals.push_back(s4u::Engine::get_clock() + kLatency);
      sent->release();
    }
  }

  void receive() {
    sent->acquire();
    s4u::this_actor::sleep_until(arrivals[static_cast<std::size_t>(received++)]);
  }
};

/// One stage of one pipeline. Channels to a missing neighbour are null.
struct Rank {
  int stage = 0;
  double forward = 0;
  Channel* activations_in = nullptr;
  Channel* activations_out = nullptr;
  Channel* gradients_in = nullptr;
  Channel* gradients_out = nullptr;

  /// Waits for the input, computes, and then lets the channel `out` send the output.
  void compute(double seconds, Channel* in, Channel* out) const {
    if (in != nullptr) in->receive();
    s4u::this_actor::sleep_for(seconds);
    if (out != nullptr) out->produced->release();
  }

  /// Runs 1F1B: first `warmup` forwards, and then forwards and backwards alternately. Example: stage 0 of 3,
  /// M = 4:
  ///
  ///     F F F B F B B B      f - b never exceeds warmup + 1 = 3
  void run(const Shape& shape) const {
    const int warmup = std::min(shape.stages - 1 - stage, shape.microbatches);
    for (int f = 0, b = 0; b < shape.microbatches;) {
      if (f < shape.microbatches && f - b <= warmup) {
        compute(forward, activations_in, activations_out);
        ++f;
      }
      if (f == shape.microbatches || f - b > warmup) {
        compute(2 * forward, gradients_in, gradients_out);
        ++b;
      }
    }
  }
};

/// Returns the servers. Server k has two links, and there are routes between neighbours.
std::vector<s4u::Host*> servers(const Shape& shape) {
  s4u::NetZone* zone = s4u::create_full_zone("servers");
  std::vector<s4u::Host*> hosts;
  std::vector<s4u::Link*> out, in;
  for (int k = 0; k < shape.stages; ++k) {
    const std::string name = std::to_string(k);
    hosts.push_back(zone->create_host("server" + name, 1e9)->seal());
    out.push_back(zone->create_link("out" + name, kBytesPerSecond)->set_latency(0)->seal());
    in.push_back(zone->create_link("in" + name, kBytesPerSecond)->set_latency(0)->seal());
  }
  const auto join = [&](std::size_t from, std::size_t to) {
    zone->add_route(hosts[from]->get_netpoint(), hosts[to]->get_netpoint(), nullptr, nullptr,
                    {s4u::LinkInRoute(out[from]), s4u::LinkInRoute(in[to])}, false);
  };
  for (std::size_t k = 1; k < hosts.size(); ++k) {
    join(k - 1, k);
    join(k, k - 1);
  }
  zone->seal();
  return hosts;
}

/// Adds the ranks of one pipeline. Channel 2k carries activations from stage k, and 2k + 1 gradients back to
/// it.
void add_pipeline(int pipeline, const Shape& shape, const std::vector<s4u::Host*>& hosts,
                  std::vector<std::unique_ptr<Channel>>& channels) {
  const std::size_t first = channels.size();
  for (int k = 0; k + 1 < shape.stages; ++k) {
    for (const bool is_activation : {true, false}) {
      Channel* channel = channels.emplace_back(std::make_unique<Channel>()).get();
      s4u::Host* from = hosts[static_cast<std::size_t>(is_activation ? k : k + 1)];
      s4u::Host* to = hosts[static_cast<std::size_t>(is_activation ? k + 1 : k)];
      s4u::Actor::create("channel", from, [=] { channel->carry(from, to, shape); });
    }
  }
  for (int k = 0; k < shape.stages; ++k) {
    const auto channel = [&](int stage, std::size_t gradients) {
      return stage < 0 || stage + 1 >= shape.stages
                 ? nullptr
                 : channels[first + 2 * static_cast<std::size_t>(stage) + gradients].get();
    };
    const double spread = (pipeline * 7919LL + k * 104729LL) % 1000 * 100;
    const Rank rank{
        k, (950'000 + spread) * 1e-9, channel(k - 1, 0), channel(k, 0), channel(k, 1), channel(k - 1, 1)};
    s4u::Actor::create("rank", hosts[static_cast<std::size_t>(k)], [=] { rank.run(shape); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  s4u::Engine engine(&argc, argv);
  if (argc != 5) return 2;
  // The links lose no bandwidth to headers, acknowledgements or windows.
  s4u::Engine::set_config("network/model:CM02");
  s4u::Engine::set_config("network/weight-S:0");
  s4u::Engine::set_config("network/TCP-gamma:0");
  s4u::Engine::set_config("network/crosstraffic:0");
  const Shape shape{std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]),
                    std::strtoull(argv[4], nullptr, 10)};
  const std::vector<s4u::Host*> hosts = servers(shape);
  std::vector<std::unique_ptr<Channel>> channels;
  for (int pipeline = 0; pipeline < shape.pipelines; ++pipeline)
    add_pipeline(pipeline, shape, hosts, channels);
  const std::clock_t begin = std::clock();
  engine.run();
  std::printf("%.6f %.3f\n", s4u::Engine::get_clock() * 1e3,
              1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
}
