#include "tests/backend/standin/gpu_runs.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/cuda/local_transport.hpp"
#include "backend/cuda/occupy_family.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/stream_queue.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/transport.hpp"
#include "backend/nccl/nccl_transport.hpp"
#include "backend/nccl/session.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "tests/sim/experiments.hpp"

namespace penstock {
namespace {

/// Passes each call to its rank's transport, in threads that have the rank's device.
class RankedTransport : public Transport {
 public:
  RankedTransport(const FlatProgram& flat, std::vector<std::unique_ptr<NcclTransport>>& of_ranks)
      : flat_(flat), of_ranks_(of_ranks) {}

  ChannelOptions channels() const override { return nccl_channels(); }
  void send(std::int32_t message, Payload payload) override {
    at(flat_.messages[index(message)].from_rank).send(message, std::move(payload));
  }
  void expect(std::int32_t message) override { at(flat_.messages[index(message)].to_rank).expect(message); }
  void release(std::int32_t) override {}
  void join(std::int32_t message, std::int32_t rank, SharedPayload contribution) override {
    at(rank).join(message, rank, std::move(contribution));
  }
  void wait(std::int32_t message, std::int32_t rank) override { at(rank).wait(message, rank); }
  Payload take(std::int32_t message) override {
    return at(flat_.messages[index(message)].to_rank).take(message);
  }
  std::vector<SharedPayload> collect(std::int32_t message, std::int32_t rank) override {
    return at(rank).collect(message, rank);
  }
  void check() override {
    for (const auto& transport : of_ranks_) transport->check();
  }
  void stop() override {
    for (const auto& transport : of_ranks_) transport->stop();
  }
  MessageTime time_of(std::int32_t message) const override { return times.at(index(message)); }

  std::vector<MessageTime> times;

 private:
  NcclTransport& at(std::int32_t rank) {
    use_device(rank);
    return *of_ranks_[index(rank)];
  }
  const FlatProgram& flat_;
  std::vector<std::unique_ptr<NcclTransport>>& of_ranks_;
};

/// What each rank has from the first run to the last.
class NcclRanks {
 public:
  NcclRanks(const FlatProgram& flat, const CostTable& costs)
      : flat_(flat), costs_(costs), sessions_(index(flat.rank_count)) {
    for (std::int32_t rank = 0; rank < flat.rank_count; ++rank) {
      workers_.push_back(CudaWorkers::whole_device(rank));
      places_.emplace_back(workers_.back().place(0));
    }
  }
  ~NcclRanks() {
    by_all_ranks([this](std::int32_t rank) { sessions_[index(rank)].reset(); });
  }
  NcclRanks(const NcclRanks&) = delete;
  NcclRanks& operator=(const NcclRanks&) = delete;

  /// By a thread a rank, which has its device. What the first that failed said.
  std::string by_all_ranks(const std::function<void(std::int32_t)>& does) const {
    std::vector<std::string> errors(sessions_.size());
    {
      std::vector<std::jthread> threads;
      for (std::int32_t rank = 0; rank < flat_.rank_count; ++rank) {
        threads.emplace_back([&, rank] {
          try {
            use_device(rank);
            does(rank);
          } catch (const Stopped&) {
            errors[index(rank)] = "stopped";
          } catch (const std::exception& error) {
            errors[index(rank)] = error.what();
          }
        });
      }
    }
    for (const std::string& error : errors) {
      if (!error.empty()) return error;
    }
    return "";
  }

  std::string open() {
    return by_all_ranks([this](std::int32_t rank) {
      sessions_[index(rank)] =
          std::make_unique<NcclSession>(NcclSessionParts{.flat = flat_,
                                                         .costs = costs_,
                                                         .rank = rank,
                                                         .device = rank,
                                                         .store = {},
                                                         .stopped = {},
                                                         .deadline = std::chrono::seconds(30)});
    });
  }

  const std::vector<std::optional<CudaPlace>>& places() const { return places_; }
  NcclSession& session(std::int32_t rank) { return *sessions_[index(rank)]; }

 private:
  const FlatProgram& flat_;
  const CostTable& costs_;
  std::vector<CudaWorkers> workers_;
  std::vector<std::optional<CudaPlace>> places_;
  std::vector<std::unique_ptr<NcclSession>> sessions_;
};

/// Of all messages, as each rank accounts for its own.
class NcclTimes {
 public:
  NcclTimes(const FlatProgram& flat, const NcclRanks& ranks,
            std::vector<std::unique_ptr<NcclTransport>>& transports)
      : flat_(flat), ranks_(ranks), transports_(transports) {}

