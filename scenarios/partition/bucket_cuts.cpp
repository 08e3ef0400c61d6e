
#include "scenarios/partition/bucket_cuts.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/balanced_cuts.hpp"

namespace penstock {

tl::expected<std::vector<std::int32_t>, std::string> cut_buckets(const LayerGraph& graph,
                                                                 const std::vector<std::int32_t>& ends,
                                                                 const std::vector<std::int32_t>& buckets) {
  std::vector<std::int32_t> all;
  std::int32_t begin = 0;
  for (std::size_t stage = 0; stage < buckets.size(); ++stage) {
    const std::int32_t end = ends[stage];
    if (buckets[stage] > end - begin) {
      return tl::unexpected(fmt::format("schedule.buckets: stage {} has {} layers, too few for {} buckets",
                                        stage, end - begin, buckets[stage]));
    }
    // The inputs still refer to layers of the whole model, but balancing does not read them.
    LayerGraph layers;
    layers.layers.assign(graph.layers.begin() + begin, graph.layers.begin() + end);
    for (const std::int32_t cut : earliest_cuts(layers, buckets[stage])) all.push_back(begin + cut);
    all.push_back(end);
    begin = end;
  }
  return all;
}

}  // namespace penstock
