// The `penstock-torch` executable. It has the same subcommands, and one extension: networks on LibTorch.
// `penstock` starts it when a run needs it.

#include "backend/torch/networks.hpp"
#include "cli/executable.hpp"

int main(int argc, char** argv) {
  return penstock::program_main(
      argc, argv, penstock::AddressSpace::bounded_by_memory,
      {.backends = {}, .network = penstock::nn::network_family, .profile = penstock::nn::profile_network});
}
