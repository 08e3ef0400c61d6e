// `penstock-mpi`: the same with MPI, over which processes that mpirun or srun started share a sweep.
// `penstock` starts it where it finds itself among several. Apart from it, since MPI's libraries take longer
// to load than most commands to run.

// Leaves out the C++ bindings that old Open MPIs bring along, of which nothing is used.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/outcome.hpp"
#include "cli/process_group.hpp"
#include "cli/program_main.hpp"

namespace {

using namespace penstock;

/// MPI is up while one lives. One thread calls it: the points' threads never do (FUNNELED).
class Session {
 public:
  Session() {
    int provided = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  }
  ~Session() { MPI_Finalize(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
};

/// Calls move(begin, count) for one part of the text after the other: MPI counts in int, and the points of a
/// long sweep may take more than 2 GiB.
template <typename Move>
void in_parts(std::string& text, const Move& move) {
  constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;
  for (std::size_t at = 0; at < text.size(); at += kMostAtOnce)
    move(text.data() + at, static_cast<int>(std::min(kMostAtOnce, text.size() - at)));
}

/// What rank 0 gives, in all: its length first, so that the others have room for it.
std::string broadcast(std::string text) {
  unsigned long size = text.size();
  MPI_Bcast(&size, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD);
  text.resize(size);
  in_parts(text, [](char* begin, int count) { MPI_Bcast(begin, count, MPI_CHAR, 0, MPI_COMM_WORLD); });
  return text;
}

/// One after the other: texts may be of any length, and there are few.
std::vector<std::string> gathered(std::string text, int rank, int size) {
  unsigned long length = text.size();
  if (rank != 0) {
    MPI_Send(&length, 1, MPI_UNSIGNED_LONG, 0, 0, MPI_COMM_WORLD);
    in_parts(text, [](char* begin, int count) { MPI_Send(begin, count, MPI_CHAR, 0, 0, MPI_COMM_WORLD); });
    return {};
  }
  std::vector<std::string> all{std::move(text)};
  for (int other = 1; other < size; ++other) {
    MPI_Recv(&length, 1, MPI_UNSIGNED_LONG, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    in_parts(all.emplace_back(length, '\0'), [other](char* begin, int count) {
      MPI_Recv(begin, count, MPI_CHAR, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    });
  }
  return all;
}

/// The functions of the group share the session, so that MPI ends with the last of them.
ProcessGroup processes() {
  const auto session = std::make_shared<const Session>();
  ProcessGroup group;
  MPI_Comm_rank(MPI_COMM_WORLD, &group.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &group.size);
  group.first_says = [session](const std::string& text) { return broadcast(text); };
  group.gather = [session, rank = group.rank, size = group.size](const std::string& text) {
    return gathered(text, rank, size);
  };
  group.abandon = [session](ExitCode code) { MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code)); };
  return group;
}

}  // namespace

int main(int argc, char** argv) {
  return program_main(argc, argv, AddressSpace::unbounded,
                      {.backends = {}, .network = {}, .profile = {}, .selftest = {}, .processes = processes});
}
