// torch.ops.kolo.all_reduce_ as a function of Python that calls the kernel without PyTorch's dispatcher.
#pragma once

#include <pybind11/pybind11.h>

namespace kolo::pytorch {

/// A function of the operator's arguments. What is not plain (subclasses of Tensor, gradients, modes,
/// tracing, profilers) goes to `general`, the operator itself.
pybind11::object make_quick_all_reduce(const pybind11::object& general);

}  // namespace kolo::pytorch
