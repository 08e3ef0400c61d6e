#pragma once
// The messages between the coordinator and the workers, and their encoding.

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

/// A worker asks to take part.
struct Hello {
  std::int32_t rank = 0;
  std::int64_t process_id = 0;
  std::string digest;   ///< digest of its program
  std::string boot_id;  ///< identifies its host's present boot
  Endpoint data;        ///< address at which it accepts connections of other workers
};
/// A sign of life with the worker's position, as in Progress.
struct Report {
  std::int32_t position = kNone;
  std::int32_t waits_for = kNone;
  Ns since_ns = 0;
  Ns at_ns = 0;  ///< host time of the report
};
/// The worker is connected to its peers and has built its modules. Run number `run` may start.
struct Ready {
  std::int32_t run = 0;
};
/// A run has ended well. It has the times of the rank's positions in program order. It also has the times, by
/// number, of the messages that the rank accounts for: transfers that it sends, and collectives of which it
/// is the first member.
struct Done {
  std::int32_t run = 0;
  std::vector<Ns> start;
  std::vector<Ns> end;
  std::vector<Ns> message_start;
  std::vector<Ns> message_end;
  RankAccount account;
};
/// The worker cannot go on.
struct Failed {
  Report standing;
  std::string what;
};
/// The first message on a connection between two workers.
struct Greeting {
  std::int32_t rank = 0;
};

// --- from the coordinator ---------------------------------------------------------------------------

/// All ranks have joined.
struct Welcome {
  std::vector<Endpoint> peers;  ///< by rank
};
/// Asks the worker to prepare a run.
struct Prepare {
  std::int32_t run = 0;
  Ns origin_ns = 0;  ///< time of the worker's host from which all clocks of the run count
};
/// Asks the worker to start at a moment of its host's clock.
struct Go {
  std::int32_t run = 0;
  Ns start_ns = 0;
};
/// A sign of life of the coordinator.
struct Alive {};
/// The run has failed.
struct Verdict {
  ExecutionError error;
};
/// All runs have ended well.
struct End {};
/// Asks what the worker's host clock shows. `sent_ns` is the time of the coordinator's clock.
struct ClockQuestion {
  Ns sent_ns = 0;
};
/// The worker's immediate answer to the question that was sent at `sent_ns`.
struct ClockAnswer {
  Ns sent_ns = 0;
  Ns shown_ns = 0;
};

using ControlMessage = std::variant<Hello, Report, Ready, Done, Failed, Greeting, Welcome, Prepare, Go, Alive,
                                    Verdict, End, ClockQuestion, ClockAnswer>;

/// The sizes of one program, which limit the sizes of its messages.
struct ProgramSizes {
  explicit ProgramSizes(const FlatProgram& flat);

  std::int32_t ranks = 0;
  std::int32_t positions = 0;         ///< positions of all ranks
  std::int32_t messages = 0;          ///< messages between all ranks
  std::int32_t microbatches = 0;      ///< microbatches of all iterations
  std::size_t positions_of_rank = 0;  ///< largest number of positions of one rank
};

/// Limit of a control message without the lists that grow with the program (most_bytes_of).
inline constexpr std::size_t kMostControlBytes = kChunkBytes;

/// Returns the bytes of a message. Texts are cut to the length that a message allows.
Frame encoded(const ControlMessage& message);
/// Reads a message. All indices are checked against the program (or are kNone where that is allowed), except
/// Hello's rank and those of a verdict. Error: what is wrong with the bytes.
tl::expected<ControlMessage, std::string> decoded(const Frame& frame, const ProgramSizes& sizes);
/// Returns the largest length of a message whose first bytes are these.
std::size_t most_bytes_of(const Frame& beginning, const ProgramSizes& sizes);

}  // namespace penstock
