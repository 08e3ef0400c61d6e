// The `penstock` command, with all subcommands. Without extensions (extensions.hpp) it runs only modules that
// occupy CPUs for a given time. If a run needs LibTorch or a GPU, the process becomes another executable
// (other_executable.cpp).

#include "cli/program_main.hpp"

int main(int argc, char** argv) {
  return penstock::program_main(argc, argv, penstock::AddressSpace::bounded_by_memory, {});
}
