#pragma once
// The `nccl` backend: one process a rank, each with its own GPU.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <tl/expected.hpp>

#include "backend/cuda/local_run.hpp"
#include "backend/executor/measured_run.hpp"
#include "backend/process/process_execution.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/check/user_error.hpp"

namespace penstock {

/// The place that a launcher gave this process.
struct NcclPlace {
  ProcessPlace process;
  std::int32_t device = 0;                   ///< number of its device on this host
  std::optional<std::uint16_t> agent_store;  ///< port of the launcher's own TCPStore, if it has one
  std::string store_prefix;                  ///< prefix of keys in that store
};

/// Reads what launched_place() reads. The device is LOCAL_RANK (torchrun), OMPI_COMM_WORLD_LOCAL_RANK or
/// SLURM_LOCALID, or the rank if none is set. Returns nothing if no launcher started this process. Error:
/// which variable is missing or wrong, or that the launcher started another number of processes than `ranks`.
tl::expected<std::optional<NcclPlace>, std::string> nccl_place(const Environment& environment,
                                                               std::int32_t ranks);

/// Calls measure() with the ranks in children of this process, which must have no other threads and must not
/// have started CUDA. With a `place`, the ranks are processes that a launcher has started, and only rank 0
/// gets a Result. `make` is called in each rank's process, and once here, without a place. Fails with
/// ErrorKind::not_available and the reason if there are fewer GPUs than ranks.
tl::expected<std::optional<Result>, UserError> run_on_nccl(const Experiment& experiment,
                                                           const PaceOfLinks& pace, const RunOptions& options,
                                                           const MakeCudaModules& make,
                                                           const std::optional<NcclPlace>& place);

// A listening socket that Penstock opens and another library takes over.

/// An owner of a listening socket. The destructor closes it.
class ListeningSocket {
 public:
  /// Opens the socket. If `port` is 0, the system chooses a free port. Error: the host does not have this
  /// address, or the port is in use.
  static tl::expected<ListeningSocket, std::string> open(const std::string& address, std::uint16_t port);

  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&& other) noexcept;
  ListeningSocket(const ListeningSocket&) = delete;
  ListeningSocket& operator=(const ListeningSocket&) = delete;
  ~ListeningSocket();

  std::uint16_t port() const { return port_; }
  /// Returns the socket without closing it. The caller becomes its owner.
  int release();

 private:
  ListeningSocket(int socket, std::uint16_t port) : socket_(socket), port_(port) {}
  int socket_ = -1;
  std::uint16_t port_ = 0;
};

}  // namespace penstock
