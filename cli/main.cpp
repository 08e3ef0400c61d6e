// The `penstock` command: all subcommands, occupy modules on CPUs. It has no extensions (extensions.hpp), so
// whatever needs LibTorch or a GPU is handed to an executable beside it.

#include "cli/program_main.hpp"

int main(int argc, char** argv) {
  return penstock::program_main(argc, argv, penstock::AddressSpace::bounded_by_memory, {});
}
