// Launchers tell each process by its environment how many there are: torchrun, Open MPI's mpirun, those that
// speak PMI (MPICH, srun), Slurm by itself. torchrun's are told apart first: Slurm may have started torchrun.

#include "cli/process_group.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

namespace penstock {

namespace {

/// True where the variable says how many processes there are, and that is not one.
bool says_several(const char* name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs yet
  const char* count = std::getenv(name);
  return count != nullptr && std::string_view(count) != "1";
}

}  // namespace

StartedBy started_by() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs yet
  if (std::getenv("TORCHELASTIC_RUN_ID") != nullptr)
    return says_several("WORLD_SIZE") ? StartedBy::torchrun : StartedBy::user;
  // Of Open MPI, of PMI, of a step of Slurm's; SLURM_NTASKS also stands in a job's script, which is alone.
  constexpr std::array kCounts = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
  return std::ranges::any_of(kCounts, says_several) ? StartedBy::mpi_launcher : StartedBy::user;
}

}  // namespace penstock
