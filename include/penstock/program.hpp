#pragma once
/// @file
/// Holds a program, the ordered list of actions of each rank, and its text forms.
///
/// Stable names: @ref penstock::Program, @ref penstock::Action, @ref penstock::ActionKind,
/// @ref penstock::Placement, @ref penstock::StageEdge, @ref penstock::to_text, @ref penstock::parse_program,
/// @ref penstock::parse_pytorch_csv, @ref penstock::to_pytorch_csv, @ref penstock::digest.
///
/// @code{.cpp}
/// const auto program = penstock::parse_pytorch_csv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", "example");
/// if (!program) throw std::runtime_error(program.error());
/// const std::string text = penstock::to_text(*program);
/// std::cout << text.substr(0, text.find('\n')) << '\n';  // penstock program 1
/// std::cout << (penstock::parse_program(text, "example") == *program) << '\n';  // 1
/// @endcode

#include "schedules/ir/action.hpp"          // IWYU pragma: export
#include "schedules/ir/digest.hpp"          // IWYU pragma: export
#include "schedules/ir/program.hpp"         // IWYU pragma: export
#include "schedules/text/program_text.hpp"  // IWYU pragma: export
