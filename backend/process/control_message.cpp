// The alternatives of one variant, in CBOR (RFC 8949): [number of the alternative, its fields]. Of these
// messages only signs of life are sent while actions are timed, so the form may be easy to extend rather than
// fast; a number or a field that is not known is refused.

#include "backend/process/control_message.hpp"

#include <cstddef>
#include <exception>
#include <stdexcept>
#include <string>
#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "backend/executor/executor.hpp"
#include "backend/executor/module_family.hpp"
#include "backend/process/socket_loop.hpp"
#include "report/result/result.hpp"

namespace penstock {

using nlohmann::json;

// Found by nlohmann::json through the namespace of their second argument.
// NOLINTBEGIN(misc-use-internal-linkage)

static void to_json(json& j, const Endpoint& e) { j = {e.address, e.port}; }
static void from_json(const json& j, Endpoint& e) {
  j.at(0).get_to(e.address);
  j.at(1).get_to(e.port);
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Hello, rank, process_id, digest, boot_id, data)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Report, position, waits_for, since_ns, at_ns)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Ready, run)
// The samples of an account's memory stay where they were taken.
static void to_json(json& j, const RankAccount& account) {
  j = {{"losses", account.losses}};
  if (!account.memory) return;
  const RankMemory& memory = *account.memory;
  j["memory"] = {memory.peak_bytes, memory.peak_action, memory.at_peak, memory.peaks};
}
static void from_json(const json& j, RankAccount& account) {
  j.at("losses").get_to(account.losses);
  if (!j.contains("memory")) return;
  const json& memory = j.at("memory");
  account.memory.emplace();
  memory.at(0).get_to(account.memory->peak_bytes);
  memory.at(1).get_to(account.memory->peak_action);
  memory.at(2).get_to(account.memory->at_peak);
  memory.at(3).get_to(account.memory->peaks);
}
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Done, run, start, end, message_start, message_end, account)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Failed, standing, what)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Greeting, rank, token)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Welcome, token, peers, origin_ns)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Prepare, run)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Go, run, start_ns)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExecutionError, rank, action, peer, message)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Verdict, error)
static void to_json(json& j, const Alive&) { j = nullptr; }
static void from_json(const json&, Alive&) {}
static void to_json(json& j, const End&) { j = nullptr; }
static void from_json(const json&, End&) {}

// NOLINTEND(misc-use-internal-linkage)

namespace {

/// The alternative number `kind` of the variant.
template <std::size_t I = 0>
ControlMessage alternative(std::size_t kind, const json& content) {
  if constexpr (I < std::variant_size_v<ControlMessage>) {
    if (kind == I) return content.get<std::variant_alternative_t<I, ControlMessage>>();
    return alternative<I + 1>(kind, content);
  } else {
    throw std::out_of_range(fmt::format("no message has number {}", kind));
  }
}

}  // namespace

Frame encoded(const ControlMessage& message) {
  const json content = std::visit([](const auto& told) { return json(told); }, message);
  return json::to_cbor(json::array({message.index(), content}));
}

tl::expected<ControlMessage, std::string> decoded(const Frame& frame) {
  try {
    const json read = json::from_cbor(frame);
    return alternative(read.at(0).get<std::size_t>(), read.at(1));
  } catch (const std::exception& error) {
    return tl::unexpected(fmt::format("not a message between coordinator and worker: {}", error.what()));
  }
}

}  // namespace penstock
