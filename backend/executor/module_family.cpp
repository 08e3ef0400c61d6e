// The family of occupy modules, which need no library. The families that compute are in backend/torch and
// backend/cuda.

#include "backend/executor/module_family.hpp"

#include <cstdint>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/occupy_module.hpp"
#include "report/print/units.hpp"

namespace penstock {

std::string OccupyFamily::description() const {
  std::string text = "occupy modules: each action holds its worker for the time that the costs say";
  if (jitter_.fraction > 0) {
    text += fmt::format(", which varies by {} either way (seed {})", format_percent(jitter_.fraction),
                        jitter_.seed);
  }
  return text;
}

StageModules OccupyFamily::modules(std::optional<std::int32_t> rank, const Clock& clock) const {
  return occupy_modules(experiment_.program, experiment_.costs, clock, jitter_, rank);
}

}  // namespace penstock
