// The `penstock` command: all subcommands, occupy modules on CPUs.

#include "cli/program_main.hpp"

int main(int argc, char** argv) {
  return penstock::program_main(argc, argv, penstock::AddressSpace::bounded_by_memory, {});
}
