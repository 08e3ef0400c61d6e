// Makes socket pairs while ranks are forked one after the other, so that the parent never has all pairs open.
// The pair of ranks a < b is made before a is forked. The parent then closes a's end, and closes b's end
// after b is forked. For a chain of ranks, only one such pair is open at a time, and the coordinator's ends.
// Tests: tests/backend/process_room_test.cpp.

#include "backend/process/rank_sockets.hpp"

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

tl::expected<std::array<Descriptor, 2>, std::string> socket_pair(std::int32_t rank) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0)
    return std::array{Descriptor(ends[0]), Descriptor(ends[1])};
  const int error = errno;
  return tl::unexpected(
      fmt::format("cannot connect the process of rank {}: {}{}", rank, std::generic_category().message(error),
                  error == EMFILE ? "; allow more open files (ulimit -n), or take fewer ranks" : ""));
}

}  // namespace

Descriptor::Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

int Descriptor::release() { return std::exchange(number_, -1); }

RankSockets::RankSockets(const std::vector<std::vector<std::int32_t>>& peers)
    : peers_(peers), ends_(peers.size()) {}

tl::expected<void, std::string> RankSockets::open_for(std::int32_t rank) {
  auto control = socket_pair(rank);
  if (!control) return tl::unexpected(control.error());
  coordinators_.push_back(std::move((*control)[0]));
  ends_[index(rank)].coordinator = std::move((*control)[1]);
  for (const std::int32_t peer : peers_[index(rank)]) {
    if (peer < rank) continue;  // the pair was made when that rank was forked
    auto pair = socket_pair(rank);
    if (!pair) return tl::unexpected(pair.error());
    ends_[index(rank)].peers[peer] = std::move((*pair)[0]);
    ends_[index(peer)].peers[rank] = std::move((*pair)[1]);
  }
  return {};
}

RankEnds RankSockets::take(std::int32_t rank) {
  RankEnds own = std::move(ends_[index(rank)]);
  // The child closes the ends of other ranks. Otherwise a connection would stay open after the other rank has
  // ended.
  ends_.clear();
  coordinators_.clear();
  return own;
}

void RankSockets::close_ends_of(std::int32_t rank) { ends_[index(rank)] = {}; }

std::vector<Descriptor> RankSockets::take_coordinators() { return std::move(coordinators_); }

MostDescriptors::MostDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  const rlim_t before = std::exchange(limit.rlim_cur, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0) before_ = before;
}

MostDescriptors::~MostDescriptors() {
  rlimit limit{};
  if (before_ == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = before_;
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &limit));  // lowering the limit does not close open files
}

}  // namespace penstock
