// The operators torch.ops.kolo: collectives that block, by a group's name.
#pragma once

#include <string>

#include "version.hpp"

namespace kolo::pytorch {

/// Makes a group known by a name where PyTorch has no registry of names (1.13).
void name_group(const std::string& name, const c10::intrusive_ptr<Base>& group);

/// The kernel of kolo::all_reduce_. `op`: sum, avg, product, min, max, band, bor or bxor. Blocks.
void all_reduce_in_place(const at::Tensor& data, c10::string_view op, c10::string_view group);

}  // namespace kolo::pytorch
