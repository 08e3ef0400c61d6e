// The `penstock` command, with all subcommands. Without extensions (extensions.hpp) it runs only modules that
// occupy CPUs for a given time. If a run needs LibTorch or a GPU, the process becomes another executable
// (executable.cpp).

#include "cli/executable.hpp"

int main(int argc, char** argv) {
  return penstock::program_main(argc, argv, penstock::AddressSpace::bounded_by_memory, {});
}
