#pragma once
/// @file
/// Proves that a program is valid and cannot hang, or says why not.
///
/// Stable names: @ref penstock::validate, @ref penstock::lower, @ref penstock::find_hang,
/// @ref penstock::weakest_safe_channel, @ref penstock::Hang, @ref penstock::ChannelOptions,
/// @ref penstock::ChannelModel, @ref penstock::smallest_counterexample, @ref penstock::Counterexample.
///
/// @code{.cpp}
/// // Rank 0 posts its RECV before the SEND that its partner waits for. One queue for each rank then hangs.
/// const penstock::Program program =
///     penstock::parse_pytorch_csv("0F0,0RECV_B0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", "x").value();
/// std::cout << penstock::validate(program).has_value() << '\n';  // 1
/// penstock::CostTable costs;  // only the sizes of eager messages count
/// costs.stages.resize(2);
/// costs.edges.resize(1);
/// const auto hang = penstock::find_hang(program, {.model = penstock::ChannelModel::rank}, costs);
/// std::cout << penstock::to_text(hang->cycle.front().action) << " waits\n";  // 1F0 waits
/// const auto safe = penstock::weakest_safe_channel(program, {}, costs);
/// std::cout << penstock::to_text(*safe) << '\n';  // direction
/// @endcode

#include "schedules/check/channel_check.hpp"    // IWYU pragma: export
#include "schedules/check/validate.hpp"         // IWYU pragma: export
#include "schedules/ir/channel.hpp"             // IWYU pragma: export
#include "schedules/passes/counterexample.hpp"  // IWYU pragma: export
#include "schedules/passes/passes.hpp"          // IWYU pragma: export
