// `penstock-torch`: the same program with networks on LibTorch as its one extension. `penstock` starts it
// when a run needs it.

#include "backend/torch/network_family.hpp"
#include "backend/torch/network_profile.hpp"
#include "cli/program_main.hpp"

int main(int argc, char** argv) {
  return penstock::program_main(
      argc, argv, penstock::AddressSpace::bounded_by_memory,
      {.backends = {}, .network = penstock::nn::network_family, .profile = penstock::nn::profile_network});
}
