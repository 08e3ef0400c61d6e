// The `nccl` backend. Processes are started as in cpu-process (backend/process). Each process has a whole
// GPU, and NCCL transfers the messages. First the processes connect to the coordinator over sockets. Then
// they exchange NCCL's unique ids through a TCPStore, whose port is the coordinator's port + 1. CUDA must not
// start before the fork, so each child opens its GPU at first use. Tests: tests/backend/standin.

#include "backend/nccl/nccl_run.hpp"

#include <nccl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/cuda/device_memory.hpp"
#include "backend/cuda/local_run.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/stream_queue.hpp"
#include "backend/cuda/workers.hpp"
#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/transport.hpp"
#include "backend/nccl/nccl_transport.hpp"
#include "backend/nccl/rendezvous.hpp"
#include "backend/nccl/session.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/socket_loop.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/ir/program.hpp"
#include "text/escaping.hpp"
#include "text/numbers.hpp"

namespace penstock {

namespace {

constexpr std::string_view kTransport = "nccl";
// The time limits of the start, if the user sets no deadline. NCCL opens the communicators of a rank at the
// same time, but each of them needs processors and connections of the host.
constexpr std::chrono::seconds kStepOfStart(30);
constexpr std::chrono::seconds kForEachCommunicator(1);
// No limit is shorter than this, because NCCL needs seconds to open a communicator.
constexpr std::chrono::seconds kLeastStepOfStart(5);
constexpr std::chrono::seconds kLeastPatience(90);

/// Returns the time limit of each step of the start: the user's deadline, or one that grows with the number
/// of communicators.
std::chrono::nanoseconds step_of_start(const RunOptions& options, const FlatProgram& flat) {
  if (options.deadline.count() > 0)
    return std::max<std::chrono::nanoseconds>(options.deadline, kLeastStepOfStart);
  return kStepOfStart + kForEachCommunicator * std::ssize(communicators_of(flat));
}

/// Returns the time for which the coordinator waits until all ranks are ready. They exchange unique ids, open
/// communicators and send the first messages.
std::chrono::nanoseconds patience_with(std::chrono::nanoseconds step) {
  return std::max<std::chrono::nanoseconds>(kLeastPatience, 3 * step);
}

tl::unexpected<UserError> unavailable(std::string_view why) {
  return user_error(ErrorKind::not_available, fmt::format("nccl: {}", why));
}

tl::unexpected<ExecutionError> failed(std::string message) {
  return tl::unexpected(ExecutionError{.rank = -1, .action = "the start", .message = std::move(message)});
}

/// Returns the index of this process's GPU among the GPUs that the process sees. If the process sees only one
/// GPU, the launcher has chosen it, as with `srun --gpus-per-task=1`.
std::int32_t device_of(const NcclPlace& place, std::int32_t devices, std::int32_t ranks_per_gpu) {
  return devices == 1 ? 0 : place.device / ranks_per_gpu;
}

/// The GPU resources of one rank's process. They are created at first use, after the fork. `workers_` is
/// declared first so that it is destroyed last: the modules' tensors use memory of its streams.
class RankHardware {
 public:
  RankHardware(std::int32_t device, std::int32_t rank, std::int32_t ranks, const MakeCudaModules& make)
      : workers_(CudaWorkers::whole_device(device)) {
    std::vector<std::optional<CudaPlace>> places(static_cast<std::size_t>(ranks));
    places[static_cast<std::size_t>(rank)] = workers_.place(0);
    auto modules = make(places);
    if (!modules) throw std::runtime_error(modules.error());
    modules_ = *std::move(modules);
  }

  const StreamView& compute() const { return workers_.place(0).stream; }
  const ModuleFamily& family() const { return *modules_.family; }
  const DeviceCodec* codec() const { return modules_.codec.get(); }

 private:
  CudaWorkers workers_;
  CudaModules modules_;
};

/// The data and the steps of one call of run_on_nccl().
class NcclRun {
 public:
  /// Prepares the run. `devices` is the number of GPUs that this process sees.
  NcclRun(const PreparedRun& run, const MakeCudaModules& make, const std::optional<NcclPlace>& place,
          std::int32_t devices)
      : run_(run),
        make_(make),
        place_(place),
        devices_(devices),
        step_(step_of_start(run.options, run.flat)),
        hardware_(static_cast<std::size_t>(run.flat.rank_count)) {}

