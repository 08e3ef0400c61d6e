// Encodes control messages. A message is one byte that gives the type, followed by the fields in order.
// Numbers are in the host's byte order. A text or list begins with its length. A message is refused if it has
// too few or too many bytes, or an index that the program does not have. In the following example, a rank
// reports at 6 s of its host's clock that it has waited at position 7 for message 2 since 5 s:
//
//     01 | 07 00 00 00 | 02 00 00 00 | 00 f2 05 2a 01 00 00 00 | 00 bc a0 65 01 00 00 00
//
// The functions write() and read() of a message list the fields in the same order. Tests:
// tests/backend/control_message_test.cpp.

#include "backend/process/control_message.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "backend/executor/executor.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/executor/transport.hpp"
#include "backend/process/clock_alignment.hpp"
#include "backend/process/socket_loop.hpp"
#include "backend/process/socket_transport.hpp"
#include "report/print/memory_category.hpp"
#include "report/result/result.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/rendezvous_walk.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {

namespace {

constexpr std::size_t kMostName = 256;  // largest number of bytes of a digest, boot id, address or action
constexpr std::size_t kMostSentence = 8'192;  // largest number of bytes of an error message

// --- writing --------------------------------------------------------------------------------------

void write(ByteWriter& to, const Endpoint& endpoint) {
  to.text(endpoint.address, kMostName);
  to.number(endpoint.port);
}

void write(ByteWriter& to, const Hello& hello) {
  to.number(hello.rank);
  to.number(hello.process_id);
  to.text(hello.digest, kMostName);
  to.text(hello.boot_id, kMostName);
  write(to, hello.data);
}

void write(ByteWriter& to, const Report& report) {
  to.number(report.position);
  to.number(report.waits_for);
  to.number(report.since_ns);
  to.number(report.at_ns);
}

void write(ByteWriter& to, const Ready& ready) { to.number(ready.run); }

void write(ByteWriter& to, const MemoryByCategory& memory) {
  for (const Bytes bytes : memory) to.number(bytes);
}

// Writes the account. The memory over time is not sent; only its peak is sent.
void write(ByteWriter& to, const RankAccount& account) {
  to.number(static_cast<std::uint32_t>(account.losses.size()));
  for (const auto& [microbatch, loss] : account.losses) {
    to.number(microbatch);
    to.number(loss);
  }
  to.number<std::uint8_t>(account.memory ? 1 : 0);
  if (!account.memory) return;
  to.number(account.memory->peak_bytes);
  to.text(account.memory->peak_action, kMostName);
  write(to, account.memory->at_peak);
  write(to, account.memory->peaks);
}

void write(ByteWriter& to, const Done& done) {
  to.number(done.run);
  to.times(done.start);
  to.times(done.end);
  to.times(done.message_start);
  to.times(done.message_end);
  write(to, done.account);
}

void write(ByteWriter& to, const Failed& failed) {
  write(to, failed.standing);
  to.text(failed.what, kMostSentence);
}

void write(ByteWriter& to, const Greeting& greeting) { to.number(greeting.rank); }

void write(ByteWriter& to, const Welcome& welcome) {
  to.number(static_cast<std::uint32_t>(welcome.peers.size()));
  for (const Endpoint& peer : welcome.peers) write(to, peer);
}

void write(ByteWriter& to, const Prepare& prepare) {
  to.number(prepare.run);
  to.number(prepare.origin_ns);
}

void write(ByteWriter& to, const Go& go) {
  to.number(go.run);
  to.number(go.start_ns);
}

void write(ByteWriter&, const Alive&) {}

void write(ByteWriter& to, const Verdict& verdict) {
  to.number(verdict.error.rank);
  to.text(verdict.error.action, kMostName);
  to.number(verdict.error.peer);
  to.text(verdict.error.message, kMostSentence);
}

void write(ByteWriter&, const End&) {}

void write(ByteWriter& to, const ClockQuestion& question) { to.number(question.sent_ns); }

void write(ByteWriter& to, const ClockAnswer& answer) {
  to.number(answer.sent_ns);
  to.number(answer.shown_ns);
}

// --- reading: fields in the order in which they are written -------------------------------------------

class MessageReader {
 public:
  MessageReader(const Frame& frame, const ProgramSizes& sizes) : from_(frame), sizes_(sizes) {}

