// Replaces some functions of the product. The linker redirects their calls to this file (--wrap), or finds
// their only definition here. The product would fork its ranks, or join a launcher's ranks. Here the ranks
// are threads of this process, which execute() runs and watches. The product's callbacks create the device,
// session, transport and modules of each rank on the rank's thread.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "backend/calibration/calibration.hpp"
#include "backend/cuda/local_transport.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/launch_ahead.hpp"
#include "backend/executor/transport.hpp"
#include "backend/nccl/nccl_transport.hpp"
#include "backend/nccl/rendezvous.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/socket_transport.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/ir/program.hpp"
#include "tests/backend/standin/scheduler.hpp"
#include "tests/backend/standin/world.hpp"

namespace penstock {
namespace {

using Runs = tl::expected<std::vector<ExecutedRun>, ExecutionError>;

/// Makes the rank's device and its process on that device current.
void use_device_of(std::int32_t rank) {
  const std::int32_t sharing = standin::world().setting.ranks_per_device;
  if (standin::this_thread != nullptr) standin::this_thread->process = rank % sharing;
  use_device(rank / sharing);
}

/// Passes each call to its rank's transport, in threads that have the rank's device.
class RankedTransport : public Transport {
 public:
  RankedTransport(const FlatProgram& flat, std::vector<RankTransport>& of_ranks)
      : flat_(flat), of_ranks_(of_ranks), times_(flat.messages.size()) {}

  ChannelOptions channels() const override { return nccl_channels(); }
  void send(std::int32_t message, Payload payload) override {
    at(flat_.messages[index(message)].from_rank).send(message, std::move(payload));
  }
  void expect(std::int32_t message) override { at(flat_.messages[index(message)].to_rank).expect(message); }
  bool has_room(std::int32_t message, std::int32_t rank) override { return at(rank).has_room(message, rank); }
  void begin_group(std::int32_t rank) override { at(rank).begin_group(rank); }
  void end_group(std::int32_t rank) override { at(rank).end_group(rank); }
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
    for (const RankTransport& of_rank : of_ranks_) of_rank.transport->check();
  }
  void finish(std::int32_t rank) override {
    at(rank).finish(rank);
    const std::vector<MessageTime> own = of_ranks_[index(rank)].own_times();
    const std::vector<std::int32_t> messages = messages_of(flat_, rank);
    for (std::size_t i = 0; i < own.size(); ++i) times_[index(messages[i])] = own[i];
  }
  void stop() override {
    for (const RankTransport& of_rank : of_ranks_) of_rank.transport->stop();
  }
  MessageTime time_of(std::int32_t message) const override { return times_.at(index(message)); }

 private:
  Transport& at(std::int32_t rank) {
    use_device_of(rank);
    return *of_ranks_[index(rank)].transport;
  }
  const FlatProgram& flat_;
  std::vector<RankTransport>& of_ranks_;
  std::vector<MessageTime> times_;  // by message
};

/// The ranks of one call of run_on_nccl().
class Ranks {
 public:
  explicit Ranks(const ProcessExecution& execution)
      : execution_(execution), makers_(index(execution.flat.rank_count)) {}
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  ~Ranks() {
    by_all([this](std::int32_t rank) { makers_[index(rank)] = {}; });
  }

  Runs run() {
    by_all([this](std::int32_t rank) {
      makers_[index(rank)] = execution_.transport(rank, [this] { return failed_.load(); });
    });
    std::vector<ExecutedRun> runs;
    for (std::int32_t number = 0; number < execution_.runs && error_.empty(); ++number) once(number, runs);
    if (error_.empty()) return runs;
    return tl::unexpected(ExecutionError{.action = "", .message = error_});
  }

 private:
  /// Calls `does` for each rank on a thread of its own, which has the rank's device. The first failure is
  /// thrown for all.
  void by_all(const std::function<void(std::int32_t)>& does) {
    std::vector<std::jthread> threads;
    for (std::int32_t rank = 0; rank < execution_.flat.rank_count; ++rank) {
      threads.emplace_back([this, &does, rank] {
        try {
          use_device_of(rank);
          does(rank);
        } catch (const Stopped&) {
          fail("stopped");
        } catch (const std::exception& error) {
          fail(error.what());
        }
      });
    }
  }

  void fail(const std::string& what) {
    if (error_.empty() || error_ == "stopped") error_ = what;
    failed_ = true;
  }

  void once(std::int32_t number, std::vector<ExecutedRun>& runs) {
    const SteadyClock clock(execution_.time_scale);
    std::vector<RankTransport> transports(makers_.size());
    StageModules modules(makers_.size());
    by_all([&](std::int32_t rank) {
      modules[index(rank)] = std::move(execution_.modules(rank, clock)[index(rank)]);
      transports[index(rank)] = makers_[index(rank)]({.run = number, .clock = clock, .send = {}});
    });
    if (error_.empty()) execute_all(clock, modules, transports, runs);
    by_all([&](std::int32_t rank) { const RankTransport ends = std::move(transports[index(rank)]); });
  }

