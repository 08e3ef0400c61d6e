// Rank 0 listens at the meeting that the unique id names; the others connect to it, once when the
// communicator opens and once more when it is first used, since NCCL connects ranks at their first message. A
// transfer ends at both ends when the receiver has all of it. In a collective every rank tells rank 0 what it
// brings, and rank 0 tells each what comes out:
//
//   rank 1:  part ->                    <- result
//   rank 0:           takes all, sums              results
//   rank 2:  part ->                    <- result
//
// A peer that has gone shows by the end of its connection. What NCCL makes of it is not the same everywhere:
// PENSTOCK_STANDIN_LOST_PEER=silence waits for it for ever; otherwise the communicator fails with
// ncclRemoteError. Either way what is in flight stays on its stream until the abort.

#include "tests/backend/standin/free/communicator.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string_view>
#include <utility>

#include "tests/backend/standin/device_facts.hpp"

namespace standin {
namespace {

/// A peer's part does not fit.
struct Mismatch {};

/// What is told before the bytes.
struct Header {
  std::uint64_t count;
  ncclDataType_t type;
  int root;
  Deed deed;

  friend bool operator==(const Header&, const Header&) = default;
};

Header header_of(const Part& part, Deed deed) {
  return {.count = part.count, .type = part.type, .root = part.root, .deed = deed};
}

std::size_t bytes_of(const Part& part) { return part.count * standin::bytes_of(part.type); }

void expect(const Header& header, const Wire& wire, const Interrupt& interrupt) {
  if (wire.receive<Header>(interrupt) != header) throw Mismatch{};
}

/// By number: those whose rank 0 has not come yet.
struct Meetings {
  std::mutex mutex;
  std::map<std::uint64_t, Listener> listeners;
};
Meetings& meetings() {
  static Meetings all;
  return all;
}

bool says_that_peers_are_lost() {
  const char* asked = std::getenv("PENSTOCK_STANDIN_LOST_PEER");
  return asked == nullptr || std::string_view(asked) != "silence";
}

}  // namespace

Meeting new_meeting() {
  std::random_device random;
  Listener listener;
  const Meeting meeting{.address = listener.address(),
                        .number = static_cast<std::uint64_t>(random()) << 32 | random()};
  const std::scoped_lock lock(meetings().mutex);
  meetings().listeners.emplace(meeting.number, std::move(listener));
  return meeting;
}

std::shared_ptr<Communicator> Communicator::join(const Meeting& meeting, int size, int rank) {
  std::optional<Listener> listener;
  if (rank == 0) {
    const std::scoped_lock lock(meetings().mutex);
    auto node = meetings().listeners.extract(meeting.number);
    if (node.empty()) return nullptr;
    listener = std::move(node.mapped());
  }
  std::shared_ptr<Communicator> made(new Communicator(meeting, size, rank, std::move(listener)));
  made->in_background([self = made.get()] { self->connect(Purpose::control, self->control_); });
  return made;
}

Communicator::Communicator(const Meeting& meeting, int size, int rank, std::optional<Listener> listener)
    : meeting_(meeting), size_(size), rank_(rank), listener_(std::move(listener)) {}

Communicator::~Communicator() {
  interrupt_.set();
  if (background_.joinable()) background_.join();
}

/// One work at a time: whoever asks for more while it is under way is refused.
void Communicator::in_background(std::function<void()> work) {
  if (background_.joinable()) background_.join();
  {
    const std::scoped_lock lock(mutex_);
    is_busy_ = true;
  }
  background_ = std::thread([this, work = std::move(work)] {
    guarded(work);
    const std::scoped_lock lock(mutex_);
    is_busy_ = false;
    changed_.notify_all();
  });
}

void Communicator::guarded(const std::function<void()>& work) {
  try {
    work();
  } catch (const Aborted&) {  // it has been ended
  } catch (const PeerLost&) {
    lose_peer();
  } catch (const Mismatch&) {
    const std::scoped_lock lock(mutex_);
    failure_ = ncclInvalidUsage;
  }
}

void Communicator::lose_peer() {
  std::unique_lock lock(mutex_);
  if (says_that_peers_are_lost()) failure_ = ncclRemoteError;
  changed_.wait(lock, [this] { return is_aborted_; });
}

/// At rank 0 in the order of the others' ranks, whichever comes first; both ends then say a word.
void Communicator::connect(Purpose purpose, std::vector<Wire>& wires) {
  if (rank_ != 0) {
    wires.push_back(Wire::connect(meeting_.address, interrupt_));
    wires.back().send(Hello{.number = meeting_.number, .rank = rank_, .purpose = purpose}, interrupt_);
    static_cast<void>(wires.back().receive<char>(interrupt_));
    return;
  }
  std::map<int, Wire> come;
  while (std::ssize(come) < size_ - 1) {
    Wire wire = listener_->accept(control_, interrupt_);
    const auto hello = wire.receive<Hello>(interrupt_);
    if (hello.number != meeting_.number || hello.purpose != purpose) continue;
    come.emplace(hello.rank, std::move(wire));
  }
  for (auto& [rank, wire] : come) {
    wire.send('w', interrupt_);
    wires.push_back(std::move(wire));
  }
}

ncclResult_t Communicator::state() {
  const std::scoped_lock lock(mutex_);
  if (failure_ != ncclSuccess) return failure_;
  return is_busy_ || (is_finalizing_ && pending_ > 0) ? ncclInProgress : ncclSuccess;
}

ncclResult_t Communicator::give(const Part& part, Stream& stream) {
  if (const ncclResult_t now = state(); now != ncclSuccess) {
    return now == ncclInProgress ? ncclInvalidUsage : now;
  }
  if (!std::exchange(is_used_, true)) {
    in_background([this] {
      connect(Purpose::data, data_);
      const std::scoped_lock lock(mutex_);
      has_data_wires_ = true;
    });
  }
  {
    const std::scoped_lock lock(mutex_);
    ++pending_;
  }
  stream.give([self = shared_from_this(), part] {
    self->guarded([&] { self->carry_out(part); });
    const std::scoped_lock lock(self->mutex_);
    --self->pending_;
    self->changed_.notify_all();
  });
  return state();
}

void Communicator::finalize() {
  const std::scoped_lock lock(mutex_);
  is_finalizing_ = true;
}

void Communicator::start_abort() {
  interrupt_.set();
  const std::scoped_lock lock(mutex_);
  is_aborted_ = true;
  changed_.notify_all();
}

void Communicator::wait_until_aborted() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return pending_ == 0 && !is_busy_; });
}

