#include "schedules/ir/channel.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "text/enum_words.hpp"

namespace penstock {

namespace {

constexpr std::array kTransports = {
    TransportInfo{.name = "in-process",
                  .summary = "threads of one process, emulates the cluster's links",
                  .channels = {.model = ChannelModel::directed}},
    TransportInfo{.name = "sockets",
                  .summary = "processes of one host, emulates the cluster's links",
                  .channels = {.model = ChannelModel::directed}},
    TransportInfo{.name = "cuda-streams",
                  .summary = "workers of one process on GPUs, copies on a stream a directed pair",
                  .channels = {.model = ChannelModel::directed}},
    TransportInfo{.name = "nccl",
                  .summary = "a process a GPU, a communicator a directed pair",
                  .channels = {.model = ChannelModel::directed}},
};

}  // namespace

std::span<const TransportInfo> transport_table() { return kTransports; }

const TransportInfo* find_transport(std::string_view name) {
  const auto* const found = std::ranges::find_if(
      kTransports, [&](const TransportInfo& row) { return plain_name(row.name) == plain_name(name); });
  return found == kTransports.end() ? nullptr : found;
}

}  // namespace penstock