  void execute_all(const Clock& clock, StageModules& modules, std::vector<RankTransport>& transports,
                   std::vector<ExecutedRun>& runs) {
    RankedTransport transport(execution_.flat, transports);
    std::vector<ComputeQueue*> queues;
    for (const RankTransport& of_rank : transports) queues.push_back(of_rank.queue.get());
    auto timeline = execute({.program = execution_.program,
                             .flat = execution_.flat,
                             .modules = modules,
                             .transport = transport,
                             .clock = clock,
                             .deadline = execution_.deadline,
                             .queues = queues});
    if (!timeline) return fail(timeline.error().message);
    ExecutedRun executed{.timeline = *std::move(timeline), .accounts = {}};
    executed.accounts.resize(transports.size());
    by_all([&](std::int32_t rank) { executed.accounts[index(rank)] = execution_.finished(rank, modules); });
    runs.push_back(std::move(executed));
  }

  const ProcessExecution& execution_;
  std::vector<MakeRankTransport> makers_;
  std::string error_;
  std::atomic<bool> failed_ = false;
};

}  // namespace
}  // namespace penstock

penstock::Runs wrapped_in_processes(const penstock::ProcessExecution& execution) asm(
    "__wrap__ZN8penstock20execute_in_processesERKNS_16ProcessExecutionE");
penstock::Runs
wrapped_as_rank(const penstock::ProcessExecution& execution, const penstock::ProcessPlace& place) asm(
    "__wrap__ZN8penstock15execute_as_rankERKNS_16ProcessExecutionERKNS_12ProcessPlaceE");

penstock::Runs wrapped_in_processes(const penstock::ProcessExecution& execution) {
  return penstock::Ranks(execution).run();
}

/// Runs a job of a launcher with a single process. Several processes would need several programs.
penstock::Runs wrapped_as_rank(const penstock::ProcessExecution& execution, const penstock::ProcessPlace&) {
  if (execution.flat.rank_count == 1) return penstock::Ranks(execution).run();
  return tl::unexpected(
      penstock::ExecutionError{.action = "", .message = "a launcher's ranks are processes"});
}