  std::string collect(std::vector<MessageTime>& times) {
    times.resize(flat_.messages.size());
    return ranks_.by_all_ranks([&](std::int32_t rank) {
      transports_[index(rank)]->own_times();
      for (std::size_t id = 0; id < times.size(); ++id) {
        const FlatMessage& message = flat_.messages[id];
        const std::int32_t owner = message.recv == kNone ? flat_.rank_of(message.first) : message.from_rank;
        if (owner == rank) times[id] = transports_[index(rank)]->time_of(static_cast<std::int32_t>(id));
      }
    });
  }

 private:
  const FlatProgram& flat_;
  const NcclRanks& ranks_;
  std::vector<std::unique_ptr<NcclTransport>>& transports_;
};

}  // namespace

GpuRun run_over_nccl(const Experiment& experiment, const MakeCudaModules& make, std::int32_t runs,
                     std::chrono::nanoseconds deadline) {
  const FlatProgram flat =
      flatten(experiment.program, experiment.costs,
              {.channels = nccl_channels(), .iterations = experiment.program.iterations});
  NcclRanks ranks(flat, experiment.costs);
  GpuRun result;
  auto modules = make(ranks.places());
  result.error = modules ? ranks.open() : modules.error();
  for (std::int32_t run = 0; run < runs && result.error.empty(); ++run) {
    const SteadyClock clock;
    std::vector<std::unique_ptr<NcclTransport>> of_ranks(index(flat.rank_count));
    result.error = ranks.by_all_ranks([&](std::int32_t rank) {
      of_ranks[index(rank)] =
          std::make_unique<NcclTransport>(NcclTransportParts{.flat = flat,
                                                             .rank = rank,
                                                             .clock = clock,
                                                             .compute = ranks.places()[index(rank)]->stream,
                                                             .session = ranks.session(rank),
                                                             .codec = modules->codec.get()});
    });
    std::vector<std::unique_ptr<StreamQueue>> queues(index(flat.rank_count));
    if (result.error.empty())
      result.error = ranks.by_all_ranks([&](std::int32_t rank) {
        queues[index(rank)] =
            std::make_unique<StreamQueue>(flat, rank, clock, 1, ranks.places()[index(rank)]->stream);
      });
    if (!result.error.empty()) {
      ranks.by_all_ranks([&](std::int32_t rank) { of_ranks[index(rank)].reset(); });
      return result;
    }
    RankedTransport transport(flat, of_ranks);
    transport.times.resize(flat.messages.size());
    std::vector<ComputeQueue*> of_queues;
    for (const auto& queue : queues) of_queues.push_back(queue.get());
    StageModules stages = modules->family->modules(std::nullopt, clock);
    auto timeline = execute({.program = experiment.program,
                             .flat = flat,
                             .modules = stages,
                             .transport = transport,
                             .clock = clock,
                             .deadline = deadline,
                             .queues = of_queues});
    if (timeline) {
      result.error = NcclTimes(flat, ranks, of_ranks).collect(transport.times);
      result.runs.push_back(*std::move(timeline));
      for (std::int32_t rank = 0; rank < flat.rank_count && result.error.empty(); ++rank) {
        modules->family->account(rank, stages);
      }
    } else {
      result.error = timeline.error().message;
    }
    ranks.by_all_ranks([&](std::int32_t rank) { of_ranks[index(rank)].reset(); });
  }
  return result;
}

GpuRun run_over_copies(const Experiment& experiment, const PaceOfLinks& pace, const MakeCudaModules& make,
                       std::int32_t runs, std::chrono::nanoseconds deadline) {
  GpuRun result;
  auto measured =
      run_on_cuda_local(experiment, pace, {.warmup = runs - 1, .repeats = 1, .deadline = deadline}, make);
  if (measured) {
    result.runs.push_back((*measured)->timeline);
  } else {
    result.error = measured.error().message;
  }
  return result;
}

MakeCudaModules occupying(const Experiment& experiment) {
  return [&experiment](const std::vector<std::optional<CudaPlace>>& places) {
    return CudaModules{.family = std::make_unique<CudaOccupyFamily>(experiment, Jitter{}, 1, places)};
  };
}

Experiment gpu_experiment(const std::string& schedule, std::int32_t stages, std::int32_t microbatches,
                          Bytes message_bytes) {
  Experiment experiment = uniform_experiment(schedule, {.stages = stages, .microbatches = microbatches},
                                             {.forward_ns = 5'000'000, .backward_ns = 10'000'000});
  for (EdgeCost& edge : experiment.costs.edges) {
    edge = {.activation = message_bytes, .gradient = message_bytes};
  }
  return experiment;
}

}  // namespace penstock