  tl::expected<ControlMessage, std::string> message() {
    ControlMessage message = alternative(from_.number<std::uint8_t>());
    if (from_.ended_well()) return message;
    return tl::unexpected(std::string("not a message between coordinator and worker"));
  }

 private:
  template <std::size_t I = 0>
  ControlMessage alternative(std::size_t kind) {
    // The first byte is the index of the message's type in the variant. The recursion goes up to that index.
    if constexpr (I < std::variant_size_v<ControlMessage>) {
      if (kind != I) return alternative<I + 1>(kind);
      std::variant_alternative_t<I, ControlMessage> message;
      read(message);
      return message;
    } else {
      from_.fail();
      return Alive{};
    }
  }

  /// Reads a number without checking it: a rank, or the number of a run. The receiver checks it. The receiver
  /// answers a wrong rank with an error, and it ignores a message with the number of an old run.
  std::int32_t any() { return from_.number<std::int32_t>(); }
  std::int32_t index_below(std::int32_t count) { return from_.number<std::int32_t>(0, count - 1); }
  Ns moment() { return from_.number<Ns>(0, kLastNs); }

  void read(Endpoint& endpoint) {
    endpoint.address = from_.text(kMostName);
    endpoint.port = from_.number<std::uint16_t>();
  }
  void read(Hello& hello) {
    hello.rank = any();
    hello.process_id = from_.number<std::int64_t>();
    hello.digest = from_.text(kMostName);
    hello.boot_id = from_.text(kMostName);
    read(hello.data);
  }
  void read(Report& report) {
    report.position = from_.number<std::int32_t>(kNone, sizes_.positions);
    report.waits_for = from_.number<std::int32_t>(kNone, sizes_.messages - 1);
    report.since_ns = moment();
    report.at_ns = moment();
  }
  void read(Ready& ready) { ready.run = any(); }

  std::vector<Ns> times(std::size_t most) {
    std::vector<Ns> times = from_.times(most);
    if (std::ranges::any_of(times, [](Ns time) { return time < 0; })) from_.fail();
    return times;
  }
  void read(Done& done) {
    done.run = any();
    done.start = times(sizes_.positions_of_rank);
    done.end = times(sizes_.positions_of_rank);
    done.message_start = times(index(sizes_.messages));
    done.message_end = times(index(sizes_.messages));
    read(done.account);
  }
  void read(RankAccount& account) {
    const std::size_t losses = from_.count(sizes_.positions_of_rank, sizeof(std::int32_t) + sizeof(double));
    for (std::size_t i = 0; i < losses; ++i) {
      const std::int32_t microbatch = index_below(sizes_.microbatches);
      // write() takes the microbatches from a std::map, so their numbers must ascend in the message. This
      // check also excludes duplicates.
      if (!account.losses.empty() && microbatch <= account.losses.rbegin()->first) from_.fail();
      account.losses[microbatch] = from_.number<double>();
    }
    if (from_.number<std::uint8_t>(0, 1) == 0) return;
    account.memory.emplace();
    account.memory->peak_bytes = from_.number<Bytes>(0, std::numeric_limits<Bytes>::max());
    account.memory->peak_action = from_.text(kMostName);
    read(account.memory->at_peak);
    read(account.memory->peaks);
  }
  void read(MemoryByCategory& memory) {
    for (Bytes& bytes : memory) bytes = from_.number<Bytes>(0, std::numeric_limits<Bytes>::max());
  }
  void read(Failed& failed) {
    read(failed.standing);
    failed.what = from_.text(kMostSentence);
  }
  void read(Greeting& greeting) { greeting.rank = index_below(sizes_.ranks); }
  void read(Welcome& welcome) {
    welcome.peers.resize(from_.count(index(sizes_.ranks), sizeof(std::uint32_t) + sizeof(std::uint16_t)));
    for (Endpoint& peer : welcome.peers) read(peer);
    if (welcome.peers.size() != index(sizes_.ranks)) from_.fail();
  }
  void read(Prepare& prepare) {
    prepare.run = any();
    prepare.origin_ns = moment();
  }
  void read(Go& go) {
    go.run = any();
    go.start_ns = moment();
  }
  void read(Alive&) {}
  void read(Verdict& verdict) {
    verdict.error.rank = any();
    verdict.error.action = from_.text(kMostName);
    verdict.error.peer = any();
    verdict.error.message = from_.text(kMostSentence);
  }
  void read(End&) {}
  void read(ClockQuestion& question) { question.sent_ns = moment(); }
  void read(ClockAnswer& answer) {
    answer.sent_ns = moment();
    answer.shown_ns = moment();
  }

