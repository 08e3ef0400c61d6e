// Computes the time of each chunk of a prompt from four constants. A chunk of x tokens after L earlier tokens
// takes
//
//   t(L, x) = c + g L + b x + a (2 L x + x^2)
//
// The chunk itself takes c. Reading the keys and values of an earlier token takes g. The matrix products of a
// token take b. Each pair of tokens in causal attention takes a, and the chunk has (L + x)^2 - L^2 = 2 L x +
// x^2 pairs. The sum of the last two terms over all chunks does not depend on the sizes of the chunks.
// Sources: vLLM pull requests 33914 and 41682, SGLang pull request 11857. Tested by slices_test.cpp.

#include "scenarios/model/chunk_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/model/slice_sizes.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

namespace {

constexpr double kMostOfPrompt = 4.6e18;  // 2^62

/// Returns a figure that states one value for each chunk. These values hold for all stages.
PerStage<std::int64_t> by_chunk(std::vector<std::int64_t> values) {
  PerStage<std::int64_t> figure{.values = {}, .place = "model.chunks", .by_slice = true};
  Wide sum = 0;
  for (const std::int64_t value : values) sum += value;
  figure.values.push_back(static_cast<std::int64_t>(sum / static_cast<Wide>(values.size())));
  figure.by_microbatch.push_back(std::move(values));
  return figure;
}

}  // namespace

double chunk_ns(const ChunkModel& model, const Slice& chunk) {
  const auto before = static_cast<double>(chunk.before);
  const auto tokens = static_cast<double>(chunk.tokens);
  return model.fixed_ns + model.earlier_ns * before + model.token_ns * tokens +
         model.pair_ns * (2 * before * tokens + tokens * tokens);
}

tl::expected<StageFigures, std::string> chunk_figures(const ChunkModel& model, const SliceSizes& sizes,
                                                      std::int64_t count) {
  auto chunks =
      slices_of(sizes, model.prompt, count, 1, [&](const Slice& chunk) { return chunk_ns(model, chunk); });
  if (!chunks) return tl::unexpected(chunks.error());
  const auto prompt = static_cast<double>(model.prompt);
  const double longest = chunk_ns(model, {.before = model.prompt, .tokens = model.prompt});
  const double largest = prompt * static_cast<double>(std::max(model.activation, model.kept));
  if (std::max(longest, largest) * static_cast<double>(count) > kMostOfPrompt)
    return tl::unexpected(std::string("the times or bytes of a prompt are beyond 2^62 ns or bytes"));
  std::vector<std::int64_t> times;
  std::vector<std::int64_t> activations;
  std::vector<std::int64_t> kept;
  for (const Slice& chunk : *chunks) {
    times.push_back(std::llround(chunk_ns(model, chunk)));
    activations.push_back(model.activation * chunk.tokens);
    kept.push_back(model.kept * chunk.tokens);
  }
  StageFigures figures;
  figures.forward = by_chunk(std::move(times));
  figures.activation = by_chunk(std::move(activations));
  figures.kept = by_chunk(std::move(kept));
  figures.weights = {.values = {model.weights}, .place = "model.chunks"};
  return figures;
}

}  // namespace penstock
