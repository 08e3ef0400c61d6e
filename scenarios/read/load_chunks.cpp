// Reads `model.chunks`, the times and bytes of the chunks of a prompt.

#include <array>
#include <cstddef>

#include "scenarios/model/chunk_model.hpp"
#include "scenarios/read/document.hpp"
#include "scenarios/read/fields.hpp"
#include "scenarios/read/reader.hpp"
#include "scenarios/read/schema.hpp"

namespace penstock {
namespace {

constexpr auto kChunkFields = std::to_array<Field<ChunkModel>>({
    field<&ChunkModel::prompt>({.name = "prompt",
                                .kind = KeyKind::integer,
                                .meaning = "Tokens of a prompt.",
                                .usual = "required",
                                .range = kModelSize}),
    field<&ChunkModel::fixed_ns>({.name = "fixed",
                                  .kind = KeyKind::duration,
                                  .meaning = "c, the time of each chunk whatever its tokens.",
                                  .usual = "0"}),
    field<&ChunkModel::earlier_ns>({.name = "per_earlier_token",
                                    .kind = KeyKind::duration,
                                    .meaning = "g, the time for each token before the chunk.",
                                    .usual = "0"}),
    field<&ChunkModel::token_ns>({.name = "per_token",
                                  .kind = KeyKind::duration,
                                  .meaning = "b, the time for each token of the chunk.",
                                  .usual = "required"}),
    field<&ChunkModel::pair_ns>({.name = "per_pair",
                                 .kind = KeyKind::duration,
                                 .meaning = "a, the time of attention for each of the 2 L x + x^2 pairs.",
                                 .usual = "0"}),
    field<&ChunkModel::activation>({.name = "activation",
                                    .kind = KeyKind::bytes,
                                    .meaning = "Bytes of a token that a stage sends to the next one.",
                                    .usual = "0"}),
    field<&ChunkModel::kept>({.name = "kept",
                              .kind = KeyKind::bytes,
                              .meaning = "Bytes of a token's keys and values on a stage.",
                              .usual = "0"}),
    field<&ChunkModel::weights>(
        {.name = "weights", .kind = KeyKind::bytes, .meaning = "Bytes of a stage's weights.", .usual = "0"}),
});
constexpr auto kChunkKeys = keys_of(kChunkFields);

}  // namespace

ChunkModel read_chunks(const Node& node, Problem& problem) {
  const std::size_t before = problem.count();
  const MappingReader reader(node, "model.chunks", kChunkKeys, problem);
  if (problem.count() > before) return {};
  if (!reader.has("prompt")) reader.complain("prompt", "expected the tokens of a prompt, got nothing");
  if (!reader.has("per_token"))
    reader.complain("per_token", "expected a duration such as \"200 ns\", got nothing");
  ChunkModel model;
  read_fields(reader, kChunkFields, model);
  return model;
}

KeyGroup chunk_keys() {
  return {
      .path = "model.chunks",
      .about =
          "Prefill in chunks. A chunk of x tokens behind L tokens takes t(L, x) = c + g L + b x + a (2 L x + "
          "x^2) on each stage. `schedule.slices` and `schedule.slice_tokens` cut the prompt into chunks, "
          "and each microbatch is one prompt. It goes with `schedule.name: chunked-prefill`.",
      .keys = {kChunkKeys.begin(), kChunkKeys.end()}};
}

}  // namespace penstock
