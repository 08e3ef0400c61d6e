// Device r runs rank r. If a rank is a group of devices, it has the name of one device of the group.

#include "scenarios/prepare/rank_devices.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "scenarios/prepare/experiment.hpp"
#include "topology/cluster.hpp"

namespace penstock {

std::vector<std::string> rank_devices(const Experiment& experiment) {
  const std::vector<Device>& devices = experiment.cluster.devices();
  std::vector<std::string> names(static_cast<std::size_t>(experiment.program.rank_count()));
  for (std::size_t rank = 0; rank < std::min(names.size(), devices.size()); ++rank) {
    names[rank] = devices[rank].name;
  }
  return names;
}

}  // namespace penstock
