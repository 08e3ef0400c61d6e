// torchrun starts processes and tells them where to meet, but brings no MPI: processes that start alone are
// each a world of one to MPI, and Open MPI joins such worlds only where a common daemon runs. What a sweep
// says is little, so it goes over the sockets of `penstock run`:
//
//                     joining         gather                    first_says                   the work
//   rank 0  listens   <- rank of 1    <- text of 1   -> "read"    -> its text    <- "read"    <- tell, beats
//   -> rank 1  connects  -> its rank     -> its text    <- "read"    <- text of 0   -> "read"    -> tell,
//   beats <-
//
// All call the same functions in the same order, so a frame needs no name: the next one of a process is what
// is waited for. Whoever gathers waits until it has been read, since a process that ends drops what it has
// not sent.
//
// A thread of its own runs the loop: it hears of an end at once and beats every second, whatever the caller's
// thread is busy with, so that a process that says nothing for long is one that does not run.

#include "cli/socket_group.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
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
#include "text/numbers.hpp"

namespace penstock {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kJoining(60);           // until all have come
constexpr std::chrono::seconds kBeat(1);               // how often each says that it runs
constexpr std::chrono::milliseconds kTurn(100);        // of the loop's thread, at most
constexpr std::chrono::milliseconds kLastFrames(500);  // for what all must hear before this process ends
constexpr std::size_t kMostBytes = 1 + kMostSaid;      // of a frame
static_assert(kMostBytes <= kChunkBytes, "a frame is one chunk: a longer one is refused");

/// The first byte of a frame.
enum class Word : std::uint8_t {
  text,  // what was said; also "read", and the rank that joins
  end,   // of rank 0: all shall end, with the exit code that follows in decimal digits
  beat,  // nothing, to show that the process runs
  none,  // of a frame that is empty, or begins with anything else
};

Word word_of(const Frame& frame) {
  return frame.empty() ? Word::none : std::min(static_cast<Word>(frame.front()), Word::none);
}

Frame frame_of(Word word, const std::string& text) {
  Frame frame{static_cast<std::uint8_t>(word)};
  frame.insert(frame.end(), text.begin(), text.end());
  return frame;
}

/// This process among those of a launcher. Rank 0 is connected with each of the others, and these with it
/// alone.
class Meeting {
 public:
  explicit Meeting(const LaunchedProcess& process)
      : process_(process),
        loop_({.received = [this](ConnectionId from, Frame frame) { received(from, std::move(frame)); },
               .closed = [this](ConnectionId id, Closing) { closed(id); },
               .most_bytes = [](ConnectionId, const Frame&) { return kMostBytes; }}) {}
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;
  ~Meeting() {
    if (!thread_.joinable()) return;
    ends_ = true;
    loop_.interrupt();
    thread_.join();
  }

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
    tell(0, "");
    return said;
  }

  std::vector<std::string> gather(const std::string& text) {
    if (rank() != 0) {
      tell(0, text);
      next_of(0);
      return {};
    }
    std::vector<std::string> all{text};
    for (int other = 1; other < size(); ++other) all.push_back(next_of(other));
    tell_all(Word::text, "");
    return all;
  }

  void tell(int other, const std::string& text) { send(other, Word::text, text); }

  std::optional<Heard> hear(std::chrono::milliseconds patience) {
    std::optional<Heard> heard;
    wait_until([&] { return (heard = next_heard()).has_value(); }, steady_clock::now() + patience);
    if (heard && heard->what == Heard::What::said) heard->text = said_in(pop(heard->rank));
    return heard;
  }

  [[noreturn]] void abandon(ExitCode code) {
    const int number = static_cast<int>(code);
    tell_all(Word::end, std::to_string(number));
    // What has gone has heard it, or never will.
    wait_until([this] { return gone_.size() + 1 == static_cast<std::size_t>(size()); },
               steady_clock::now() + kLastFrames);
    end_at_once(number);
  }

 private:
  /// Points may be under way on other threads, which what is destroyed at an exit() would be taken from.
  [[noreturn]] static void end_at_once(int status) { std::_Exit(status); }