  /// Opens the store's socket in this process, and then starts the ranks. Each rank's process makes its
  /// modules and transport with the functions in process_execution().
  tl::expected<std::vector<ExecutedRun>, ExecutionError> execute() {
    const bool hosts = !place_ || (place_->process.rank == 0 && !place_->agent_store);
    const Endpoint meeting = place_ ? place_->process.coordinator : Endpoint{};
    store_.address = place_ ? meeting.address : "127.0.0.1";
    const auto port = store_port();
    if (!port) return failed(port.error());
    store_.port = *port;
    if (place_) store_.prefix = place_->store_prefix;
    if (hosts) {
      auto socket = ListeningSocket::open(store_.address, store_.port);
      if (!socket) return failed(socket.error() + " (the store of unique ids); give all ranks another port");
      // Port 0 lets the system choose a free port. The ranks must connect to the port that the system has
      // chosen, so it is stored here.
      store_.port = socket->port();
      socket_ = *std::move(socket);
    }
    prepare_nccl_environment({.address = store_.address,
                              .launch_order = run_.options.launch_order,
                              .shares_gpus = run_.options.ranks_per_gpu > 1});
    ask_for_hardware_queues(run_.options.ranks_per_gpu);
    const ProcessExecution execution = process_execution();
    return place_ ? execute_as_rank(execution, place_->process) : execute_in_processes(execution);
  }

 private:
  /// Returns the port of the store. If the launcher has its own store, it is the port of that store.
  /// Otherwise it is the coordinator's port + 1. Without a launcher it is 0, which means any free port.
  tl::expected<std::uint16_t, std::string> store_port() const {
    if (!place_) return 0;
    if (place_->agent_store) return *place_->agent_store;
    return port_after(place_->process.coordinator);
  }

  ProcessExecution process_execution() {
    return {.program = run_.experiment.program,
            .flat = run_.flat,
            .modules = [this](std::int32_t rank,
                              const Clock& clock) { return hardware(rank).family().modules(rank, clock); },
            .time_scale = run_.options.time_scale,
            .runs = run_.runs(),
            .deadline = run_.deadline,
            .patience = patience_with(step_),
            .patience_to_join = patience_to_join(run_.options),
            .finished =
                [this](std::int32_t rank, const StageModules& modules) {
                  return hardware(rank).family().account(rank, modules);
                },
            .transport = [this](std::int32_t rank,
                                const std::function<bool()>& stopped) { return transports(rank, stopped); },
            .forked = [this] { socket_.reset(); },
            .progress = [this](std::size_t done) { run_.report_finished(done); }};
  }

  RankHardware& hardware(std::int32_t rank) {
    const std::int32_t device =
        place_ ? device_of(*place_, devices_, run_.options.ranks_per_gpu) : rank / run_.options.ranks_per_gpu;
    auto& of_rank = hardware_[static_cast<std::size_t>(rank)];
    if (of_rank == nullptr) {
      of_rank = std::make_unique<RankHardware>(device, rank, run_.flat.rank_count, make_);
    }
    // In CUDA, each thread has its own current device, and an earlier call may have run on another thread.
    use_device(device);
    return *of_rank;
  }

  MakeRankTransport transports(std::int32_t rank, const std::function<bool()>& stopped) {
    RendezvousPlace store = store_;
    if (rank == 0 && socket_) store.socket = socket_->release();
    // Only rank 0 may hold this socket. If another process held it too, ranks could still connect after rank
    // 0 has ended.
    socket_.reset();
    const StreamView compute = hardware(rank).compute();
    const auto session =
        std::make_shared<NcclSession>(NcclSessionParts{.flat = run_.flat,
                                                       .costs = run_.experiment.costs,
                                                       .scatters = run_.experiment.program.sharding > 0,
                                                       .rank = rank,
                                                       .device = compute.device,
                                                       .codec = hardware(rank).codec(),
                                                       .store = store,
                                                       .stopped = stopped,
                                                       .max_ctas = most_ctas(run_.options.ranks_per_gpu),
                                                       .checks_gpus = place_.has_value(),
                                                       .ranks_per_gpu = run_.options.ranks_per_gpu,
                                                       .deadline = step_});
    agree_on_layouts(rank, *session);
    session->make_ready();
    return [this, rank, session, compute, counts = std::make_shared<LaunchCounts>()](const RankRun& run) {
      return over_nccl(run, rank, session, compute, counts);
    };
  }

  /// Runs the rank's list once without tensors, so that the ranks learn the layouts (types and sizes) of
  /// payloads. Null payloads have no layout, so this run is not needed for them.
  void agree_on_layouts(std::int32_t rank, NcclSession& session) {
    const DeviceCodec* codec = hardware(rank).codec();
    if (codec == nullptr) return;
    const SteadyClock clock(run_.options.time_scale);
    StageModules modules = hardware(rank).family().modules(rank, clock);
    rehearse({.program = run_.experiment.program,
              .flat = run_.flat,
              .rank = rank,
              .modules = modules,
              .clock = clock,
              .compute = hardware(rank).compute(),
              .codec = *codec,
              .layouts = session.layouts(),
              .limits = session.limits()});
  }