void Communicator::wait_for_data_wires() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return has_data_wires_ || is_aborted_; });
  if (is_aborted_) throw Aborted{};
}

void Communicator::carry_out(const Part& part) {
  wait_for_data_wires();
  if (part.deed == Deed::send) {
    send(part);
  } else if (part.deed == Deed::receive) {
    receive(part);
  } else if (rank_ == 0) {
    lead(part);
  } else {
    follow(part);
  }
}

void Communicator::send(const Part& part) {
  const Wire& wire = data_.front();
  wire.send(header_of(part, Deed::send), interrupt_);
  wire.send(part.from, bytes_of(part), interrupt_);
  static_cast<void>(wire.receive<char>(interrupt_));
}

void Communicator::receive(const Part& part) {
  const Wire& wire = data_.front();
  expect(header_of(part, Deed::send), wire, interrupt_);
  wire.receive(part.to, bytes_of(part), interrupt_);
  wire.send('r', interrupt_);
}

/// What every rank brings: to a scattered sum a part for each, to a broadcast the same from the root alone.
void Communicator::lead(const Part& part) {
  const std::size_t bytes = bytes_of(part);
  const std::size_t parts = part.deed == Deed::scatter ? static_cast<std::size_t>(size_) : 1;
  std::vector<std::byte> result(parts * bytes);
  std::vector<std::byte> brought(result.size());
  std::memcpy(result.data(), part.from, result.size());
  for (std::size_t i = 0; i < data_.size(); ++i) {
    expect(header_of(part, part.deed), data_[i], interrupt_);
    data_[i].receive(brought.data(), brought.size(), interrupt_);
    const bool is_root = part.root == static_cast<int>(i) + 1;
    if (part.deed == Deed::broadcast) {
      if (is_root) result = brought;
    } else if (!add_to(result.data(), brought.data(), parts * part.count, part.type)) {
      throw Mismatch{};
    }
  }
  for (std::size_t i = 0; i < data_.size(); ++i) {
    data_[i].send(result.data() + (parts > 1 ? (i + 1) * bytes : 0), bytes, interrupt_);
  }
  std::memcpy(part.to, result.data(), bytes);
}

void Communicator::follow(const Part& part) {
  const Wire& wire = data_.front();
  const std::size_t parts = part.deed == Deed::scatter ? static_cast<std::size_t>(size_) : 1;
  wire.send(header_of(part, part.deed), interrupt_);
  wire.send(part.from, parts * bytes_of(part), interrupt_);
  wire.receive(part.to, bytes_of(part), interrupt_);
}

}  // namespace standin
