#pragma once
// The `nccl` backend: one process for each rank, each with its own GPU. cuda/local_run.hpp is the backend
// for GPUs in one process.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "backend/cuda/local_run.hpp"
#include "backend/cuda/self_test.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/process/process_execution.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/user_error.hpp"

namespace penstock {

/// The rank of this process in the job, its number on its host, and the launcher's own store, as the launcher
/// states them.
struct NcclPlace {
  ProcessPlace process;
  std::int32_t device = 0;  ///< number of this process on its host, which determines its GPU
  /// The number of the job's processes on this host; absent if the launcher does not state it.
  std::optional<std::int32_t> on_host{};
  std::optional<std::uint16_t> agent_store;  ///< port of the launcher's own TCPStore; absent if it has none
  std::string store_prefix;                  ///< prefix of all keys that Penstock writes to that store
};

/// Reads the variables that launched_place() reads, and the device number. The device number is LOCAL_RANK
/// (torchrun), OMPI_COMM_WORLD_LOCAL_RANK or SLURM_LOCALID. If none of these is set, it is the rank. The
/// number of processes on the host is LOCAL_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_SIZE or
/// SLURM_STEP_TASKS_PER_NODE. Returns nothing if no launcher started this process. Fails if a variable is
/// missing or wrong, or if the launcher did not start `ranks` processes.
tl::expected<std::optional<NcclPlace>, std::string> nccl_place(const Environment& environment,
                                                               std::int32_t ranks);

/// Measures the experiment with one process for each rank. Without a `place`, the ranks are forked from this
/// process, which must have no other threads and must not have started CUDA. With a `place`, a launcher has
/// started the ranks, and only rank 0 gets a Result. Each rank's process calls `make`. This process also
/// calls it once without a device. If a launched process sees only one GPU, the launcher has chosen it for
/// this process. Error ErrorKind::not_available: there are fewer GPUs than ranks.
tl::expected<std::optional<Result>, UserError> run_on_nccl(const Experiment& experiment,
                                                           const PaceOfLinks& pace, const RunOptions& options,
                                                           const MakeCudaModules& make,
                                                           const std::optional<NcclPlace>& place);

/// A listening socket that Penstock opens for another library. The destructor closes the socket unless
/// release() was called.
class ListeningSocket {
 public:
  /// Opens the socket. If `port` is 0, the system chooses a free port. Fails if the host does not have this
  /// address, or if the port is in use.
  static tl::expected<ListeningSocket, std::string> open(const std::string& address, std::uint16_t port);

  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&& other) noexcept;
  ListeningSocket(const ListeningSocket&) = delete;
  ListeningSocket& operator=(const ListeningSocket&) = delete;
  ~ListeningSocket();

  std::uint16_t port() const { return port_; }
  /// Returns the socket's descriptor and gives up its ownership. The caller must close it.
  int release();

 private:
  ListeningSocket(int socket, std::uint16_t port) : socket_(socket), port_(port) {}
  int socket_ = -1;
  std::uint16_t port_ = 0;
};

// Tests NCCL on the GPUs of this machine for `penstock selftest`. On several GPUs the test runs a small
// program, and on one GPU it makes the calls that work with a single rank.

/// Returns the experiment that the test runs. Its links take no time. Fails if `ranks` is less than 1.
tl::expected<Experiment, std::string> nccl_self_test_experiment(std::int32_t ranks);

/// Runs a 1F1B schedule with kernels of 2 ms and messages of 1 MiB. Returns a line such as "NCCL: 1f1b on 4
/// ranks took 41.2 ms, 40.0 ms of it without links". Fails if there are fewer than two GPUs
/// (ErrorKind::not_available), or if the ranks did not send the expected number of bytes. The calling
/// process must have no other threads and must not have started CUDA.
tl::expected<std::string, UserError> nccl_self_test();

/// Tests an NCCL communicator with a single rank: a message to itself, a sum, and the abort of an operation
/// that waits. All other tests need two ranks, and NCCL before 2.30 does not allow two ranks on one GPU.
/// Starts CUDA in this process.
std::vector<DeviceCheck> check_nccl_alone(std::int32_t device);

}  // namespace penstock
