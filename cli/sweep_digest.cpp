// The hash is of a text:
//
//   commit | scenario, with digests of files in the place of their names | flags of the shape | channels |
//   batch | grid
//
// Parts of a scenario that are files, and figures of microbatches, are written out in it. A Scenario that was
// loaded has no such text: the kernel tables of a device are closed. So its files are read once more.

#include "cli/sweep_digest.hpp"

#include <openssl/evp.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "cli/flags.hpp"
#include "cli/input.hpp"
#include "cli/outcome.hpp"
#include "cli/version.hpp"
#include "scenarios/read/batch.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/load.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/channel.hpp"
#include "sim/engines/engines.hpp"
#include "sim/runs/sweep.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;
using Text = tl::expected<std::string, std::string>;

/// SHA-256 in hex digits.
std::string hash_of(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  std::size_t size = 0;
  if (EVP_Q_digest(nullptr, "SHA256", nullptr, text.data(), text.size(), bytes.data(), &size) != 1)
    throw std::runtime_error("OpenSSL has no SHA-256");
  return fmt::format("{:02x}", fmt::join(std::span(bytes).first(size), ""));
}

// --- the scenario ----------------------------------------------------------------------------------------

/// The values of a scenario that edited_scenario() leaves as names of files.
const std::vector<std::vector<std::string_view>> kFiles = {{"model", "huggingface"},
                                                           {"model", "profile"},
                                                           {"model", "fitted"},
                                                           {"cluster", "kernels", "gemm"},
                                                           {"cluster", "kernels", "attention"},
                                                           {"cluster", "kernels", "collectives"},
                                                           {"cluster", "kernels", "products"}};

/// Null where there is none.
Node* value_at(Node& document, const std::vector<std::string_view>& keys) {
  Node* node = &document;
  for (const std::string_view key : keys) {
    if (node != nullptr) node = node->kind == Node::Kind::mapping ? node->find(key) : nullptr;
  }
  return node;
}

/// What a pipe held has gone with its first reader, and a second one might wait for ever.
tl::expected<void, std::string> check_read_again(const std::string& file) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(file, ignored)) return {};
  return tl::unexpected(fmt::format(
      "{}: --resume and --shard read it twice: expected a file, got a pipe or a device; write it into a file",
      file));
}

/// As it is after the overrides, with the hash of what each file holds that it names.
Text scenario_text(const InputFlags& input) {
  const auto overrides = scenario_overrides(input);
  if (!overrides) return tl::unexpected(overrides.error().message);
  if (!input.file.empty()) {
    if (auto file = check_read_again(input.file); !file) return tl::unexpected(file.error());
  }
  Text text = edited_scenario(input.file, *overrides);
  if (!text) return text;
  auto document = parse_document(
      *text, std::make_shared<const Source>(Source{.name = input.file, .directory = "", .override_key = ""}));
  if (!document) return tl::unexpected(document.error());
  for (const auto& keys : kFiles) {
    Node* const name = value_at(*document, keys);
    if (name == nullptr || name->kind != Node::Kind::scalar) continue;
    if (auto file = check_read_again(name->text); !file) return tl::unexpected(file.error());
    Text held = read_text_file(name->text, name->text);
    if (!held) return held;
    name->text = hash_of(*held);
  }
  return document_to_yaml(*document);
}

// --- the flags and the grid ------------------------------------------------------------------------------

template <typename Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// A field that is left out here is one in which two sweeps may differ and have the same digest. So all fields
// are named, and one more in their struct is an error where it is compiled.

/// Of what is no part of the document. The file, --set and the flags of the model are.
Json flags_json(const InputFlags& flags) {
  const auto& [file, settings, schedule, pp_size, num_microbatches, virtual_stages, group_size, slices,
               data_parallel, buckets, sharding, gather, passes, seed, budget_seconds, dialect,
               micro_batch_size, global_batch_size, iterations, unit, model] = flags;
  return {schedule,
          or_null(pp_size),
          or_null(num_microbatches),
          or_null(virtual_stages),
          or_null(group_size),
          or_null(slices),
          or_null(data_parallel),
          or_null(buckets),
          or_null(sharding),
          gather,
          or_null(passes),
          or_null(seed),
          or_null(budget_seconds),
          dialect,
          or_null(micro_batch_size),
          or_null(global_batch_size),
          or_null(iterations),
          unit};
}

Json channels_json(const ChannelOptions& channels) {
  const auto& [model, blocking, capacity, eager_bytes, launch_order] = channels;
  return {to_text(model), blocking, capacity, eager_bytes, launch_order};
}

Json batch_json(const Batch& batch) {
  const auto& [own_micro_batch_size, micro_batch_size, global_batch_size, microbatches] = batch;
  return {own_micro_batch_size, or_null(micro_batch_size), or_null(global_batch_size), or_null(microbatches)};
}

/// Returns what decides the points. Known points and the shard are left out, because they change none.
Json grid_json(const SweepGrid& grid) {
  const auto& [schedules, stages, virtual_stages, microbatches, batch, engine, known, shard, progress,
               finished, stopped] = grid;
  return {schedules, stages, virtual_stages, microbatches, batch_json(batch), to_text(engine)};
}

}  // namespace

tl::expected<std::string, UserError> sweep_digest(const InputFlags& input, const Scenario& scenario,
                                                  const SweepGrid& grid) {
  const Text text = scenario_text(input);
  if (!text) return bad_input(text.error());
  const Json all = {built_commit(), *text, flags_json(input), channels_json(scenario.channels),
                    // The microbatch for which the figures hold is the file's own, whatever --set says.
                    batch_json(scenario.batch), grid_json(grid)};
  return hash_of(all.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace penstock
