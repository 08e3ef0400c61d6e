// Names of parts are formatted only for messages, because parts are added thousands of times for each
// message.

#include "scenarios/pricing/part_sum.hpp"

#include <string>

#include <fmt/format.h>

#include "topology/unit_factors.hpp"

namespace penstock {

std::string PartSum::name() const { return fmt::format(fmt::runtime(largest_.form), largest_.number); }

std::string PartSum::how_often() const {
  return largest_.times == 1 ? "" : fmt::format(", {:.0f} times", largest_.times);
}

std::string PartSum::longest() const {
  return fmt::format("{} takes {:.4g} s{}", name(), largest_.each * kSecondsPerNanosecond, how_often());
}

std::string PartSum::largest() const {
  return fmt::format("{} has {:.4g} bytes{}", name(), largest_.each, how_often());
}

}  // namespace penstock