  RankTransport over_nccl(const RankRun& run, std::int32_t rank, const std::shared_ptr<NcclSession>& session,
                          const StreamView& compute, const std::shared_ptr<LaunchCounts>& counts) {
    auto owned = std::make_unique<NcclTransport>(NcclTransportParts{.flat = run_.flat,
                                                                    .rank = rank,
                                                                    .clock = run.clock,
                                                                    .time_scale = run_.options.time_scale,
                                                                    .compute = compute,
                                                                    .session = *session,
                                                                    .codec = hardware(rank).codec()});
    NcclTransport& transport = *owned;
    const DeviceTime device_time(run.clock, run_.options.time_scale, compute, session->limits().stopped);
    return {.queue = std::make_unique<StreamQueue>(run_.flat, rank, compute, counts, device_time),
            .transport = std::move(owned),
            .own_times = [&transport] { return transport.own_times(); }};
  }

  const PreparedRun& run_;
  const MakeCudaModules& make_;
  const std::optional<NcclPlace>& place_;
  std::int32_t devices_;
  std::chrono::nanoseconds step_;  // time limit of each step of the start
  RendezvousPlace store_;
  std::optional<ListeningSocket> socket_;
  // GPU resources of each rank; null for ranks of other processes.
  std::vector<std::unique_ptr<RankHardware>> hardware_;
};

/// Returns why this host has too few GPUs for its processes, or nothing if it has enough.
std::optional<std::string> lack_on_host(std::int32_t devices, std::int32_t ranks_per_gpu,
                                        const NcclPlace& place) {
  const std::int32_t processes = place.on_host.value_or(place.device + 1);
  if (processes <= devices * ranks_per_gpu) return std::nullopt;
  return fmt::format(
      "this host has {} for {} of the job; start as many as there are GPUs, or place several on "
      "each with --ranks-per-gpu {}",
      format_count(devices, "GPU"),
      place.on_host ? fmt::format("{} processes", processes) : fmt::format("process number {}", place.device),
      (processes + devices - 1) / devices);
}

/// Returns the reason why the machine has too few GPUs for the ranks, or nothing if it has enough.
std::optional<std::string> lack_of_devices(std::int32_t devices, std::int32_t ranks,
                                           std::int32_t ranks_per_gpu,
                                           const std::optional<NcclPlace>& place) {
  // If each process sees only one GPU, this function cannot compare the GPUs of different processes. The
  // session later finds processes that see the same GPU.
  if (place && devices > 1) return lack_on_host(devices, ranks_per_gpu, *place);
  const std::int32_t needed = (ranks + ranks_per_gpu - 1) / ranks_per_gpu;
  if (!place && needed > devices) {
    if (ranks_per_gpu > 1) {
      return fmt::format("{}, {} on each GPU, need {}, this machine has {}", format_count(ranks, "rank"),
                         ranks_per_gpu, format_count(needed, "GPU"), devices);
    }
    return fmt::format(
        "{} need as many GPUs, this machine has {}; --backend cuda-local cuts one GPU into workers",
        format_count(ranks, "rank"), devices);
  }
  return std::nullopt;
}

// The first NCCL that allows several ranks on a GPU (NCCL_MULTI_RANK_GPU_ENABLE).
constexpr int kLeastVersionForSharing = 23000;

int nccl_version() {
  int version = 0;
  static_cast<void>(ncclGetVersion(&version));
  return version;
}

std::string version_in_words(int version) {
  return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

/// Returns the reason why NCCL cannot place several ranks on a GPU. Returns nothing if it can or if each
/// rank has its own GPU.
std::optional<std::string> lack_of_sharing(std::int32_t ranks_per_gpu) {
  const int version = nccl_version();
  if (ranks_per_gpu == 1 || version >= kLeastVersionForSharing) return std::nullopt;
  return fmt::format("--ranks-per-gpu {} needs NCCL 2.30.0 or newer, this is {}", ranks_per_gpu,
                     version_in_words(version));
}

/// Returns the reason why kernels that wait for their peers could fill a GPU, or nothing if they cannot.
/// Without launch order, each communicator may have a waiting kernel on the GPU, and each CTA of this
/// kernel holds an SM. If all together hold at most half of the SMs, then every other kernel can start.
std::optional<std::string> lack_of_sms(const FlatProgram& flat, const RunOptions& options, std::int32_t sms) {
  const std::int32_t ctas = most_resident_ctas(flat, options.ranks_per_gpu);
  if (options.launch_order || 2 * ctas <= sms) return std::nullopt;
  const std::int32_t each = most_ctas(options.ranks_per_gpu);
  return fmt::format(
      "nccl: one GPU has {} ends of communicators with {} CTAs each. They can hold {} of its {} SMs while "
      "they "
      "wait, which is more than half; --launch-order on starts kernels in the order of their launches "
      "instead",
      ctas / each, each, ctas, sms);
}

/// Returns the notes that state the settings of NCCL, on which the measured times depend.
std::vector<std::string> nccl_notes(const RunOptions& options) {
  std::vector<std::string> notes;
  notes.push_back(fmt::format(
      "{}: at most {} for each communicator, launch order {}", version_in_words(nccl_version()),
      format_count(most_ctas(options.ranks_per_gpu), "CTA"), options.launch_order ? "on" : "off"));
  if (options.ranks_per_gpu > 1) {
    notes.push_back(fmt::format(
        "a rehearsal: {} processes share each GPU and all of its SMs, so times show what NCCL does "
        "and not what as many GPUs would take",
        options.ranks_per_gpu));
  }
  return notes;
}

/// Returns true if a list states a group of transfers.
bool states_groups(const Program& program) {
  return std::ranges::any_of(program.ranks, [](const std::vector<Action>& list) {
    return std::ranges::any_of(
        list, [](const Action& action) { return is_transfer(action.kind) && action.overlaps_next; });
  });
}

/// Adds the cause to the error if the ranks launched NCCL operations in an order that hangs. A waiting rank
/// does not see which rank blocks the others, but the checker can find it.
UserError with_launch_order(UserError error, const Experiment& experiment, ChannelOptions channels) {
  if (error.kind != ErrorKind::run_failed) return error;
  channels.launch_order = true;
  if (const auto hang = find_hang(experiment.program, channels, experiment.costs)) {
    error.message += fmt::format(
        "; where NCCL's kernels start in the order of their launches, the program {}", hang->message);
  }
  return error;
}

tl::expected<std::int32_t, std::string> local_rank(const Environment& environment, std::int32_t rank) {
  for (const char* name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}) {
    const char* value = environment(name);
    if (value == nullptr) continue;
    const std::string_view text(value);
    const auto number = number_of_text<std::int32_t>(text);
    if (number && *number >= 0) return *number;
    return tl::unexpected(
        fmt::format("{}: expected a number of 0 or more, got \"{}\"", name, shown_name(text)));
  }
  return rank;
}

/// Returns the number of processes that the launcher has started on this host, or nothing if the launcher
/// does not state it. Slurm writes "8", or "8(x2)" for two hosts with 8 processes each. A text with a comma
/// states different numbers for its hosts, so the function returns nothing.
std::optional<std::int32_t> processes_on_host(const Environment& environment) {
  for (const char* name : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_STEP_TASKS_PER_NODE"}) {
    const char* value = environment(name);
    if (value == nullptr) continue;
    const std::string_view text(value);
    if (text.find(',') != std::string_view::npos) return std::nullopt;
    return number_of_text<std::int32_t>(text.substr(0, text.find('(')));
  }
  return std::nullopt;
}

/// Makes `place` use the key-value store of torchrun's agent. This store survives restarts of the job, so the
/// prefix of the keys contains the number of restarts.
void use_agent_store(NcclPlace& place, const Environment& environment) {
  place.agent_store = agent_store_port(environment);
  if (!place.agent_store) return;
  const char* restart = environment("TORCHELASTIC_RESTART_COUNT");
  place.store_prefix = fmt::format("penstock/{}/", restart == nullptr ? "0" : restart);
}

}  // namespace

tl::expected<std::optional<NcclPlace>, std::string> nccl_place(const Environment& environment,
                                                               std::int32_t ranks) {
  const auto launched = launched_place(environment, ranks);
  if (!launched) return tl::unexpected(launched.error());
  if (!*launched) return std::nullopt;
  const auto device = local_rank(environment, (*launched)->rank);
  if (!device) return tl::unexpected(device.error());
  NcclPlace place{.process = **launched,
                  .device = *device,
                  .on_host = processes_on_host(environment),
                  .agent_store = std::nullopt,
                  .store_prefix = ""};
  use_agent_store(place, environment);
  return place;
}

tl::expected<std::optional<Result>, UserError> run_on_nccl(const Experiment& experiment,
                                                           const PaceOfLinks& pace, const RunOptions& asked,
                                                           const MakeCudaModules& make,
                                                           const std::optional<NcclPlace>& place) {
  auto channels = declared_channels(experiment.channels, kTransport);
  if (!channels) return user_error(ErrorKind::check_failed, channels.error());
  RunOptions options = asked;
  options.launch_order |= experiment.channels.launch_order;
  channels->launch_order = options.launch_order;
  if (options.launch_order && !channels->waits() && states_groups(experiment.program)) {
    return user_error(
        ErrorKind::bad_input,
        "nccl: --launch-order on does not go with groups of transfers (GROUP) in the lists, which "
        "are launched together; leave it out");
  }
  if (const auto hang = find_hang(experiment.program, *channels, experiment.costs)) {
    return user_error(ErrorKind::check_failed, hang->message);
  }
  const std::int32_t ranks = experiment.program.rank_count();
  // These modules have no GPU. They are made only to read the family's description.
  const auto description = make(std::vector<std::optional<CudaPlace>>(static_cast<std::size_t>(ranks)));
  if (!description) return unavailable(description.error());
  // The GPUs are counted after the call of `make`. If `make` has started CUDA in this process, the counting
  // child fails as the ranks would. The run then ends here with that reason.
  const auto machine = cuda_device_count_by_child();
  if (!machine) return unavailable(machine.error());
  if (const auto lack = lack_of_devices(machine->devices, ranks, options.ranks_per_gpu, place))
    return unavailable(*lack);
  if (const auto lack = lack_of_sharing(options.ranks_per_gpu)) return unavailable(*lack);
  auto result = measure(
      experiment, pace, options, *description->family,
      {.engine = "nccl",
       .transport = kTransport,
       .channels = *channels,
       .execute =
           [&](const PreparedRun& run) { return NcclRun(run, make, place, machine->devices).execute(); },
       .refusal = [&](const FlatProgram& flat) { return lack_of_sms(flat, options, machine->least_sms); }});
  if (!result) return tl::unexpected(with_launch_order(std::move(result.error()), experiment, *channels));
  if (*result) {
    for (std::string& note : nccl_notes(options)) (*result)->notes.push_back(std::move(note));
  }
  return result;
}

// Opens a listening socket, whose ownership then passes to another library. It would not be safe to pass only
// the number of a free port, because another process could use that port first.

namespace {

// The largest number of connections that wait to be accepted. All ranks connect at once, and the kernel drops
// connections beyond this number.
constexpr int kBacklog = 1024;

tl::unexpected<std::string> failed(const std::string& address, std::uint16_t port, const std::string& why) {
  return tl::unexpected("cannot listen on " + address + ":" + std::to_string(port) + ": " + why);
}

/// Returns the first IPv4 address of a host name, combined with the port. Returns nothing if the host has
/// no such address.
std::optional<sockaddr_in> numbers_of(const std::string& address, std::uint16_t port) {
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), nullptr, &wanted, &found) != 0 || found == nullptr) return std::nullopt;
  sockaddr_in numbers{};
  std::memcpy(&numbers, found->ai_addr, sizeof(numbers));
  freeaddrinfo(found);
  numbers.sin_port = htons(port);
  return numbers;
}

}  // namespace

