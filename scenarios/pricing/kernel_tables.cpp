// How the tables are read:
//
//  * A product's row of 8 or 4 bit values holds the quantisation of its input, which training fuses
//    into other kernels: it is taken off, down to a quarter of the row at least. What is left
//    becomes operations a second, straight in the logarithms of m, n and k; at an edge the rate
//    stays, so that the time follows the operations.
//  * Attention, forward and causal, becomes operations a second likewise, straight in the
//    logarithms of heads and sequence, at the ratio of heads to key heads that is nearest. Other
//    head dimensions and numbers of sequences take the nearest one's rate.
//  * Collectives are straight in logarithms between two sizes; beyond the largest its bandwidth
//    holds. A group of n takes the largest measured one below it, m, times ((n-1)/n) / ((m-1)/m),
//    the part of a tensor that is not a device's own.
//  * A device that a scenario states to be s times as fast has s times the rates of products and of
//    attention: it reaches the same part of its peak. Of a collective the time of the smallest
//    message measured is latency and stays; what a size takes beyond that is divided by s.

#include "scenarios/pricing/kernel_tables.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/pricing/csv_table.hpp"
#include "scenarios/pricing/gemm_model.hpp"
#include "scenarios/pricing/log_grid.hpp"
#include "scenarios/pricing/product_table.hpp"
#include "topology/unit_factors.hpp"

namespace penstock {
namespace {

constexpr double kMilli = 1e-3;
/// Of a row, that is left without quantisation. A few per cent of the rows, all of small products, would come
/// out near 0 or below: what is taken off is a model's and not measured.
constexpr double kLeastPart = 0.25;
constexpr double kHalfBytes = 2;
constexpr double kMostInGroup = 1 << 20;  // of a group

double value_bytes(GemmPrecision precision) {
  switch (precision) {
    case GemmPrecision::bf16:
      return 2;
    case GemmPrecision::fp8:
      return 1;
    case GemmPrecision::fp4:
      return 0.5;
  }
  return 2;
}

/// Of a figure: no product of those of a row passes what a double holds, and no quotient comes to nothing.
constexpr double kLeastOfACell = 1e-30;
constexpr double kMostOfACell = 1e30;

/// The figures above 0 of some columns of a row, in their order.
template <std::size_t Count>
tl::expected<std::array<double, Count>, std::string> positives(
    const CsvTable& table, std::size_t row, const std::array<std::string_view, Count>& columns) {
  std::array<double, Count> figures{};
  for (std::size_t i = 0; i < Count; ++i) {
    const auto figure = table.positive(row, columns[i]);
    if (!figure) return tl::unexpected(figure.error());
    if (*figure < kLeastOfACell || *figure > kMostOfACell) {
      return tl::unexpected(fmt::format("{}: {}: expected a number from {} to {}, got \"{}\"",
                                        table.line(row), columns[i], kLeastOfACell, kMostOfACell,
                                        table.cell(row, columns[i])));
    }
    figures[i] = *figure;
  }
  return figures;
}

/// Why the table's shapes make a grid that nobody has measured; empty: they do not. A row for each of some
/// shapes that have nothing in common spans a cell for every m, every n and every k of them.
std::string grid_fault(const std::map<std::array<double, 3>, double>& figures) {
  constexpr std::size_t kMostCells = std::size_t{1} << 20;  // the built-in grids have 3,249
  std::array<std::set<double>, 3> sizes;
  for (const auto& [shape, rate] : figures) {
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) sizes[axis].insert(shape[axis]);
  }
  const auto count = [&](std::size_t axis) { return static_cast<double>(sizes[axis].size()); };
  if (count(0) * count(1) * count(2) <= static_cast<double>(kMostCells)) return "";
  return fmt::format(
      "1: expected products of a grid of sizes, at most {} of them, got {} rows with {} m, {} n and {} k; "
      "single shapes are a table of `products`",
      kMostCells, figures.size(), count(0), count(1), count(2));
}

/// Two products of 2 operations a value each, of which causal attention does half.
double attention_flops(const AttentionShape& shape) {
  return 2 * shape.head_dim * shape.heads * shape.batch * shape.sequence * shape.sequence;
}

/// 2 is as far from 1 as from 4.
double log_distance(double a, double b) { return std::abs(std::log(a / b)); }

/// Straight in logarithms between the two nearest; the edge's outside.
double between(const std::map<double, double>& figures, double size) {
  const auto upper = figures.lower_bound(size);
  // Nothing lies below the first figure, also where it is of this very size.
  if (upper == figures.begin()) return upper->second;
  const auto lower = std::prev(upper);
  if (upper == figures.end()) return lower->second;
  const double way = std::log(size / lower->first) / std::log(upper->first / lower->first);
  return std::exp((1 - way) * std::log(lower->second) + way * std::log(upper->second));
}

/// Of one collective, seconds by bytes. A time below the smallest message's is noise of the measurement.
void set_link_speed(std::map<double, double>& times, double speed) {
  const double latency_s = times.begin()->second;
  for (auto& [bytes, seconds] : times) {
    if (seconds > latency_s) seconds += (seconds - latency_s) * (1 / speed - 1);
  }
}

}  // namespace

