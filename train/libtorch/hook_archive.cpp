#include "libtorch/hook_archive.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace kolo::train {

void save_hook(const GradientHook& hook, torch::serialize::OutputArchive& archive) {
  std::int64_t index = 0;
  const HookState state = hook.state();
  archive.write("size", c10::IValue(static_cast<std::int64_t>(state.size())));
  for (const auto& [name, values] : state) {
    const std::string which = std::to_string(index++);
    archive.write("name" + which, c10::IValue(name));
    at::Tensor tensor = at::empty({static_cast<std::int64_t>(values.size())}, at::kFloat);
    std::ranges::copy(values, static_cast<float*>(tensor.data_ptr()));
    archive.write("values" + which, tensor);
  }
}

void load_hook(GradientHook& hook, torch::serialize::InputArchive& archive) {
  c10::IValue size, name;
  archive.read("size", size);
  HookState state;
  for (std::int64_t index = 0; index < size.toInt(); ++index) {
    at::Tensor values;
    archive.read("name" + std::to_string(index), name);
    archive.read("values" + std::to_string(index), values);
    const auto* begin = static_cast<const float*>(values.data_ptr());
    state.emplace(name.toStringRef(), std::vector<float>(begin, begin + values.numel()));
  }
  hook.set_state(state);
}

}  // namespace kolo::train