  ByteReader from_;
  const ProgramSizes& sizes_;
};

/// Returns the first byte of all messages of type `Message`. most_bytes_of() needs only this byte.
template <typename Message, std::size_t I = 0>
constexpr std::uint8_t kind_of() {
  if constexpr (std::is_same_v<Message, std::variant_alternative_t<I, ControlMessage>>) {
    return I;
  } else {
    return kind_of<Message, I + 1>();
  }
}

}  // namespace

ProgramSizes::ProgramSizes(const FlatProgram& flat)
    : ranks(flat.rank_count),
      positions(flat.position_count()),
      messages(static_cast<std::int32_t>(flat.messages.size())) {
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    positions_of_rank =
        std::max(positions_of_rank, index(flat.rank_begin[index(rank) + 1] - flat.rank_begin[index(rank)]));
  }
  for (const Action& action : flat.actions) microbatches = std::max(microbatches, action.microbatch + 1);
}

Frame encoded(const ControlMessage& message) {
  ByteWriter to;
  to.number(static_cast<std::uint8_t>(message.index()));
  std::visit([&](const auto& told) { write(to, told); }, message);
  return to.taken();
}

tl::expected<ControlMessage, std::string> decoded(const Frame& frame, const ProgramSizes& sizes) {
  return MessageReader(frame, sizes).message();
}

std::size_t most_bytes_of(const Frame& beginning, const ProgramSizes& sizes) {
  if (beginning.empty()) return 0;
  if (beginning.front() == kind_of<Done>()) {
    // Done has two times for each position and each message, and at most one loss for each position.
    const std::size_t of_position = 2 * sizeof(Ns) + sizeof(std::int32_t) + sizeof(double);
    return kMostControlBytes + sizes.positions_of_rank * of_position + index(sizes.messages) * 2 * sizeof(Ns);
  }
  if (beginning.front() == kind_of<Welcome>())
    return kMostControlBytes + index(sizes.ranks) * (kMostName + sizeof(std::uint64_t));
  return kMostControlBytes;
}

// Converts between the times of one rank and the times of the whole program. The positions of a rank are
// consecutive in the program, but the numbers of its messages are not:
//
//     positions   |  rank 0  |  rank 1  | ..        messages   0 . . 1 . 1 0 . ..
//
// A rank sends its list of position times and its list of message times without these numbers. The receiver
// finds the numbers in the program, and it checks all values before it uses them. Tests:
// tests/backend/clock_alignment_test.cpp.

namespace {

bool has_beyond_last(const std::vector<Ns>& times) {
  return std::ranges::any_of(times, [](Ns time) { return time > kLastNs; });
}

/// Returns true if the rank itself measures times for a position with this operation. The times of transfers
/// and collectives are reported as times of their messages instead.
bool has_own_times(FlatOp op) { return op == FlatOp::compute || op == FlatOp::reshard || op == FlatOp::wait; }

/// Returns an error if two actions of the rank overlap in time. A rank runs one action after another, so such
/// times are wrong.
std::optional<std::string> overlap_in(const FlatProgram& flat, std::int32_t rank, const Done& done) {
  const std::int32_t begin = flat.rank_begin[index(rank)];
  std::int32_t before = kNone;
  for (std::int32_t p = begin; p < flat.rank_begin[index(rank) + 1]; ++p) {
    if (!has_own_times(flat.ops[index(p)])) continue;
    if (before != kNone && done.start[index(p - begin)] < done.end[index(before - begin)]) {
      return fmt::format("it sent times by which {} starts before {} ends", to_text(flat.actions[index(p)]),
                         to_text(flat.actions[index(before)]));
    }
    before = p;
  }
  return std::nullopt;
}

/// Returns true if both lists have the same length and each end is not before its start.
bool in_order(const std::vector<Ns>& starts, const std::vector<Ns>& ends) {
  return std::ranges::equal(starts, ends, std::ranges::less_equal{});
}

}  // namespace

