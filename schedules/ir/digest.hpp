#pragma once
// A program's name for machines: results of sim/ and backend/ carry it so that they can be held against
// each other.

#include <string>

#include "schedules/ir/program.hpp"

namespace penstock {

/// A hash of 128 bits over the lowered lists, the placement and every other field, as 32 lower-case hex
/// digits: equal programs have equal digests on every machine. Linear in the number of actions; made only
/// where it is printed or compared.
std::string digest(const Program& lowered);

}  // namespace penstock
