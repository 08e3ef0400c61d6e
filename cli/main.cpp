// The `penstock` command, with all subcommands. It has no extensions (executable.hpp), so it runs only
// modules that occupy CPUs for a given time. If a run needs LibTorch or a GPU, another executable replaces
// the process (executable.cpp).

#include "cli/executable.hpp"

int main(int argc, char** argv) {
  return penstock::program_main(argc, argv, penstock::AddressSpace::bounded_by_memory, {});
}
