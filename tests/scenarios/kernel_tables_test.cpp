// Tests kernel tables: the values at the points of a table, between them, outside the table, and without a
// table.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "scenarios/pricing/kernel_tables.hpp"
#include "scenarios/pricing/layer_terms.hpp"
#include "scenarios/pricing/workload.hpp"
#include "tests/scenarios/device_workload.hpp"
#include "topology/presets.hpp"

namespace penstock {
namespace {

TEST(LogGrid, IsStraightInLogarithmsAndConstantBeyondItsEdges) {
  const LogGrid<2> grid({{{1, 1}, 1}, {{4, 1}, 16}, {{1, 100}, 10}, {{4, 100}, 160}});
  EXPECT_NEAR(grid.at({4, 100}), 160, 1e-9);
  EXPECT_NEAR(grid.at({2, 1}), 4, 1e-9);
  EXPECT_NEAR(grid.at({2, 10}), 4 * 3.16227766, 1e-6);
  EXPECT_NEAR(grid.at({0.1, 1}), 1, 1e-9);
  EXPECT_NEAR(grid.at({50, 1000}), 160, 1e-9);
}

TEST(LogGrid, AHoleHasTheFigureOfTheNearestPoint) {
  const LogGrid<2> grid({{{1, 1}, 2}, {{8, 1}, 3}, {{1, 2}, 5}});  // none at 8, 2
  EXPECT_NEAR(grid.at({8, 2}), 3, 1e-9);
}

TEST(KernelTables, AProductOfTheTableTakesItsTime) {
  KernelTables tables;
  ASSERT_TRUE(tables.read_gemms("dtype,m,n,k,us\nbf16,1024,1024,1024,10\nbf16,2048,1024,1024,16\n", {}));
  EXPECT_NEAR(*tables.gemm_seconds(GemmPrecision::bf16, {.m = 1024, .n = 1024, .k = 1024}, {}), 10e-6, 1e-12);
  // Outside the table the rate is constant, so twice the rows take twice the time.
  EXPECT_NEAR(*tables.gemm_seconds(GemmPrecision::bf16, {.m = 4096, .n = 1024, .k = 1024}, {}), 32e-6, 1e-12);
  EXPECT_FALSE(tables.gemm_seconds(GemmPrecision::fp8, {.m = 1, .n = 1, .k = 1}, {}));
}

TEST(KernelTables, SayWhichLineIsWrong) {
  KernelTables tables;
  EXPECT_EQ(tables.read_gemms("dtype,m,n,k,us\nbf16,1024,0,1024,10\n", {}).error(),
            "2: n: expected a number above 0, got \"0\"");
  EXPECT_EQ(tables.read_gemms("dtype,m,n,k\n", {}).error(),
            "1: expected a column \"us\", got dtype, m, n, k");
  EXPECT_EQ(tables.read_attention("").error(),
            "1: expected a first row with the names of the columns, dtype, head_dim, heads, kv_heads, batch, "
            "seq, us, got nothing");
}

// With an infinite rate a kernel would take no time, and 0 / 0 is not a rate.
TEST(KernelTables, RefuseFiguresWhoseRatesNoDoubleHolds) {
  KernelTables tables;
  EXPECT_EQ(tables.read_gemms("dtype,m,n,k,us\nbf16,1,1,1,5e-324\n", {}).error(),
            "2: us: expected a number from 1e-30 to 1e+30, got \"5e-324\"");
  EXPECT_EQ(
      tables.read_attention("dtype,head_dim,heads,kv_heads,batch,seq,us\nbf16,1e300,1,1,1,1,1\n").error(),
      "2: head_dim: expected a number from 1e-30 to 1e+30, got \"1e300\"");
  const std::string header = "op_name,nccl_dtype,num_gpus,message_size,latency\n";
  EXPECT_EQ(tables.read_collectives(header + "all_reduce,half,4,1e308,1\n").error(),
            "2: message_size: expected a number from 1e-30 to 1e+30, got \"1e308\"");
  EXPECT_TRUE(tables.read_gemms("dtype,m,n,k,us\nbf16,1e30,1e30,1e30,1e-30\n", {}));
  EXPECT_GT(tables.gemm_seconds(GemmPrecision::bf16, {.m = 1, .n = 1, .k = 1}, {}).value_or(0), 0);
}

// 170 shapes without a common size would need a grid of 170^3 = 5 million cells.
TEST(KernelTables, RefuseShapesThatAreNoGrid) {
  std::string text = "dtype,m,n,k,us\n";
  for (int i = 1; i <= 170; ++i) text += fmt::format("bf16,{},{},{},10\n", i, 1000 + i, 2000 + i);
  KernelTables tables;
  EXPECT_EQ(
      tables.read_gemms(text, {}).error(),
      "1: expected products of a grid of sizes, at most 1048576 of them, got 170 rows with 170 m, 170 n "
      "and 170 k; single shapes are a table of `products`");
}

TEST(KernelTables, CollectivesAreOfTwoDevicesAtLeast) {
  const std::string header = "op_name,nccl_dtype,num_gpus,message_size,latency\n";
  KernelTables tables;
  ASSERT_TRUE(tables.read_collectives(header + "all_gather,half,1,1024,1\nall_gather,half,2,1024,3\n"));
  EXPECT_NEAR(*tables.collective_seconds(GroupOperation::all_gather, 2, 2048), 3e-3, 1e-12);
  ASSERT_TRUE(tables.read_collectives(header + "all_gather,half,1,1024,1\n"));
  EXPECT_FALSE(tables.collective_seconds(GroupOperation::all_gather, 2, 2048)) << "no table: the links' rate";
  EXPECT_EQ(tables.read_collectives(header + "all_gather,half,2.5,1024,1\n").error(),
            "2: num_gpus: expected a whole number of at most 1048576, got 2.5");
  EXPECT_EQ(tables.read_collectives(header + "all_gather,half,1e20,1024,1\n").error(),
            "2: num_gpus: expected a whole number of at most 1048576, got 1e+20");
}

// The device is half as fast. Products and attention take twice as long. Of a collective, only the time
// beyond the latency of 1 ms doubles.
TEST(KernelTables, OfAnotherSpeedReachTheSamePartOfIt) {
  KernelTables tables;
  ASSERT_TRUE(tables.read_gemms("dtype,m,n,k,us\nbf16,1024,1024,1024,10\nfp8,1024,1024,1024,5\n", {}));
  ASSERT_TRUE(tables.read_attention("dtype,head_dim,heads,kv_heads,batch,seq,us\nbf16,128,8,8,1,1024,10\n"));
  ASSERT_TRUE(
      tables.read_collectives("op_name,nccl_dtype,num_gpus,message_size,latency\n"
                              "all_gather,half,2,512,1\nall_gather,half,2,1024,0.9\n"
                              "all_gather,half,2,2048,3\n"));
  const double rate = *tables.attention_rate({.heads = 8, .kv_heads = 8, .sequence = 1024});
  tables.scale({.products = {0.5, 1, 1}, .links = 0.5});
  const GemmShape shape{.m = 1024, .n = 1024, .k = 1024};
  EXPECT_NEAR(*tables.gemm_seconds(GemmPrecision::bf16, shape, {}), 20e-6, 1e-12);
  EXPECT_NEAR(*tables.gemm_seconds(GemmPrecision::fp8, shape, {}), 5e-6, 1e-12);
  EXPECT_NEAR(*tables.attention_rate({.heads = 8, .kv_heads = 8, .sequence = 1024}) / rate, 0.5, 1e-12);
  EXPECT_NEAR(*tables.collective_seconds(GroupOperation::all_gather, 2, 1024), 1e-3, 1e-12);
  EXPECT_NEAR(*tables.collective_seconds(GroupOperation::all_gather, 2, 2048), 0.9e-3, 1e-12) << "noise";
  EXPECT_NEAR(*tables.collective_seconds(GroupOperation::all_gather, 2, 4096), 5e-3, 1e-12);
}

TEST(StatedKernels, AreTheMeasuredOnesOfADeviceAsItIsSold) {
  for (const DeviceType& device : device_types()) {
    if (!device.has_own_kernels) continue;
    EXPECT_EQ(stated_kernels(device), built_in_kernels(device)) << device.name;
  }
}

TEST(StatedKernels, AreAsMuchSlowerAsTheDeviceIsSaidToBe) {
  const DeviceType& sold = *find_device_type("h100");
  DeviceType stated = sold;
  stated.bf16_flops_per_second /= 4;
  stated.fp8_flops_per_second /= 2;
  stated.nvlink_bytes_per_second /= 10;
  const auto usual = built_in_kernels(sold);
  const auto own = stated_kernels(stated);
  const GemmShape shape{.m = 8192, .n = 1024, .k = 8192};
  const auto times = [&](GemmPrecision precision) {
    return *own->gemm_seconds(precision, shape, rates_of(stated, precision)) /
           *usual->gemm_seconds(precision, shape, rates_of(sold, precision));
  };
  EXPECT_NEAR(times(GemmPrecision::bf16), 4, 1e-9);
  EXPECT_NEAR(times(GemmPrecision::fp8), 2, 1e-9);
  constexpr double kBytes = 1 << 28;
  EXPECT_NEAR(*own->collective_seconds(GroupOperation::all_gather, 8, kBytes) /
                  *usual->collective_seconds(GroupOperation::all_gather, 8, kBytes),
              10, 0.3)
      << "but for the latency";
  stated = sold;
  stated.nvlink_efficiency /= 3;
  EXPECT_GT(*stated_kernels(stated)->collective_seconds(GroupOperation::all_gather, 8, kBytes),
            2.9 * *usual->collective_seconds(GroupOperation::all_gather, 8, kBytes));
}

// H100, fp8, shape (8192, 1024, 8192): the rate in the table is 515 TFLOP/s with quantisation, and 1367
// TFLOP/s without.
TEST(BuiltInKernels, AnEightBitProductIsWithoutItsQuantisation) {
  const DeviceType& h100 = *find_device_type("h100");
  const GemmShape shape{.m = 8192, .n = 1024, .k = 8192};
  const double seconds =
      *built_in_kernels(h100)->gemm_seconds(GemmPrecision::fp8, shape, rates_of(h100, GemmPrecision::bf16));
  EXPECT_NEAR(shape.flops() / seconds / 1e12, 1367, 1);
}

// A scenario may state slower memory, but the table was measured on the original device. (A process reads the
// tables only once, so this test can fail only if it is the first test that reads them.)
TEST(BuiltInKernels, AreThoseOfTheDeviceThatWasMeasured) {
  DeviceType slow = *find_device_type("h100");
  slow.memory_bytes_per_second /= 20;
  const GemmShape shape{.m = 8192, .n = 1024, .k = 8192};
  const double seconds =
      *built_in_kernels(slow)->gemm_seconds(GemmPrecision::fp8, shape, rates_of(slow, GemmPrecision::bf16));
  EXPECT_NEAR(shape.flops() / seconds / 1e12, 1367, 1);
}

// The collective is an all-gather of 128 MiB (64 Mi values) over eight H100.
TEST(BuiltInKernels, ACollectiveOfTheTable) {
  const auto kernels = built_in_kernels(*find_device_type("h100"));
  EXPECT_NEAR(*kernels->collective_seconds(GroupOperation::all_gather, 8, 134217728), 393e-6, 1e-6);
  EXPECT_EQ(*kernels->collective_seconds(GroupOperation::all_gather, 1, 134217728), 0);
  // Six devices use the measured time of four, scaled by the parts of the tensor that a device receives from
  // others.
  const double four = *kernels->collective_seconds(GroupOperation::all_gather, 4, 134217728);
  EXPECT_NEAR(*kernels->collective_seconds(GroupOperation::all_gather, 6, 134217728),
              four * (5.0 / 6) / (3.0 / 4), 1e-9);
}

TEST(BuiltInKernels, EveryDeviceHasTables) {
  for (const DeviceType& device : device_types()) {
    SCOPED_TRACE(device.name);
    const auto kernels = built_in_kernels(device);
    EXPECT_TRUE(kernels->has_gemms(GemmPrecision::bf16));
    EXPECT_EQ(kernels->has_gemms(GemmPrecision::fp8), device.fp8_flops_per_second > 0);
    EXPECT_EQ(kernels->has_gemms(GemmPrecision::fp4), device.fp4_flops_per_second > 0);
    EXPECT_TRUE(kernels->attention_rate({.heads = 32, .kv_heads = 8, .sequence = 4096}));
    EXPECT_TRUE(kernels->collective_seconds(GroupOperation::all_to_all, 4, 1 << 20));
  }
}

// Compares the compact model with the table to which it was fitted. Large products agree within a few
// percent.
TEST(GemmModel, IsNearTheTableOnLargeProducts) {
  const DeviceType& h100 = *find_device_type("h100");
  const GemmConstants constants{.tile_efficiency = 0.8177,
                                .extra_depth = 125.7,
                                .small_tiles = 0.002414,
                                .memory_efficiency = 0.8397,
                                .launch_us = 2.389,
                                .tail = 0.8959,
                                .quantise = 0};
  for (const auto& [m, n, k] : {std::array{4096.0, 10240.0, 8192.0}, std::array{8192.0, 8192.0, 8192.0},
                                std::array{8192.0, 16384.0, 16384.0}}) {
    const double table = *built_in_kernels(h100)->gemm_seconds(GemmPrecision::bf16, {.m = m, .n = n, .k = k},
                                                               rates_of(h100, GemmPrecision::bf16));
    const double model = modelled_gemm_seconds(m, n, k, 2, constants, rates_of(h100, GemmPrecision::bf16));
    EXPECT_NEAR(model / table, 1, 0.12) << m << " " << n << " " << k;
  }
}

// Tests products that the user measured: the shapes of the three products, and the time of a layer that uses
// them.

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

// 20 groups of 100 and of 400 rows, in 1 ms and in 2 ms: a quarter and half of a peak of 400 TFLOP/s.
TEST(GroupedRates, FallWithTheRowsOfAGroup) {
  const GroupedRates rates = ProductTable::parse(
                                 "product,groups,m,n,k,us\n"
                                 "forward,20,100,5000,5000,1000\n"
                                 "forward,20,400,5000,5000,2000\n"
                                 "weight-gradient,20,5000,5000,400,4000\n"
                                 "forward,1,400,5000,5000,1\n")
                                 .value()
                                 .grouped_rates(400e12);
  const auto share = [&](double rows, double wide = 5000) {
    return rates.share(Product::forward, {.m = rows, .n = wide, .k = 5000});
  };
  EXPECT_NEAR(share(100), 0.25, 1e-12);
  EXPECT_NEAR(share(400), 0.5, 1e-12);
  EXPECT_NEAR(share(200), std::sqrt(0.25 * 0.5), 1e-12) << "halfway in logarithms";
  EXPECT_NEAR(share(1'000'000), 0.5, 1e-12);
  EXPECT_NEAR(share(50), 0.125, 1e-12) << "as long as 100 rows";
  EXPECT_NEAR(share(100, 700), 0.25, 1e-12) << "the nearest weight";
  EXPECT_NEAR(rates.share(Product::weight_gradient, {.m = 400, .n = 5000, .k = 5000}), 0.25, 1e-12);
}

TEST(OwnProducts, TakeNoFactorAndHoldTheirAddition) {
  const Workload work = workload_on("b200-sxm", "llama-3.1-70b", 4096);
  KernelTables tables = *built_in_kernels(work.device);
  TermWriter bursts(work, tables);
  bursts.gemm("qkv", kForward);
  // The product, and the addition of its gradient to the sum over microbatches.
  EXPECT_EQ(bursts.take().size(), 2);
  ASSERT_TRUE(tables.read_products(kTable));
  TermWriter own(work, tables);
  own.gemm("qkv", kForward);
  const std::vector<Term> terms = own.take();
  ASSERT_EQ(terms.size(), 1);
  EXPECT_NEAR(terms[0].forward, 450e-6, 1e-12);
  EXPECT_NEAR(terms[0].backward_input, 600e-6, 1e-12);
  EXPECT_NEAR(terms[0].backward_weight, 700e-6, 1e-12);
  // If the table lacks one of the three products of a shape, the tables of short bursts are used.
  TermWriter other(work, tables);
  EXPECT_FALSE(other.own_products("experts fc1", 20, {.m = 1232, .n = 3072, .k = 5120}));
}

}  // namespace
}  // namespace penstock
