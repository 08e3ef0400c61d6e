// The words for channel models, as flags, scenarios, results and messages spell them; what each model orders
// is said at the enum (channel.hpp).

#include "schedules/ir/channel.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

namespace penstock {

std::string_view to_text(ChannelModel model) {
  switch (model) {
    case ChannelModel::rank:
      return "rank";
    case ChannelModel::pair:
      return "pair";
    case ChannelModel::direction:
      return "direction";
    case ChannelModel::directed:
      return "directed";
    case ChannelModel::boundary:
      return "boundary";
  }
  return "";
}

std::optional<ChannelModel> channel_model_of_text(std::string_view text) {
  const auto* const found =
      std::ranges::find_if(kChannelModels, [&](ChannelModel model) { return to_text(model) == text; });
  if (found == kChannelModels.end()) return std::nullopt;
  return *found;
}

}  // namespace penstock
