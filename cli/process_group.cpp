// Launchers tell each process by its environment how many there are: Open MPI's mpirun, those that speak PMI
// (MPICH, srun), Slurm by itself.

#include "cli/process_group.hpp"

#include <array>
#include <cstdlib>
#include <string_view>

namespace penstock {

bool started_with_others() {
  constexpr std::array kCounts = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
  for (const char* name : kCounts) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs yet
    const char* count = std::getenv(name);
    if (count != nullptr && std::string_view(count) != "1") return true;
  }
  return false;
}

}  // namespace penstock