// --- reading --------------------------------------------------------------------------------------------

tl::expected<void, std::string> KernelTables::read_gemms(std::string_view text, const DeviceRates& rates) {
  static constexpr std::array<std::string_view, 5> kColumns = {"dtype", "m", "n", "k", "us"};
  static constexpr std::array<std::string_view, 4> kFigures = {"m", "n", "k", "us"};
  const auto table = CsvTable::parse(text, kColumns);
  if (!table) return tl::unexpected(table.error());
  std::array<std::map<std::array<double, 3>, double>, kGemmPrecisionCount> figures;
  for (std::size_t row = 0; row < table->row_count(); ++row) {
    const auto precision = enum_of_text<GemmPrecision>(table->cell(row, "dtype"));
    if (!precision) continue;  // a kind of product that no precision of training asks for
    const auto sizes = positives(*table, row, kFigures);
    if (!sizes) return tl::unexpected(sizes.error());
    const auto [m, n, k, us] = *sizes;
    const auto& model = models_[index_of(*precision)];
    // Only the model's constants say how much of a row that is: they have to be set before a table is
    // read.
    const double quantising_s = model ? quantising_seconds(m, k, *model, rates) : 0;
    const double seconds =
        std::max(us * kSecondsPerMicrosecond - quantising_s, kLeastPart * us * kSecondsPerMicrosecond);
    figures[index_of(*precision)][{m, n, k}] = GemmShape{.m = m, .n = n, .k = k}.flops() / seconds;
  }
  for (const auto& of_precision : figures) {
    if (std::string fault = grid_fault(of_precision); !fault.empty()) return tl::unexpected(fault);
  }
  for (std::size_t i = 0; i < kGemmPrecisionCount; ++i) {
    if (!figures[i].empty()) gemms_[i] = LogGrid<3>(figures[i]);
  }
  return {};
}

tl::expected<void, std::string> KernelTables::read_attention(std::string_view text) {
  static constexpr std::array<std::string_view, 7> kColumns = {"dtype", "head_dim", "heads", "kv_heads",
                                                               "batch", "seq",      "us"};
  static constexpr std::array<std::string_view, 6> kFigures = {"head_dim", "heads", "kv_heads",
                                                               "batch",    "seq",   "us"};
  const auto table = CsvTable::parse(text, kColumns);
  if (!table) return tl::unexpected(table.error());
  std::map<std::pair<double, double>, AttentionGrid> grids;
  for (std::size_t row = 0; row < table->row_count(); ++row) {
    if (table->cell(row, "dtype") != "bf16") continue;
    const auto sizes = positives(*table, row, kFigures);
    if (!sizes) return tl::unexpected(sizes.error());
    const auto [head_dim, heads, kv_heads, batch, sequence, us] = *sizes;
    AttentionGrid& grid = grids[{head_dim, batch}];
    grid.head_dim = head_dim;
    grid.batch = batch;
    const double flops = attention_flops(
        {.head_dim = head_dim, .heads = heads, .kv_heads = kv_heads, .batch = batch, .sequence = sequence});
    grid.rates[{heads, kv_heads}][sequence] = flops / (us * kSecondsPerMicrosecond);
  }
  attention_.clear();
  for (auto& [key, grid] : grids) attention_.push_back(std::move(grid));
  return {};
}

tl::expected<void, std::string> KernelTables::read_products(std::string_view text) {
  return ProductTable::parse(text).map([this](ProductTable&& products) { products_ = std::move(products); });
}