namespace penstock {

// Replaces LibTorch's store. The ranks are threads of one process, so they use one map.

namespace {

// Only one thread runs at a time; accesses are ordered as by a mutex.
std::map<std::string, std::string> values;

}  // namespace

struct Rendezvous::Store {};

Rendezvous::Rendezvous(const RendezvousPlace& place, const WaitLimits&)
    : store_(std::make_unique<Store>()), place_(place) {}
Rendezvous::~Rendezvous() = default;

void Rendezvous::set(const std::string& key, const std::string& value, const WaitLimits&) {
  standin::scheduler->release(&values);
  values[place_.prefix + key] = value;
  standin::scheduler->news();
  standin::scheduler->maybe_let_others_run();
}

std::optional<std::string> Rendezvous::look_up(const std::string& key, const WaitLimits&) {
  standin::scheduler->asks_again(&values);
  standin::scheduler->maybe_let_others_run();
  standin::scheduler->acquire(&values);
  const auto found = values.find(place_.prefix + key);
  if (found != values.end()) return found->second;
  standin::scheduler->told_not_yet(&values);
  return std::nullopt;
}

std::string Rendezvous::get(const std::string& key, const WaitLimits& limits, const std::string& from_whom) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    if (auto value = look_up(key)) return *std::move(value);
    if (limits.stopped && limits.stopped()) throw Stopped{};
    if (std::chrono::steady_clock::now() - begin > limits.deadline) {
      throw std::runtime_error("nothing came from " + from_whom);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace penstock

// Replaces functions of the backend that a mutant breaks. The linker redirects their calls to this file
// (--wrap). Without a mutant, the function of the product is called.

using penstock::CudaEvent;
using penstock::FlatProgram;
using penstock::kNone;
using penstock::LinkSlots;
using penstock::WaitLimits;

LinkSlots real_link_slots(const FlatProgram& flat) asm("__real__ZN8penstock10link_slotsERKNS_11FlatProgramE");
LinkSlots wrapped_link_slots(const FlatProgram& flat) asm(
    "__wrap__ZN8penstock10link_slotsERKNS_11FlatProgramE");

/// With the mutant, all messages of a pair use the same slot, and no message waits for the previous one.
LinkSlots wrapped_link_slots(const FlatProgram& flat) {
  LinkSlots slots = real_link_slots(flat);
  if (standin::this_thread == nullptr || !standin::world().has_mutant("a slot is used again at once"))
    return slots;
  for (auto& [edge, count] : slots.count) count = 1;
  std::ranges::replace_if(slots.slot, [](std::int32_t slot) { return slot != kNone; }, 0);
  std::ranges::fill(slots.next, kNone);
  return slots;
}

void real_watch(const CudaEvent& event,
                const WaitLimits& limits) asm("__real__ZN8penstock5watchERKNS_9CudaEventERKNS_10WaitLimitsE");
void wrapped_watch(const CudaEvent& event, const WaitLimits& limits) asm(
    "__wrap__ZN8penstock5watchERKNS_9CudaEventERKNS_10WaitLimitsE");

void wrapped_watch(const CudaEvent& event, const WaitLimits& limits) {
  const bool breaks = standin::this_thread != nullptr &&
                      standin::world().has_mutant("a stamp is read before its event has passed");
  if (!breaks) real_watch(event, limits);
}

void real_wait_for(const penstock::StreamView& stream, const WaitLimits& limits) asm(
    "__real__ZN8penstock8wait_forERKNS_10StreamViewERKNS_10WaitLimitsE");
void wrapped_wait_for(const penstock::StreamView& stream, const WaitLimits& limits) asm(
    "__wrap__ZN8penstock8wait_forERKNS_10StreamViewERKNS_10WaitLimitsE");

void wrapped_wait_for(const penstock::StreamView& stream, const WaitLimits& limits) {
  const bool breaks =
      standin::this_thread != nullptr && standin::world().has_mutant("a copy is not waited for");
  if (!breaks) real_wait_for(stream, limits);
}

using Calibration = tl::expected<penstock::Program, std::string>;
Calibration real_calibration(const penstock::Program& like, const penstock::CalibrationShape& shape) asm(
    "__real__ZN8penstock19calibration_programB5cxx11ERKNS_7ProgramERKNS_16CalibrationShapeE");
Calibration wrapped_calibration(const penstock::Program& like, const penstock::CalibrationShape& shape) asm(
    "__wrap__ZN8penstock19calibration_programB5cxx11ERKNS_7ProgramERKNS_16CalibrationShapeE");

/// With the mutant, all costs are those of actions that run alone.
Calibration wrapped_calibration(const penstock::Program& like, const penstock::CalibrationShape& shape) {
  penstock::CalibrationShape asked = shape;
  if (standin::this_thread != nullptr && standin::world().has_mutant("costs are those of an idle GPU"))
    asked.load = penstock::CalibrationLoad::alone;
  return real_calibration(like, asked);
}

// Counts waits and allocations in the timed section. The section is execute(), up to the moment when a rank's
// thread has enqueued all its actions and waits for the end of its queue. The linker redirects both calls to
// this file (--wrap), so the product needs no change.

using Answer = tl::expected<penstock::Timeline, penstock::ExecutionError>;

Answer real_execute(const penstock::Execution& execution) asm("__real__ZN8penstock7executeERKNS_9ExecutionE");
Answer wrapped_execute(const penstock::Execution& execution) asm(
    "__wrap__ZN8penstock7executeERKNS_9ExecutionE");

Answer wrapped_execute(const penstock::Execution& execution) {
  if (standin::this_thread == nullptr) return real_execute(execution);
  standin::world().is_timed = true;
  standin::world().timed_waits = standin::world().timed_allocations = 0;
  standin::world().timed_bytes.clear();
  Answer answer = real_execute(execution);
  standin::world().is_timed = false;
  return answer;
}

void real_begin(penstock::LaunchAhead* ahead, std::int32_t position,
                const std::stop_token& stop) asm("__real__ZN8penstock11LaunchAhead5beginEiRKSt10stop_token");
void wrapped_begin(penstock::LaunchAhead* ahead, std::int32_t position, const std::stop_token& stop) asm(
    "__wrap__ZN8penstock11LaunchAhead5beginEiRKSt10stop_token");

/// Does not count the waits for room in the launch queue, which the product makes on purpose.
void wrapped_begin(penstock::LaunchAhead* ahead, std::int32_t position, const std::stop_token& stop) {
  if (standin::this_thread == nullptr) return real_begin(ahead, position, stop);
  const bool was_timed = std::exchange(standin::this_thread->timed, false);
  real_begin(ahead, position, stop);
  standin::this_thread->timed = was_timed;
}

void real_drain(penstock::LaunchAhead* ahead,
                const std::stop_token& stop) asm("__real__ZN8penstock11LaunchAhead5drainERKSt10stop_token");
void wrapped_drain(penstock::LaunchAhead* ahead, const std::stop_token& stop) asm(
    "__wrap__ZN8penstock11LaunchAhead5drainERKSt10stop_token");

void wrapped_drain(penstock::LaunchAhead* ahead, const std::stop_token& stop) {
  if (standin::this_thread != nullptr) standin::this_thread->timed = false;
  real_drain(ahead, stop);
}
