#include "elastic/held_state.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "ranks/agreement.hpp"
#include "ranks/model.hpp"

namespace kolo::train {

HeldState::HeldState(std::vector<PlacedParameter> held) {
  index_.files.resize(1);  // of one rank
  for (PlacedParameter& one : held) {
    index_.tensors[one.name] = {.dtype = dtype_name(one.tensor.scalar_type()), .shape = one.whole};
    held_[one.name] = std::move(one);
  }
}

at::Tensor HeldState::read(const PlacedParameter& here) {
  const PlacedParameter& there = held_.at(here.name);
  if (there.region != here.region)
    throw std::runtime_error("'" + here.name + "' is of another region here than there");
  return there.tensor.detach();
}

bool HeldState::is_part() const {
  return std::ranges::any_of(held_, [](const auto& named) { return named.second.region != Region(); });
}

HeldState HeldState::from(Communicator& communicator, const HeldState* mine, int root) {
  using Described = std::tuple<std::string, std::string, Sizes>;
  const c10::NoGradGuard no_grad;
  std::vector<Described> described;
  if (communicator.rank() == root) {
    for (const auto& [name, one] : mine->held_)
      described.emplace_back(name, dtype_name(one.tensor.scalar_type()), one.whole);
  }
  const std::string text = text_from(communicator, nlohmann::json(described).dump(), root);
  std::vector<PlacedParameter> held;
  NamedTensors tensors;
  for (auto& [name, type, sizes] : nlohmann::json::parse(text).get<std::vector<Described>>()) {
    const at::Tensor values = communicator.rank() == root
                                  ? mine->held_.at(name).tensor.detach().cpu().contiguous()
                                  : at::empty(sizes, scalar_type(type));
    tensors.push_back({name, values});
    held.push_back({.name = std::move(name), .tensor = values, .whole = std::move(sizes)});
  }
  Replicator(tensors).run(communicator, root);
  return HeldState(std::move(held));
}

}  // namespace kolo::train
