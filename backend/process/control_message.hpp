#pragma once
// Defines the messages between the coordinator and the workers, and encodes and decodes them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

#include "backend/executor/executor.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/process/socket_loop.hpp"
#include "schedules/check/flat_program.hpp"
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
/// The regular message that a worker is alive. It has the fields of the worker's Progress.
struct Report {
  std::int32_t position = kNone;
  std::int32_t waits_for = kNone;
  Ns since_ns = 0;
  Ns at_ns = 0;  ///< host time of the report
};
/// The message that a worker is connected to its peers and has built its modules, so that run number `run`
/// may start.
struct Ready {
  std::int32_t run = 0;
};
/// The message that the rank has completed a run. `start` and `end` are the times of the rank's positions in
/// program order. `message_start` and `message_end` are the times of the messages that this rank reports, in
/// ascending order of numbers. These are the transfers that it sends, and the collectives of which it is the
/// first member.
struct Done {
  std::int32_t run = 0;
  std::vector<Ns> start;
  std::vector<Ns> end;
  std::vector<Ns> message_start;
  std::vector<Ns> message_end;
  RankAccount account;
};
/// The message that the worker has failed and cannot continue.
struct Failed {
  Report standing;
  std::string what;
};
/// The first message on a connection between two workers.
struct Greeting {
  std::int32_t rank = 0;
};

// --- from the coordinator ---------------------------------------------------------------------------

/// The message that all ranks have joined.
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
/// The regular message that the coordinator is alive.
struct Alive {};
/// The message that the run has failed.
struct Verdict {
  ExecutionError error;
};
/// The message that all runs have ended without a failure.
struct End {};
/// The question for the present time of the worker's host clock. `sent_ns` is the time of the coordinator's
/// clock.
struct ClockQuestion {
  Ns sent_ns = 0;
};
/// The worker's immediate answer to the question that was sent at `sent_ns`. `shown_ns` is the time of its
/// host clock.
struct ClockAnswer {
  Ns sent_ns = 0;
  Ns shown_ns = 0;
};

using ControlMessage = std::variant<Hello, Report, Ready, Done, Failed, Greeting, Welcome, Prepare, Go, Alive,
                                    Verdict, End, ClockQuestion, ClockAnswer>;

/// The sizes of one program. They limit the sizes of its control messages.
struct ProgramSizes {
  explicit ProgramSizes(const FlatProgram& flat);

  std::int32_t ranks = 0;
  std::int32_t positions = 0;         ///< total number of positions in the lists of all ranks
  std::int32_t messages = 0;          ///< total number of messages of the program
  std::int32_t microbatches = 0;      ///< number of microbatches of all iterations together
  std::size_t positions_of_rank = 0;  ///< largest number of positions of one rank
};

/// The largest size of a control message, not counting the lists that grow with the program (see
/// most_bytes_of).
inline constexpr std::size_t kMostControlBytes = kChunkBytes;

/// Returns the bytes of a message. Texts that are too long for a message are cut.
Frame encoded(const ControlMessage& message);
/// Reads a message. All indices are checked against the program, except the rank in Hello and the ranks in
/// Verdict. Error: what is wrong with the bytes.
tl::expected<ControlMessage, std::string> decoded(const Frame& frame, const ProgramSizes& sizes);
/// Returns the largest number of bytes that a message may have if it begins with the bytes `beginning`.
std::size_t most_bytes_of(const Frame& beginning, const ProgramSizes& sizes);

}  // namespace penstock