tl::expected<ListeningSocket, std::string> ListeningSocket::open(const std::string& address,
                                                                 std::uint16_t port) {
  auto numbers = numbers_of(address, port);
  if (!numbers) return failed(address, port, "no such address");
  ListeningSocket opened(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port);
  if (opened.socket_ < 0) return failed(address, port, std::strerror(errno));
  const int yes = 1;
  // NOLINTNEXTLINE(misc-include-cleaner): <sys/socket.h> has them
  setsockopt(opened.socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  auto* where = reinterpret_cast<sockaddr*>(&*numbers);
  socklen_t length = sizeof(*numbers);
  if (bind(opened.socket_, where, length) != 0 || listen(opened.socket_, kBacklog) != 0 ||
      getsockname(opened.socket_, where, &length) != 0) {
    return failed(address, port, std::strerror(errno));
  }
  opened.port_ = ntohs(numbers->sin_port);
  return opened;
}

ListeningSocket::ListeningSocket(ListeningSocket&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), port_(other.port_) {}

ListeningSocket& ListeningSocket::operator=(ListeningSocket&& other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(port_, other.port_);
  return *this;
}

ListeningSocket::~ListeningSocket() {
  if (socket_ >= 0) close(socket_);
}

int ListeningSocket::release() { return std::exchange(socket_, -1); }

}  // namespace penstock
