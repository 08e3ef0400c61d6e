// A table of measured products without interpolation. Neighbouring shapes differ by more than interpolation
// would gain, and the machine's owner can measure the shapes of the model. Other shapes are priced by the
// device's tables of short bursts and its sustained factor (kernel_tables.cpp).
//
//     Y[m, n] = X[m, k] W[k, n]        dX[m, k] = dY[m, n] W^T        dW[n, k] = dY^T X over m rows
//
// Tested by product_table_test.cpp.

#include "scenarios/pricing/product_table.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "text/csv_table.hpp"
#include "topology/unit_factors.hpp"

namespace penstock {
namespace {

/// The sum and number of a shape's rows, for their mean.
struct Mean {
  double sum = 0;
  double rows = 0;
};

}  // namespace

GemmShape shape_of(Product product, const GemmShape& forward) {
  const auto [m, n, k] = forward;
  switch (product) {
    case Product::forward:
      return forward;
    case Product::input_gradient:
      return {.m = m, .n = k, .k = n};
    case Product::weight_gradient:
      return {.m = n, .n = k, .k = m};
  }
  return forward;
}

tl::expected<ProductTable, std::string> ProductTable::parse(std::string_view text) {
  static constexpr std::array<std::string_view, 6> kColumns = {"product", "groups", "m", "n", "k", "us"};
  const auto table = CsvTable::parse(text, kColumns);
  if (!table) return tl::unexpected(table.error());
  std::array<std::map<Key, Mean>, kProductCount> means;
  for (std::size_t row = 0; row < table->row_count(); ++row) {
    const std::string& name = table->cell(row, "product");
    const auto product = enum_of_text<Product>(name);
    if (!product) {
      return tl::unexpected(
          fmt::format("{}: product: expected forward, input-gradient or weight-gradient, got \"{}\"",
                      table->line(row), name));
    }
    std::array<double, 5> figures{};
    for (std::size_t i = 0; i < figures.size(); ++i) {
      const auto figure = table->positive(row, kColumns[i + 1]);
      if (!figure) return tl::unexpected(figure.error());
      figures[i] = *figure;
    }
    const auto [groups, m, n, k, us] = figures;
    Mean& mean =
        // A shape may have several rows.
        means[static_cast<std::size_t>(*product)][{groups, m, n, k}];
    mean.sum += us * kSecondsPerMicrosecond;
    mean.rows += 1;
  }
  ProductTable products;
  for (std::size_t i = 0; i < kProductCount; ++i) {
    for (const auto& [key, mean] : means[i]) products.seconds_[i][key] = mean.sum / mean.rows;
  }
  return products;
}

std::optional<double> ProductTable::seconds(Product product, double groups, const GemmShape& shape) const {
  const auto& of_product = seconds_[static_cast<std::size_t>(product)];
  const auto found = of_product.find({groups, shape.m, shape.n, shape.k});
  if (found == of_product.end()) return std::nullopt;
  return found->second;
}

std::size_t ProductTable::size() const {
  return std::accumulate(seconds_.begin(), seconds_.end(), std::size_t{0},
                         [](std::size_t sum, const auto& one) { return sum + one.size(); });
}

}  // namespace penstock
