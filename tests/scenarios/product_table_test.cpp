// A machine's own products: which shape each of the three has, and what a layer takes by them.

#include "scenarios/pricing/product_table.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "scenarios/pricing/kernel_library.hpp"
#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/term_writer.hpp"
#include "tests/scenarios/device_workload.hpp"

namespace penstock {
namespace {

// Y[4096, 10240] = X[4096, 8192] W
const GemmShape kForward{.m = 4096, .n = 10240, .k = 8192};

const std::string kTable =
    "product,groups,m,n,k,us\n"
    "forward,1,4096,10240,8192,400\n"
    "forward,1,4096,10240,8192,500\n"  // measured twice
    "input-gradient,1,4096,8192,10240,600\n"
    "weight-gradient,1,10240,8192,4096,700\n"
    "forward,20,1232,3072,5120,800\n";

TEST(ProductTable, HasTheShapesThatWereMeasuredAndNoOthers) {
  const ProductTable table = ProductTable::parse(kTable).value();
  EXPECT_EQ(table.size(), 4);
  EXPECT_NEAR(*table.seconds(Product::forward, 1, kForward), 450e-6, 1e-12);
  EXPECT_NEAR(*table.seconds(Product::forward, 20, {.m = 1232, .n = 3072, .k = 5120}), 800e-6, 1e-12);
  EXPECT_FALSE(table.seconds(Product::forward, 1, {.m = 1232, .n = 3072, .k = 5120}));
  EXPECT_FALSE(table.seconds(Product::input_gradient, 1, kForward));
}

TEST(ProductTable, KnowsTheThreeProductsBehindOne) {
  const ProductTable table = ProductTable::parse(kTable).value();
  const auto seconds = [&](Product product) {
    return *table.seconds(product, 1, shape_of(product, kForward));
  };
  EXPECT_NEAR(seconds(Product::input_gradient), 600e-6, 1e-12);
  EXPECT_NEAR(seconds(Product::weight_gradient), 700e-6, 1e-12);
}

TEST(ProductTable, SaysWhichLineIsWrong) {
  EXPECT_EQ(ProductTable::parse("product,groups,m,n,k,us\nbackward,1,1,1,1,1\n").error(),
            "2: product: expected forward, input-gradient or weight-gradient, got \"backward\"");
  EXPECT_EQ(ProductTable::parse("product,groups,m,n,k,us\nforward,1,1,0,1,1\n").error(),
            "2: n: expected a number above 0, got \"0\"");
  EXPECT_EQ(ProductTable::parse("product,m,n,k,us\n").error(),
            "1: expected a column \"groups\", got product, m, n, k, us");
  EXPECT_EQ(ProductTable::parse("product,groups,m,n,k,us,m\n").error(),
            "1: expected each column once, got \"m\" as columns 3 and 7");
  EXPECT_EQ(ProductTable::parse(std::string(100'000, 'x') + "\n").error(),
            "1: expected a column \"product\", got " + std::string(200, 'x') + "...");
}

TEST(OwnProducts, TakeNoFactorAndHoldTheirAddition) {
  const Workload work = workload_on("b200-sxm", "llama-3.1-70b", 4096);
  KernelTables tables = *built_in_kernels(work.device);
  TermWriter bursts(work, tables);
  bursts.gemm("qkv", kForward);
  EXPECT_EQ(bursts.take().size(), 2);  // the product, and the addition to the sum over microbatches
  ASSERT_TRUE(tables.read_products(kTable));
  TermWriter own(work, tables);
  own.gemm("qkv", kForward);
  const std::vector<Term> terms = own.take();
  ASSERT_EQ(terms.size(), 1);
  EXPECT_NEAR(terms[0].forward, 450e-6, 1e-12);
  EXPECT_NEAR(terms[0].backward_input, 600e-6, 1e-12);
  EXPECT_NEAR(terms[0].backward_weight, 700e-6, 1e-12);
  // A shape whose three products are not all there goes by the tables of bursts.
  TermWriter other(work, tables);
  EXPECT_FALSE(other.own_products("experts fc1", 20, {.m = 1232, .n = 3072, .k = 5120}));
}

}  // namespace
}  // namespace penstock
