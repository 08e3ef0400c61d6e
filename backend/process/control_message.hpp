#pragma once
// What the coordinator and the workers tell each other, and its form on the wire.

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
  std::string digest;   ///< of its program
  std::string boot_id;  ///< of its host since it was started
  Endpoint data;        ///< where it takes connections of other workers
};
/// A sign of life: where the worker stands, as in Progress.
struct Report {
  std::int32_t position = kNone;
  std::int32_t waits_for = kNone;
  Ns since_ns = 0;
  Ns at_ns = 0;  ///< host time of the report
};
/// Connected to its peers, modules built: run number `run` may start.
struct Ready {
  std::int32_t run = 0;
};
/// A run has ended well. Times of the rank's positions in program order, and of the messages that it
/// accounts for (transfers that it sends, collectives that it is the first member of) by number.
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
/// The first word on a connection between two workers.
struct Greeting {
  std::int32_t rank = 0;
};

// --- from the coordinator ---------------------------------------------------------------------------

/// Everybody has come.
struct Welcome {
  std::vector<Endpoint> peers;  ///< by rank
};
/// Make ready for that run.
struct Prepare {
  std::int32_t run = 0;
  Ns origin_ns = 0;  ///< time of the worker's host from which all clocks of the run count
};
/// Start at that moment of the worker's host.
struct Go {
  std::int32_t run = 0;
  Ns start_ns = 0;
};
/// A sign of life.
struct Alive {};
/// The run has failed.
struct Verdict {
  ExecutionError error;
};
/// All runs have ended well.
struct End {};
/// What does your host's clock show? Sent at that moment of the coordinator's.
struct ClockQuestion {
  Ns sent_ns = 0;
};
/// From a worker, at once: to the question of that moment, what it shows.
struct ClockAnswer {
  Ns sent_ns = 0;
  Ns shown_ns = 0;
};

using ControlMessage = std::variant<Hello, Report, Ready, Done, Failed, Greeting, Welcome, Prepare, Go, Alive,
                                    Verdict, End, ClockQuestion, ClockAnswer>;

/// How much of everything one program can give cause to say.
struct ProgramSizes {
  explicit ProgramSizes(const FlatProgram& flat);

  std::int32_t ranks = 0;
  std::int32_t positions = 0;         ///< of all ranks
  std::int32_t messages = 0;          ///< between all ranks
  std::int32_t microbatches = 0;      ///< of all iterations
  std::size_t positions_of_rank = 0;  ///< most of one rank
};

/// What is said is at most this long, but for lists that grow with the program (most_bytes_of).
inline constexpr std::size_t kMostControlBytes = kChunkBytes;

/// Texts that are longer than a message takes are cut.
Frame encoded(const ControlMessage& message);
/// All indices are within the program, or kNone where the message may have that; only Hello's rank and those
/// of a verdict are as they came. Error: what is wrong with the bytes.
tl::expected<ControlMessage, std::string> decoded(const Frame& frame, const ProgramSizes& sizes);
/// How long a message that begins so may be.
std::size_t most_bytes_of(const Frame& beginning, const ProgramSizes& sizes);

}  // namespace penstock
