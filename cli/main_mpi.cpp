// `penstock-mpi`: the same with MPI, over which processes that mpirun or srun started share a sweep.
// `penstock` starts it where it finds itself among several. Apart from it, since MPI's libraries take longer
// to load than most commands to run.
//
// MPI tells nobody that a process has ended: mpirun and srun see it, and end all others by SIGTERM. It does
// not say that one is suspended either, so hear() knows only what others tell.

// Leaves out the C++ bindings that old Open MPIs bring along, of which nothing is used.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
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

// Tags of messages.
constexpr int kGathered = 0;
constexpr int kTold = 1;

/// What rank 0 gives, in all: its length first, so that the others have room for it.
std::string broadcast(std::string text) {
  int size = static_cast<int>(text.size());  // at most kMostSaid
  MPI_Bcast(&size, 1, MPI_INT, 0, MPI_COMM_WORLD);
  text.resize(static_cast<std::size_t>(size));
  MPI_Bcast(text.data(), size, MPI_CHAR, 0, MPI_COMM_WORLD);
  return text;
}

void say(int to, int tag, const std::string& text) {
  MPI_Send(text.data(), static_cast<int>(text.size()), MPI_CHAR, to, tag, MPI_COMM_WORLD);
}

/// What a process has said, which `status` tells of.
std::string said(MPI_Status status) {
  int size = 0;
  MPI_Get_count(&status, MPI_CHAR, &size);
  std::string text(static_cast<std::size_t>(size), '\0');
  MPI_Recv(text.data(), size, MPI_CHAR, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return text;
}

/// One after the other: there are few.
std::vector<std::string> gathered(const std::string& text, int rank, int size) {
  if (rank != 0) {
    say(0, kGathered, text);
    return {};
  }
  std::vector<std::string> all{text};
  for (int other = 1; other < size; ++other) {
    MPI_Status status;
    MPI_Probe(other, kGathered, MPI_COMM_WORLD, &status);
    all.push_back(said(status));
  }
  return all;
}

/// Texts that are on their way: MPI reads them until it has handed them over.
class Told {
 public:
  void tell(int to, const std::string& text) {
    forget_what_is_heard();
    Text& told = texts_.emplace_back(Text{.text = text});
    MPI_Isend(told.text.data(), static_cast<int>(told.text.size()), MPI_CHAR, to, kTold, MPI_COMM_WORLD,
              &told.request);
  }

 private:
  struct Text {
    std::string text;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void forget_what_is_heard() {
    texts_.remove_if([](Text& told) {
      int is_heard = 0;
      MPI_Test(&told.request, &is_heard, MPI_STATUS_IGNORE);
      return is_heard != 0;
    });
  }

  std::list<Text> texts_;  // a list, since MPI knows where each is
};

/// MPI waits by spinning: what the points' threads need of a core is left to them.
std::optional<Heard> heard_within(std::chrono::milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (true) {
    int is_there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, kTold, MPI_COMM_WORLD, &is_there, &status);
    if (is_there != 0) {
      const int rank = status.MPI_SOURCE;
      return Heard{.rank = rank, .what = Heard::What::said, .text = said(status)};
    }
    if (std::chrono::steady_clock::now() >= until) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
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
  group.tell = [session, told = std::make_shared<Told>()](int to, const std::string& text) {
    told->tell(to, text);
  };
  group.hear = [session](std::chrono::milliseconds patience) { return heard_within(patience); };
  group.abandon = [session](ExitCode code) { MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code)); };
  return group;
}

}  // namespace

int main(int argc, char** argv) {
  return program_main(argc, argv, AddressSpace::unbounded,
                      {.backends = {}, .network = {}, .profile = {}, .selftest = {}, .processes = processes});
}