Done done_of(const FlatProgram& flat, std::int32_t rank, std::int32_t run, const ProgramTimes& times,
             const std::vector<MessageTime>& messages) {
  const std::int32_t begin = flat.rank_begin[index(rank)];
  const std::int32_t end = flat.rank_begin[index(rank) + 1];
  Done done{.run = run,
            .start = {times.start.begin() + begin, times.start.begin() + end},
            .end = {times.end.begin() + begin, times.end.begin() + end},
            .message_start = {},
            .message_end = {},
            .account = {}};
  for (const MessageTime& time : messages) {
    done.message_start.push_back(time.start_ns);
    done.message_end.push_back(time.end_ns);
  }
  return done;
}

std::optional<std::string> fault_of(const FlatProgram& flat, std::int32_t rank, const Done& done) {
  const std::size_t positions = index(flat.rank_begin[index(rank) + 1] - flat.rank_begin[index(rank)]);
  const std::size_t messages = messages_of(flat, rank).size();
  if (done.start.size() != positions || done.end.size() != positions ||
      done.message_start.size() != messages || done.message_end.size() != messages)
    return "it sent times of another program";
  if (!in_order(done.start, done.end) || !in_order(done.message_start, done.message_end))
    return "it sent an end that comes before its start";
  if (has_beyond_last(done.end) || has_beyond_last(done.message_end))
    return "it sent a time of more than 146 years";
  return overlap_in(flat, rank, done);
}

void put_among(ProgramTimes& times, const FlatProgram& flat, std::int32_t rank, const Done& done) {
  const std::int32_t begin = flat.rank_begin[index(rank)];
  std::ranges::copy(done.start, times.start.begin() + begin);
  std::ranges::copy(done.end, times.end.begin() + begin);
  const std::vector<std::int32_t> messages = messages_of(flat, rank);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    times.message_start[index(messages[i])] = done.message_start[i];
    times.message_end[index(messages[i])] = done.message_end[i];
  }
}

// A text or a list is written as its length in four bytes, followed by its content. Before the function that
// reads it allocates memory, it compares the length with the number of bytes that are present. A message of
// 16 bytes can therefore not make it allocate gigabytes.

void ByteWriter::text(std::string_view text, std::size_t most) {
  const std::string_view kept = text.substr(0, most);
  number(static_cast<std::uint32_t>(kept.size()));
  bytes_.insert(bytes_.end(), kept.begin(), kept.end());
}

void ByteWriter::times(const std::vector<Ns>& times) {
  number(static_cast<std::uint32_t>(times.size()));
  for (const Ns time : times) number(time);
}

std::span<const std::uint8_t> ByteReader::taken(std::size_t size) {
  if (failed_ || rest_.size() < size) {
    fail();
    return {};
  }
  const std::span<const std::uint8_t> bytes = rest_.first(size);
  rest_ = rest_.subspan(size);
  return bytes;
}

std::size_t ByteReader::count(std::size_t most, std::size_t size) {
  const std::size_t count = number<std::uint32_t>();
  if (count > most || count > rest_.size() / size) fail();
  return failed_ ? 0 : count;
}

std::string ByteReader::text(std::size_t most) {
  const std::span<const std::uint8_t> bytes = taken(count(most, 1));
  return {bytes.begin(), bytes.end()};
}

std::vector<Ns> ByteReader::times(std::size_t most) {
  std::vector<Ns> times(count(most, sizeof(Ns)));
  std::ranges::generate(times, [this] { return number<Ns>(); });
  return times;
}

void ByteReader::fail() {
  failed_ = true;
  // No bytes are left to read, so all later reads fail as well.
  rest_ = {};
}

}  // namespace penstock
