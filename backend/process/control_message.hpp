#pragma once
// Defines the messages between the coordinator and the workers. Encodes them to bytes, and decodes them.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <tl/expected.hpp>

#include "backend/executor/executor.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/transport.hpp"
#include "backend/process/socket_loop.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

// --- from a worker ----------------------------------------------------------------------------------

/// The message by which a worker asks to take part in a run.
struct Hello {
  std::int32_t rank = 0;
  std::int64_t process_id = 0;
  std::string digest;   ///< digest of the worker's program
  std::string boot_id;  ///< identifier of the present boot of the worker's host
  Endpoint data;        ///< address at which the worker accepts connections of other workers
};
/// The message that a worker sends regularly to show that it is alive. It contains the fields of the
/// worker's Progress.
struct Report {
  std::int32_t position = kNone;
  std::int32_t waits_for = kNone;
  Ns since_ns = 0;
  Ns at_ns = 0;  ///< host time at which the report was made
};
/// The message which says that a worker is ready for run number `run`. The worker is connected to its peers
/// and has built its modules.
struct Ready {
  std::int32_t run = 0;
};
/// The message which says that the rank has completed a run. `start` and `end` are the times of the rank's
/// positions in program order. `message_start` and `message_end` are the times of the messages that this
/// rank reports, in ascending order of numbers. A rank reports the transfers that it sends, and the
/// collectives of which it is the first member.
struct Done {
  std::int32_t run = 0;
  std::vector<Ns> start;
  std::vector<Ns> end;
  std::vector<Ns> message_start;
  std::vector<Ns> message_end;
  RankAccount account;
};
/// The message which says that the worker has failed and cannot continue.
struct Failed {
  Report standing;
  std::string what;
};
/// The first message on a connection between two workers. It states the sender's rank.
struct Greeting {
  std::int32_t rank = 0;
};

// --- from the coordinator ---------------------------------------------------------------------------

/// The message which says that all ranks have joined the run.
struct Welcome {
  std::vector<Endpoint> peers;  ///< addresses at which the ranks accept connections, by rank
};
/// The message that asks the worker to prepare a run.
struct Prepare {
  std::int32_t run = 0;
  Ns origin_ns = 0;  ///< time of the worker's host clock at which the clock of the run is 0
};
/// The message that asks the worker to start the run at `start_ns` of its host's clock.
struct Go {
  std::int32_t run = 0;
  Ns start_ns = 0;
};
/// The message that the coordinator sends regularly to show that it is alive.
struct Alive {};
/// The message which says that the run has failed.
struct Verdict {
  ExecutionError error;
};
/// The message which says that all runs have ended without a failure.
struct End {};
/// The message in which the coordinator asks for the present time of the worker's host clock. `sent_ns` is
/// the time of the coordinator's clock.
struct ClockQuestion {
  Ns sent_ns = 0;
};
/// The worker's immediate answer to the ClockQuestion that was sent at `sent_ns`. `shown_ns` is the time of
/// the worker's host clock.
struct ClockAnswer {
  Ns sent_ns = 0;
  Ns shown_ns = 0;
};

using ControlMessage = std::variant<Hello, Report, Ready, Done, Failed, Greeting, Welcome, Prepare, Go, Alive,
                                    Verdict, End, ClockQuestion, ClockAnswer>;

/// The sizes of a program, which limit the sizes of its control messages.
struct ProgramSizes {
  explicit ProgramSizes(const FlatProgram& flat);

  std::int32_t ranks = 0;
  std::int32_t positions = 0;         ///< number of actions in the lists of all ranks together
  std::int32_t messages = 0;          ///< total number of messages of the program
  std::int32_t microbatches = 0;      ///< number of microbatches of all iterations together
  std::size_t positions_of_rank = 0;  ///< number of actions in the longest list of a rank
};

/// The largest size of a control message in bytes, if its lists are empty. most_bytes_of() adds the sizes of
/// the lists that grow with the program.
inline constexpr std::size_t kMostControlBytes = kChunkBytes;

/// Returns the message as bytes. Texts that are too long for a message are cut.
Frame encoded(const ControlMessage& message);
/// Reads a message from its bytes. Checks all indices against the program, except the rank in Hello and the
/// ranks in Verdict. The error says what is wrong with the bytes.
tl::expected<ControlMessage, std::string> decoded(const Frame& frame, const ProgramSizes& sizes);
/// Returns the largest size in bytes of a message that begins with the bytes `beginning`.
std::size_t most_bytes_of(const Frame& beginning, const ProgramSizes& sizes);

// Converts the times of one rank to the message Done and back. Only worker.cpp and coordinator.cpp use it.

/// Returns the message Done, without its field `account`. `messages` has the times of the messages that the
/// rank reports (messages_of in socket_transport.hpp).
Done done_of(const FlatProgram& flat, std::int32_t rank, std::int32_t run, const ProgramTimes& times,
             const std::vector<MessageTime>& messages);

/// Returns the reason why the times in `done` are impossible for the rank. Returns nothing if they are
/// possible.
std::optional<std::string> fault_of(const FlatProgram& flat, std::int32_t rank, const Done& done);
/// Writes the times of one rank from `done` into `times`, which has the times of all ranks. Requires that
/// fault_of() returned nothing.
void put_among(ProgramTimes& times, const FlatProgram& flat, std::int32_t rank, const Done& done);

// Converts numbers, texts and lists of times to bytes and back. ByteReader never reads past the end. It never
// allocates more memory than the size of the bytes that have arrived.

template <typename T>
concept Number = std::is_arithmetic_v<T>;

/// A writer that appends values to a list of bytes. Numbers are written in the host's byte order. Hosts
/// with different byte orders refuse each other when they connect (socket_transport.cpp).
class ByteWriter {
 public:
  template <Number T>
  void number(T value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
  }
  /// Writes at most the first `most` bytes of the text.
  void text(std::string_view text, std::size_t most);
  void times(const std::vector<Ns>& times);

  std::vector<std::uint8_t> taken() { return std::move(bytes_); }

 private:
  std::vector<std::uint8_t> bytes_;
};

/// A reader of values in the order in which they were written. After the first missing or wrong value, all
/// reads return 0 or an empty value, and ended_well() returns false.
class ByteReader {
 public:
  /// Stores a reference to `bytes`, which must outlive this object.
  explicit ByteReader(std::span<const std::uint8_t> bytes) : rest_(bytes) {}

  template <Number T>
  T number() {
    T value{};
    if (const auto bytes = taken(sizeof(T)); !bytes.empty()) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  /// Reads a number. The read fails if the number is not between `least` and `most`.
  template <Number T>
  T number(T least, T most) {
    const T value = number<T>();
    if (value < least || value > most) fail();
    return failed_ ? least : value;
  }
  std::string text(std::size_t most);
  std::vector<Ns> times(std::size_t most);
  /// Reads the number of elements of a list. The read fails if this number is above `most`. It also fails
  /// if fewer bytes remain than that many elements of `size` bytes need.
  std::size_t count(std::size_t most, std::size_t size);

  void fail();
  /// Returns true if all values were present and correct, and no bytes are left.
  bool ended_well() const { return !failed_ && rest_.empty(); }

 private:
  std::span<const std::uint8_t> taken(std::size_t size);

  std::span<const std::uint8_t> rest_;
  bool failed_ = false;
};

}  // namespace penstock
