// `penstock-torch`: the same with networks on LibTorch. `penstock` starts it where a run needs it. It brings
// one extension, the module family of networks; everything else is the same code.

#include "backend/torch/network_family.hpp"
#include "backend/torch/network_profile.hpp"
#include "cli/program_main.hpp"

int main(int argc, char** argv) {
  return penstock::program_main(
      argc, argv, penstock::AddressSpace::bounded_by_memory,
      {.backends = {}, .network = penstock::nn::network_family, .profile = penstock::nn::profile_network});
}
