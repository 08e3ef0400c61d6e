#pragma once
// Communicators between processes. All ranks have a connection to the rank that made the unique id.

#include <nccl.h>
#include <netinet/in.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tests/backend/standin/free/streams.hpp"
#include "tests/backend/standin/free/wires.hpp"

namespace standin {

/// The content of a unique id.
struct Meeting {
  sockaddr_in address{};
  std::uint64_t number = 0;  ///< a number that no other communicator has
};
/// Creates a meeting, and listens at its address until rank 0 of the communicator, which is in this process,
/// takes over.
Meeting new_meeting();

enum class Deed : std::uint8_t { send, receive, sum, scatter, gather };

/// The part of one rank in an operation.
struct Part {
  Deed deed = Deed::send;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
};

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  /// Joins a communicator. Returns null if this process wants to be rank 0 but did not make the id.
  static std::shared_ptr<Communicator> join(const Meeting& meeting, int size, int rank);
  ~Communicator();

  int size() const { return size_; }
  int rank() const { return rank_; }
  /// Returns the state for ncclCommGetAsyncError().
  ncclResult_t state();
  /// Enqueues the part on the stream. The first part is in progress until the peers have enqueued theirs.
  ncclResult_t give(const Part& part, Stream& stream);
  /// Begins to close the communicator. This is in progress until all its parts have left their streams.
  void finalize();
  /// Ends all operations of this rank that are in progress.
  void start_abort();
  /// Waits until all its parts have left their streams.
  void wait_until_aborted();

 private:
  enum class Purpose : std::uint8_t { control, data };
  struct Hello {
    std::uint64_t number;
    int rank;
    Purpose purpose;
  };

  Communicator(const Meeting& meeting, int size, int rank, std::optional<Listener> listener);
  void in_background(std::function<void()> work);
  /// Runs `work`. If it throws, the communicator fails.
  void guarded(const std::function<void()>& work);
  /// Waits until the abort, because a kernel of NCCL would also remain on its stream.
  void lose_peer();
  void connect(Purpose purpose, std::vector<Wire>& wires);
  void wait_for_data_wires();
  void carry_out(const Part& part);
  void send(const Part& part);
  void receive(const Part& part);
  // These functions run a collective at rank 0 and at the other ranks.
  void lead(const Part& part);
  void follow(const Part& part);

  Meeting meeting_;
  int size_;
  int rank_;
  Interrupt interrupt_;
  std::optional<Listener> listener_;  // only at rank 0
  // Connections to rank 0, or to ranks 1, 2, ...; open as long as the communicator.
  std::vector<Wire> control_;
  std::vector<Wire> data_;  // similar connections, which are made at the first use
  std::thread background_;

  std::mutex mutex_;
  std::condition_variable changed_;
  ncclResult_t failure_ = ncclSuccess;
  bool is_used_ = false;  // used only by the calling thread
  bool is_busy_ = false;
  bool has_data_wires_ = false;
  bool is_finalizing_ = false;
  bool is_aborted_ = false;
  std::uint64_t pending_ = 0;  // the number of parts that have not left their streams
};

}  // namespace standin
