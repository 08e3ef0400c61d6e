// torchrun starts processes and tells them where to meet, but brings no MPI: processes that start alone are
// each a world of one to MPI, and Open MPI joins such worlds only where a common daemon runs. What a sweep
// says is little, so it goes over the sockets of `penstock run`:
//
//                     joining         gather                    first_says
//   rank 0  listens   <- rank of 1    <- text of 1   -> "read"    -> its text    <- "read" of all
//   rank 1  connects  -> its rank     -> its text    <- "read"    <- text of 0   -> "read"
//
// All call the same functions in the same order, so a frame needs no name: the next one of a process is what
// is waited for. Whoever says something waits until it has been read, since a process that ends drops what it
// has not sent.

#include "cli/socket_group.hpp"

#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/process/job_secret.hpp"
#include "backend/process/launch_environment.hpp"
#include "backend/process/process_execution.hpp"
#include "backend/process/socket_loop.hpp"
#include "cli/outcome.hpp"
#include "cli/output.hpp"
#include "cli/process_group.hpp"

namespace penstock {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kJoining(60);              // until all have come
constexpr std::size_t kMostBytes = std::size_t{1} << 32;  // of a frame: the points of a process, as lines

/// The first byte of a frame.
enum class Word : std::uint8_t {
  text,  // what was said; also "read", and the rank that joins
  end,   // all shall end, with the exit code that follows in decimal digits
};

Frame frame_of(Word word, const std::string& text) {
  Frame frame{static_cast<std::uint8_t>(word)};
  frame.insert(frame.end(), text.begin(), text.end());
  return frame;
}

/// This process among those of a launcher. Rank 0 is connected with each of the others, and these with it
/// alone. One thread, that of the caller, also runs the loop, while it waits.
class Meeting {
 public:
  explicit Meeting(const LaunchedProcess& process)
      : process_(process),
        loop_({.received = [this](ConnectionId from, Frame frame) { received(from, std::move(frame)); },
               .closed = [this](ConnectionId id, Closing) { closed(id); },
               .most_bytes = [](ConnectionId, const Frame&) { return kMostBytes; }}) {}

  int rank() const { return process_.place.rank; }
  int size() const { return process_.world_size; }

  /// Error: as joined_by_sockets() has it.
  tl::expected<void, std::string> join() { return rank() == 0 ? listen() : connect(); }

  std::string first_says(const std::string& text) {
    if (rank() == 0) {
      tell_all(Word::text, text);
      for (int other = 1; other < size(); ++other) next_of(other);  // each says that it has read it
      return text;
    }
    std::string said = next_of(0);
    tell(0, Word::text, "");
    return said;
  }

  std::vector<std::string> gather(const std::string& text) {
    if (rank() != 0) {
      tell(0, Word::text, text);
      next_of(0);
      return {};
    }
    std::vector<std::string> all{text};
    for (int other = 1; other < size(); ++other) all.push_back(next_of(other));
    tell_all(Word::text, "");
    return all;
  }

  [[noreturn]] void abandon(ExitCode code) {
    const int number = static_cast<int>(code);
    tell_all(Word::end, std::to_string(number));
    std::exit(number);  // NOLINT(concurrency-mt-unsafe): the points' threads have ended
  }

 private:
  /// Rank 0: takes the address, leaves the secret, and listens only then, so that who can connect finds it. A
  /// secret of its own lies in a file of this user's until all have come.
  tl::expected<void, std::string> listen() {
    const auto bound = loop_.bind(process_.place.coordinator);
    if (!bound) return tl::unexpected(bound.error());
    std::string secret = process_.place.secret;
    std::optional<SecretFile> file;  // until all have come
    if (secret.empty()) {
      secret = new_secret();
      auto left = SecretFile::leave(bound->port, secret);
      if (!left) return tl::unexpected(left.error());
      file = *std::move(left);
    }
    loop_.prove_with(secret);
    if (const auto listens = loop_.listen(); !listens) return tl::unexpected(listens.error());
    if (wait_until([this] { return connection_of_.size() + 1 == static_cast<std::size_t>(size()); },
                   steady_clock::now() + kJoining))
      return {};
    return tl::unexpected(fmt::format("waited {} s on {} for {} processes, of which {} came",
                                      kJoining.count(), to_text(*bound), size() - 1, connection_of_.size()));
  }

