#pragma once
// The products of a layer as one machine measured them in long training runs. Each product has its role
// (forward or a gradient), so a factor between a burst and a training step is not needed.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

/// The shape of Y[m, n] = X[m, k] W[k, n].
struct GemmShape {
  double m = 1;
  double n = 1;
  double k = 1;
  double flops() const { return 2 * m * n * k; }
};

/// The three products for a layer's Y = X W in a training step.
enum class Product : std::uint8_t {
  forward,          // Y = X W
  input_gradient,   // dX = dY W^T
  weight_gradient,  // dW = X^T dY, and its addition to the sum over microbatches
};
template <>
inline constexpr auto kEnumWords<Product> =
    std::to_array<EnumWord<Product>>({{Product::forward, "forward"},
                                      {Product::input_gradient, "input-gradient"},
                                      {Product::weight_gradient, "weight-gradient"}});
inline constexpr std::size_t kProductCount = kEnumWords<Product>.size();

/// Returns the shape of one of the three products. `forward` is the shape of the forward product Y[m, n] =
/// X[m, k] W[k, n].
GemmShape shape_of(Product product, const GemmShape& forward);

/// The measured products of one machine.
class ProductTable {
 public:
  /// Reads lines "product,groups,m,n,k,us" with a header, for values of 16 bits. A line is the time of
  /// `groups` products at once, each with m rows. Lines of equal shapes are averaged. Error: "LINE: what is
  /// wrong".
  static tl::expected<ProductTable, std::string> parse(std::string_view text);

  /// Returns the seconds of the product with exactly this shape, or nothing if it was not measured.
  std::optional<double> seconds(Product product, double groups, const GemmShape& shape) const;

  bool empty() const { return size() == 0; }
  std::size_t size() const;

 private:
  using Key = std::array<double, 4>;  // groups, m, n, k
  std::array<std::map<Key, double>, kProductCount> seconds_;
};

}  // namespace penstock