  // --- joining ----------------------------------------------------------------------------------------

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
    begin();
    if (wait_until([this] { return connection_of_.size() + 1 == static_cast<std::size_t>(size()); },
                   steady_clock::now() + kJoining))
      return {};
    const std::scoped_lock lock(mutex_);
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
    tell(0, std::to_string(rank()));
    begin();
    return {};
  }

  /// From now on frames of the connection are those of `other`.
  void meet(int other, ConnectionId connection) {
    connection_of_[other] = connection;
    rank_of_[connection] = other;
    last_heard_[other] = steady_clock::now();
  }

  // --- the loop's thread ------------------------------------------------------------------------------

  void begin() {
    thread_ = std::thread([this] {
      auto looked = steady_clock::now();
      for (auto next_beat = looked; !ends_;) {
        loop_.run_until(steady_clock::now() + kTurn);
        const auto now = steady_clock::now();
        // While this process was suspended itself, or the host too busy for it, nobody could be heard.
        if (now - looked > 2 * kBeat) forgive_silence(now - looked, now);
        look_for_silence(now);
        looked = now;
        if (now < next_beat) continue;
        beat();
        next_beat = now + kBeat;
      }
    });
  }

  void beat() {
    const std::scoped_lock lock(mutex_);
    for (const auto& [other, connection] : connection_of_) loop_.send(connection, frame_of(Word::beat, ""));
  }

  void forgive_silence(steady_clock::duration time, steady_clock::time_point now) {
    const std::scoped_lock lock(mutex_);
    for (auto& [other, last] : last_heard_) last = std::min(now, last + time);
  }

  void look_for_silence(steady_clock::time_point now) {
    const std::scoped_lock lock(mutex_);
    for (const auto& [other, last] : last_heard_) {
      if (now - last > kLongestSilence && silent_.insert(other).second) changed_.notify_all();
    }
  }

  /// A frame of one that is known is kept until it is asked for; the first one of any other is its rank. A
  /// rank that is none, or is there already, is turned away.
  void received(ConnectionId from, Frame frame) {
    const std::scoped_lock lock(mutex_);
    const auto known = rank_of_.find(from);
    if (known != rank_of_.end()) {
      last_heard_[known->second] = steady_clock::now();
      take(known->second, from, std::move(frame));
    } else {
      const int other = number_in(frame);
      // 0 is this process, -1 no number.
      const bool is_awaited = other > 0 && other < size() && !connection_of_.contains(other);
      if (is_awaited) {
        meet(other, from);
      } else {
        loop_.close(from);
      }
    }
    changed_.notify_all();
  }

  /// Of one that is known. With the lock held.
  void take(int other, ConnectionId from, Frame frame) {
    const Word word = word_of(frame);
    if (word == Word::beat) return;
    if (word == Word::text || (word == Word::end && other == 0)) {
      frames_[other].push_back(std::move(frame));
      return;
    }
    write_stderr(fmt::format(
        "penstock: process {} of {} is turned away: it has sent what none says that shares a sweep", other,
        size()));
    loop_.close(from);
    gone_.insert(other);
  }

  /// Whether that matters is seen where somebody waits for it: at the end all connections close.
  void closed(ConnectionId connection) {
    const std::scoped_lock lock(mutex_);
    const auto known = rank_of_.find(connection);
    if (known == rank_of_.end()) return;
    gone_.insert(known->second);
    changed_.notify_all();
  }

  // --- the caller's thread ----------------------------------------------------------------------------

  void send(int other, Word word, const std::string& text) {
    const std::scoped_lock lock(mutex_);
    loop_.send(connection_of_.at(other), frame_of(word, text.substr(0, kMostSaid)));
  }
  void tell_all(Word word, const std::string& text) {
    for (int other = 1; other < size(); ++other) send(other, word, text);
  }

  /// The number behind the frame's word; -1: none.
  static int number_in(const Frame& frame) {
    const std::string text(frame.begin() + (frame.empty() ? 0 : 1), frame.end());
    return leading_number<std::int32_t>(text).value.value_or(-1);
  }

  /// The text; ends this process where the frame says that all shall.
  static std::string said_in(const Frame& frame) {
    if (word_of(frame) == Word::end) end_at_once(failure_in(frame));
    return {frame.begin() + 1, frame.end()};
  }

  /// The exit code that all shall end with: that of a failure, whatever the frame says.
  static int failure_in(const Frame& frame) {
    const int number = number_in(frame);
    const int last = static_cast<int>(ExitCode::run_failed);
    return number >= static_cast<int>(ExitCode::check_failed) && number <= last ? number : last;
  }

  Frame pop(int other) {
    const std::scoped_lock lock(mutex_);
    Frame frame = std::move(frames_[other].front());
    frames_[other].pop_front();
    return frame;
  }

  /// What hear() says next, its text left out. Who has ended may have said something before. With the lock
  /// held.
  std::optional<Heard> next_heard() {
    for (const auto& [other, frames] : frames_) {
      if (!frames.empty()) return Heard{.rank = other, .what = Heard::What::said};
    }
    for (const auto& [other, connection] : connection_of_) {
      if (told_lost_.contains(other)) continue;
      const bool ended = gone_.contains(other);
      if (!ended && !silent_.contains(other)) continue;
      told_lost_.insert(other);
      return Heard{.rank = other, .what = ended ? Heard::What::ended : Heard::What::silent};
    }
    return std::nullopt;
  }

  /// What the process says next. Ends this one where the other has ended, is silent, or says that all shall.
  std::string next_of(int other) {
    wait_until([&] { return !frames_[other].empty() || gone_.contains(other) || silent_.contains(other); },
               steady_clock::time_point::max());
    bool is_said = false;
    bool has_ended = false;
    {
      const std::scoped_lock lock(mutex_);
      is_said = !frames_[other].empty();
      has_ended = gone_.contains(other);
    }
    if (is_said) return said_in(pop(other));
    write_stderr(
        fmt::format("penstock: process {} of {} ends, since process {} {}", rank(), size(), other,
                    has_ended ? "has" : fmt::format("has been silent for {} s", kLongestSilence.count())));
    end_at_once(static_cast<int>(ExitCode::run_failed));
  }

  /// False where `is_so`, which is asked with the lock held, is not before `until`.
  bool wait_until(const std::function<bool()>& is_so, steady_clock::time_point until) {
    std::unique_lock lock(mutex_);
    while (!is_so()) {
      const steady_clock::time_point now = steady_clock::now();
      if (now >= until) return false;
      // Not longer at once than a clock can count from now.
      changed_.wait_until(lock, std::min(until, now + kBeat));
    }
    return true;
  }

  LaunchedProcess process_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<int, ConnectionId> connection_of_;  // by rank: of those that have come; rank 0 alone in the others
  std::map<ConnectionId, int> rank_of_;
  std::map<int, std::deque<Frame>> frames_;  // by rank: what has been said and not been asked for
  std::map<int, steady_clock::time_point> last_heard_;
  std::set<int> silent_;
  std::set<int> gone_;
  std::set<int> told_lost_;  // of whose loss hear() has told
  SocketLoop loop_;
  std::atomic<bool> ends_ = false;
  std::thread thread_{};  // runs the loop
};

}  // namespace

tl::expected<ProcessGroup, std::string> joined_by_sockets(const LaunchedProcess& process) {
  const auto meeting = std::make_shared<Meeting>(process);
  if (auto joined = meeting->join(); !joined) return tl::unexpected(joined.error());
  return ProcessGroup{
      .rank = meeting->rank(),
      .size = meeting->size(),
      .first_says = [meeting](const std::string& text) { return meeting->first_says(text); },
      .gather = [meeting](const std::string& text) { return meeting->gather(text); },
      .tell = [meeting](int rank, const std::string& text) { meeting->tell(rank, text); },
      .hear = [meeting](std::chrono::milliseconds patience) { return meeting->hear(patience); },
      .abandon = [meeting](ExitCode code) { meeting->abandon(code); }};
}

}  // namespace penstock