  /// The others: tell rank 0 who they are. That it has heard is not waited for: the first gather() shows it.
  tl::expected<void, std::string> connect() {
    const Endpoint& there = process_.place.coordinator;
    const auto connection = loop_.connect(there, steady_clock::now() + kJoining);
    if (!connection)
      return tl::unexpected(fmt::format("waited {} s for rank 0: {}", kJoining.count(), connection.error()));
    // Not before somebody listens there, who has left the secret by then.
    const auto secret = process_.place.secret.empty() ? left_secret(there.port) : process_.place.secret;
    if (!secret) {
      return tl::unexpected(
          fmt::format("{}; start all processes on one host as one user, or give them the "
                      "same PENSTOCK_SECRET",
                      secret.error()));
    }
    loop_.prove_with(*secret);
    meet(0, *connection);
    loop_.send(*connection, frame_of(Word::text, std::to_string(rank())));
    return {};
  }

  /// From now on frames of the connection are those of `other`.
  void meet(int other, ConnectionId connection) {
    connection_of_[other] = connection;
    rank_of_[connection] = other;
  }

  /// What fits into the system's buffers is on its way when it returns.
  void tell(int other, Word word, const std::string& text) {
    loop_.send(connection_of_.at(other), frame_of(word, text));
    loop_.run_until(steady_clock::now());
  }
  void tell_all(Word word, const std::string& text) {
    for (int other = 1; other < size(); ++other) tell(other, word, text);
  }

  /// A frame of one that is known is kept until it is asked for; the first one of any other is its rank. A
  /// rank that is none, or is there already, is turned away.
  void received(ConnectionId from, Frame frame) {
    loop_.interrupt();
    const auto known = rank_of_.find(from);
    if (known != rank_of_.end()) {
      frames_[known->second].push_back(std::move(frame));
      return;
    }
    const int other = number_in(frame);
    // 0 is this process, -1 no number.
    const bool is_awaited = other > 0 && other < size() && !connection_of_.contains(other);
    if (is_awaited) {
      meet(other, from);
    } else {
      loop_.close(from);
    }
  }

  /// Whether that matters is seen where somebody waits for it (next_of): at the end all connections close.
  void closed(ConnectionId connection) {
    loop_.interrupt();
    const auto known = rank_of_.find(connection);
    if (known != rank_of_.end()) gone_.insert(known->second);
  }

  /// The number behind the frame's word; -1: none.
  static int number_in(const Frame& frame) {
    int number = -1;
    const std::string text(frame.begin() + (frame.empty() ? 0 : 1), frame.end());
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
  }

  /// What the process says next. Ends this one where the other has ended, or says that all shall.
  std::string next_of(int other) {
    std::deque<Frame>& frames = frames_[other];
    wait_until([&] { return !frames.empty() || gone_.contains(other); }, steady_clock::time_point::max());
    if (frames.empty()) {
      write_stderr(
          fmt::format("penstock: process {} of {} ends, since process {} has", rank(), size(), other));
      std::exit(static_cast<int>(ExitCode::run_failed));  // NOLINT(concurrency-mt-unsafe): as above
    }
    const Frame frame = std::move(frames.front());
    frames.pop_front();
    if (frame.empty() || frame.front() != static_cast<std::uint8_t>(Word::text))
      std::exit(number_in(frame));  // NOLINT(concurrency-mt-unsafe): as above
    return {frame.begin() + 1, frame.end()};
  }

  /// False where `is_so` is not before `until`. Frames and ends interrupt the loop: it is asked at once then.
  bool wait_until(const std::function<bool()>& is_so, steady_clock::time_point until) {
    constexpr std::chrono::seconds kStep(1);
    while (!is_so()) {
      const steady_clock::time_point now = steady_clock::now();
      if (now >= until) return false;
      loop_.run_until(now + kStep);
    }
    return true;
  }

  LaunchedProcess process_;
  std::map<int, ConnectionId> connection_of_;  // by rank: of those that have come; rank 0 alone in the others
  std::map<ConnectionId, int> rank_of_;
  std::map<int, std::deque<Frame>> frames_;  // by rank: what has been said and not been asked for
  std::set<int> gone_;
  SocketLoop loop_;
};

}  // namespace

tl::expected<ProcessGroup, std::string> joined_by_sockets(const LaunchedProcess& process) {
  const auto meeting = std::make_shared<Meeting>(process);
  if (auto joined = meeting->join(); !joined) return tl::unexpected(joined.error());
  return ProcessGroup{.rank = meeting->rank(),
                      .size = meeting->size(),
                      .first_says = [meeting](const std::string& text) { return meeting->first_says(text); },
                      .gather = [meeting](const std::string& text) { return meeting->gather(text); },
                      .abandon = [meeting](ExitCode code) { meeting->abandon(code); }};
}

}  // namespace penstock
