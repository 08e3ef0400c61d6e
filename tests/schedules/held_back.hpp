#pragma once
// A program that hangs only under launch order. Rank 0 posts the RECVs of B1 and B2 before it sends F3, and
// rank 1 runs F3 before B1. Under NCCL, 0SEND_F3 starts after 0RECV_B2, which starts after 0RECV_B1.

#include <fstream>
#include <iterator>
#include <string>

#include "schedules/ir/program.hpp"
#include "schedules/text/program_text.hpp"
#include "tests/test_files.hpp"

namespace penstock {

inline Program held_back() {
  const std::string name = "tests/schedules/programs/held_back.psched";
  std::ifstream file(source_path(name));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return parse_program(text, name).value();
}

}  // namespace penstock