tl::expected<void, std::string> KernelTables::read_collectives(std::string_view text) {
  static constexpr std::array<std::string_view, 5> kColumns = {"op_name", "nccl_dtype", "num_gpus",
                                                               "message_size", "latency"};
  static constexpr std::array<std::string_view, 3> kFigures = {"num_gpus", "message_size", "latency"};
  static constexpr std::array<std::string_view, kGroupOperationCount> kOperations = {
      "all_gather", "reduce_scatter", "all_reduce", "alltoall"};
  const auto table = CsvTable::parse(text, kColumns);
  if (!table) return tl::unexpected(table.error());
  collectives_ = {};
  for (std::size_t row = 0; row < table->row_count(); ++row) {
    const auto operation = std::ranges::find(kOperations, table->cell(row, "op_name"));
    if (operation == kOperations.end() || table->cell(row, "nccl_dtype") != "half") continue;
    const auto sizes = positives(*table, row, kFigures);
    if (!sizes) return tl::unexpected(sizes.error());
    const auto [devices, elements, milliseconds] = *sizes;
    if (devices != std::floor(devices) || devices > kMostInGroup) {
      return tl::unexpected(fmt::format("{}: num_gpus: expected a whole number of at most {}, got {}",
                                        table->line(row), kMostInGroup, devices));
    }
    // One device has nobody to talk to: its row is no group's, and a larger one cannot be told from it.
    if (devices < 2) continue;
    auto& group = collectives_[static_cast<std::size_t>(std::distance(kOperations.begin(), operation))];
    group[static_cast<std::int32_t>(devices)][elements * kHalfBytes] = milliseconds * kMilli;
  }
  return {};
}

void KernelTables::set_gemm_model(GemmPrecision precision, const GemmConstants& constants) {
  models_[index_of(precision)] = constants;
}

void KernelTables::scale(const KernelSpeeds& speeds) {
  for (std::size_t i = 0; i < kGemmPrecisionCount; ++i) gemms_[i].scale(speeds.products[i]);
  const double attention_speed = speeds.products[index_of(GemmPrecision::bf16)];
  for (AttentionGrid& grid : attention_) {
    for (auto& [heads, rates] : grid.rates) {
      for (auto& [sequence, rate] : rates) rate *= attention_speed;
    }
  }
  for (auto& of_operation : collectives_) {
    for (auto& [devices, times] : of_operation) set_link_speed(times, speeds.links);
  }
}

// --- looking up -----------------------------------------------------------------------------------------

std::optional<double> KernelTables::gemm_seconds(GemmPrecision precision, const GemmShape& shape,
                                                 const DeviceRates& rates) const {
  if (const LogGrid<3>& table = gemms_[index_of(precision)]; !table.empty()) {
    return shape.flops() / table.at({shape.m, shape.n, shape.k});
  }
  const auto& model = models_[index_of(precision)];
  if (!model) return std::nullopt;
  // As a table's row is read: without what a fused product does not do.
  return modelled_gemm_seconds(shape.m, shape.n, shape.k, value_bytes(precision), *model, rates) -
         quantising_seconds(shape.m, shape.k, *model, rates);
}

const KernelTables::AttentionGrid* KernelTables::nearest_attention(const AttentionShape& shape) const {
  const auto distance = [&](const AttentionGrid& grid) {
    // The head dimension first: it decides which kernel runs. Samples of a batch only fill it.
    return std::pair(log_distance(grid.head_dim, shape.head_dim), log_distance(grid.batch, shape.batch));
  };
  const auto nearest = std::ranges::min_element(attention_, {}, distance);
  return nearest == attention_.end() ? nullptr : &*nearest;
}

std::optional<double> KernelTables::attention_rate(const AttentionShape& shape) const {
  const AttentionGrid* grid = nearest_attention(shape);
  if (grid == nullptr) return std::nullopt;
  // Of each number of heads the key heads of the nearest ratio, at the sequence's place.
  const double ratio = shape.heads / shape.kv_heads;
  std::map<double, double> by_heads;
  std::map<double, double> distances;
  for (const auto& [heads, rates] : grid->rates) {
    const double distance = log_distance(heads.first / heads.second, ratio);
    const auto best = distances.find(heads.first);
    // A tie keeps the fewer key heads, which come first.
    if (best != distances.end() && best->second <= distance) continue;
    distances[heads.first] = distance;
    by_heads[heads.first] = between(rates, shape.sequence);
  }
  return between(by_heads, shape.heads);
}

std::optional<double> KernelTables::collective_seconds(GroupOperation operation, std::int32_t devices,
                                                       double bytes) const {
  if (devices <= 1 || bytes <= 0) return 0;
  const auto& groups = collectives_[static_cast<std::size_t>(operation)];
  if (groups.empty()) return std::nullopt;
  auto measured = groups.upper_bound(devices);
  // The largest group up to this size; of groups that are all larger, the smallest.
  if (measured != groups.begin()) measured = std::prev(measured);
  const auto& [size, times] = *measured;
  const auto other_part = [](double n) { return (n - 1) / n; };
  const auto& largest = *times.rbegin();
  const double seconds =
      bytes > largest.first ? largest.second * bytes / largest.first : between(times, bytes);
  return seconds * other_part(devices) / other_part(size);
}

}  // namespace penstock
