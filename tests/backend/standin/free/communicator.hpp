#pragma once
// Communicators between processes: stars of connections around the rank that made the unique id.

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

/// What a unique id holds.
struct Meeting {
  sockaddr_in address{};
  std::uint64_t number = 0;  ///< nobody else's
};
/// Listens there until the communicator's rank 0, of this process, takes over.
Meeting new_meeting();

enum class Deed : std::uint8_t { send, receive, sum, scatter, broadcast };

/// One rank's part.
struct Part {
  Deed deed = Deed::send;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
  int root = 0;
};

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  /// Null: the id is not of this process, which asks for rank 0.
  static std::shared_ptr<Communicator> join(const Meeting& meeting, int size, int rank);
  ~Communicator();

  int size() const { return size_; }
  int rank() const { return rank_; }
  /// As ncclCommGetAsyncError() says it.
  ncclResult_t state();
  /// Gives the part to the stream; the first of all is in progress until its peers have given theirs.
  ncclResult_t give(const Part& part, Stream& stream);
  /// In progress until its parts have left their streams.
  void finalize();
  /// Ends what is in flight here.
  void start_abort();
  /// Until its parts have left their streams.
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
  /// What it throws becomes the communicator's failure.
  void guarded(const std::function<void()>& work);
  /// Until the abort: NCCL's kernel, too, would stay where it is.
  void lose_peer();
  void connect(Purpose purpose, std::vector<Wire>& wires);
  void wait_for_data_wires();
  void carry_out(const Part& part);
  void send(const Part& part);
  void receive(const Part& part);
  // A collective, at rank 0 and at the others.
  void lead(const Part& part);
  void follow(const Part& part);

  Meeting meeting_;
  int size_;
  int rank_;
  Interrupt interrupt_;
  std::optional<Listener> listener_;  // of rank 0
  std::vector<Wire> control_;         // to rank 0, or to ranks 1, 2, ...: open as long as the communicator
  std::vector<Wire> data_;            // the same; made when it is first used
  std::thread background_;

  std::mutex mutex_;
  std::condition_variable changed_;
  ncclResult_t failure_ = ncclSuccess;
  bool is_used_ = false;  // of the calling thread alone
  bool is_busy_ = false;
  bool has_data_wires_ = false;
  bool is_finalizing_ = false;
  bool is_aborted_ = false;
  std::uint64_t pending_ = 0;  // parts that have not left their streams
};

}  // namespace standin
