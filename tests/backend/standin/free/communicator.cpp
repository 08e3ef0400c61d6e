// Rank 0 listens at the address in the unique id. The other ranks connect to it when the communicator opens,
// and again when it is first used, because NCCL connects ranks at their first message. A transfer ends on
// both ranks when the receiver has all bytes. In a collective, every rank sends its part to rank 0, and rank
// 0 sends the result to each rank:
//
//   rank 1:  part ->                    <- result
//   rank 0:           takes all, sums              results
//   rank 2:  part ->                    <- result
//
// If a peer ends, its connection closes. NCCL's reaction differs between systems. With
// PENSTOCK_STANDIN_LOST_PEER=silence, the communicator waits for ever. Otherwise it fails with
// ncclRemoteError. In both cases, started operations remain on their streams until the abort.

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

/// Thrown if the part of a peer does not match the own part.
struct Mismatch {};

/// The header that is sent before the bytes.
struct Header {
  std::uint64_t count;
  ncclDataType_t type;
  Deed deed;

  friend bool operator==(const Header&, const Header&) = default;
};

Header header_of(const Part& part, Deed deed) {
  return {.count = part.count, .type = part.type, .deed = deed};
}

std::size_t bytes_of(const Part& part) { return part.count * standin::bytes_of(part.type); }

void expect(const Header& header, const Wire& wire, const Interrupt& interrupt) {
  if (wire.receive<Header>(interrupt) != header) throw Mismatch{};
}

/// The listeners of communicators whose rank 0 has not joined yet, by number.
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

/// Runs `work` on a background thread. Only one work may be in progress.
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
  } catch (const Aborted&) {  // the communicator was aborted
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

/// Connects rank 0 with all other ranks. At rank 0, `wires` are in the order of ranks. Then rank 0
/// sends a byte to each.
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

/// Runs a collective at rank 0: receives the parts of all ranks and sends the results.
void Communicator::lead(const Part& part) {
  const std::size_t bytes = bytes_of(part);
  const std::size_t brings = part.deed == Deed::scatter ? static_cast<std::size_t>(size_) : 1;
  const std::size_t gets = part.deed == Deed::gather ? static_cast<std::size_t>(size_) : 1;
  std::vector<std::byte> result(std::max(brings, gets) * bytes);
  std::vector<std::byte> brought(brings * bytes);
  std::memcpy(result.data(), part.from, brought.size());
  for (std::size_t i = 0; i < data_.size(); ++i) {
    expect(header_of(part, part.deed), data_[i], interrupt_);
    data_[i].receive(brought.data(), brought.size(), interrupt_);
    if (part.deed == Deed::gather) {
      std::memcpy(result.data() + (i + 1) * bytes, brought.data(), bytes);
    } else if (!add_to(result.data(), brought.data(), brings * part.count, part.type)) {
      throw Mismatch{};
    }
  }
  for (std::size_t i = 0; i < data_.size(); ++i) {
    data_[i].send(result.data() + (brings > 1 ? (i + 1) * bytes : 0), gets * bytes, interrupt_);
  }
  std::memcpy(part.to, result.data(), gets * bytes);
}

void Communicator::follow(const Part& part) {
  const Wire& wire = data_.front();
  const std::size_t brings = part.deed == Deed::scatter ? static_cast<std::size_t>(size_) : 1;
  const std::size_t gets = part.deed == Deed::gather ? static_cast<std::size_t>(size_) : 1;
  wire.send(header_of(part, part.deed), interrupt_);
  wire.send(part.from, brings * bytes_of(part), interrupt_);
  wire.receive(part.to, gets * bytes_of(part), interrupt_);
}

}  // namespace standin
