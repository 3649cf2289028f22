#include "checkpoint/parts.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <functional>
#include <sstream>
#include <typeinfo>
#include <utility>

#include "gradients/reducer.hpp"
#include "kolo/train/optim.hpp"
#include "libtorch/archives.hpp"

namespace kolo::train {
namespace {

/// Those that average the gradients of these parameters.
std::vector<Reducer*> reducers_of(const std::vector<PlacedParameter>& parameters) {
  std::vector<Reducer*> reducers;
  for (const PlacedParameter& parameter : parameters) {
    Reducer* const one = Reducer::of(parameter.tensor);
    if (one != nullptr && std::ranges::find(reducers, one) == reducers.end()) reducers.push_back(one);
  }
  return reducers;
}

using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamState;

template <typename State, typename... Options>
std::unique_ptr<OptimizerParamState> state_for(const OptimizerOptions& options) {
  if ((... || (dynamic_cast<const Options*>(&options) != nullptr))) return std::make_unique<State>();
  return nullptr;
}

std::string text_of(const OptimizerOptions& options) {
  torch::serialize::OutputArchive archive;
  options.serialize(archive);
  std::ostringstream text;
  archive.save_to(text);
  return text.str();
}

void set_options(OptimizerOptions& options, const std::string& text) {
  std::istringstream stream(text);
  torch::serialize::InputArchive archive;
  archive.load_from(stream);
  options.serialize(archive);
}

template <typename Action>
void for_each_parameter(torch::optim::Optimizer& optimizer, const Action& action) {
  for (auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) action(group.options(), parameter);
  }
}

}  // namespace

std::vector<std::vector<std::int64_t>> layouts_of(const std::vector<PlacedParameter>& parameters) {
  std::vector<std::vector<std::int64_t>> result;
  for (const Reducer* const reducer : reducers_of(parameters)) {
    const auto [is_rebuilt, order, ends] = reducer->layout();
    auto& words = result.emplace_back();
    words = {is_rebuilt ? 1 : 0, static_cast<std::int64_t>(order.size())};
    words.insert(words.end(), order.begin(), order.end());
    words.insert(words.end(), ends.begin(), ends.end());
  }
  return result;
}

void restore_layout(const std::vector<PlacedParameter>& parameters, std::size_t number,
                    std::span<const std::int64_t> layout) {
  const auto reducers = reducers_of(parameters);
  if (number >= reducers.size() || layout.size() < 2 || std::cmp_less(layout.size() - 2, layout[1])) return;
  const auto ends = layout.begin() + 2 + layout[1];
  reducers[number]->restore({layout[0] != 0, {layout.begin() + 2, ends}, {ends, layout.end()}});
}

HeldTensor held_part(std::string name, const PlacedParameter& placed) {
  // Ranks may have other values of buffers; what is of one normalization comes from one rank.
  HeldTensor held = held_whole(std::move(name), placed.tensor, placed.is_trained || placed.whole.size() > 1);
  held.whole.shape = placed.whole;
  StoredPart& part = held.whole.parts[0];
  const auto& [dimension, cut, range] = placed.region;
  if (cut && cut->length != placed.whole[static_cast<std::size_t>(dimension)]) {
    held.whole.dimension = dimension;
    part.slice = {cut->begin, cut->end()};
  }
  if (range) {
    held.whole.order = placed.order;
    const bool is_all = range->length == held.whole.elements(held.whole.slice_of(part));
    if (!is_all || !placed.order.empty()) part.range = {range->begin, range->end()};
  }
  if (placed.tensor.numel() == 0 && held.whole.elements(held.whole.slice_of({})) > 0)
    held.whole.parts.clear();
  return held;
}

std::unique_ptr<OptimizerParamState> make_state(const OptimizerOptions& options) {
  using namespace torch::optim;
  if (auto state = state_for<SGDParamState, SGDOptions, LARSOptions>(options)) return state;
  if (auto state = state_for<AdamParamState, AdamOptions, LAMBOptions>(options)) return state;
  if (auto state = state_for<AdamWParamState, AdamWOptions>(options)) return state;
  if (auto state = state_for<RMSpropParamState, RMSpropOptions>(options)) return state;
  if (auto state = state_for<AdagradParamState, AdagradOptions>(options)) return state;
  throw std::runtime_error("an optimizer has options of an unknown type");
}

bool has_known_states(const torch::optim::Optimizer& optimizer) {
  const std::type_info& type = typeid(optimizer);
  for (const std::type_info* known :
       {&typeid(torch::optim::SGD), &typeid(torch::optim::Adam), &typeid(torch::optim::AdamW),
        &typeid(torch::optim::RMSprop), &typeid(torch::optim::Adagrad), &typeid(LARS), &typeid(LAMB),
        &typeid(SparseAdam)})
    if (*known == type) return true;
  return false;
}

void transfer_optimizer(const std::string& name, bool is_own, torch::optim::Optimizer& optimizer,
                        const NameParameter& parameter, Transfer& transfer) {
  const auto group_name = [&](std::size_t group) { return name + "/options/" + std::to_string(group); };
  const std::size_t groups = optimizer.param_groups().size();
  if (transfer.loads() && (!transfer.has(group_name(groups - 1)) || transfer.has(group_name(groups))))
    throw std::runtime_error("it has no '" + name + "' with " + std::to_string(groups) + " parameter groups");
  for (std::size_t i = 0; i < groups; ++i) {
    OptimizerOptions& options = optimizer.param_groups()[i].options();
    transfer.text(
        group_name(i), is_own, [&] { return text_of(options); },
        [&options](const std::string& text) { set_options(options, text); });
  }
  if (transfer.loads()) transfer.then([&optimizer] { optimizer.state().clear(); });
  for_each_parameter(optimizer, [&](const OptimizerOptions& options, const at::Tensor& tensor) {
    std::shared_ptr<OptimizerParamState> made;
    if (transfer.loads()) made = make_state(options);
    OptimizerParamState* const state = made ? made.get() : find_state(optimizer, tensor);
    if (state == nullptr) return;
    const HeldTensor named = parameter(tensor);
    bool is_there = false;
    visit_state(*state, [&]<typename Value>(const std::string& field, Value& value) {
      HeldTensor one = named;
      one.name = name + '/' + named.name + '/' + field;
      if (transfer.loads() && !transfer.has(one.name)) return;
      is_there = true;
      if constexpr (std::is_same_v<Value, std::int64_t>) {
        const at::Tensor number = at::scalar_tensor(value, at::kLong);
        transfer.tensor(held_whole(one.name, number));
        transfer.then([made, &value, number] { value = number.item<std::int64_t>(); });
      } else if (transfer.loads()) {
        one.whole.dtype = transfer.tensors().at(one.name).dtype;
        transfer.tensor(one, [made, &value, tensor, type = scalar_type(one.whole.dtype)] {
          return value = at::empty_like(tensor, tensor.options().dtype(type).requires_grad(false));
        });
      } else if (value.defined()) {
        one.whole.dtype = dtype_name(value.scalar_type());
        one.values = value;
        transfer.tensor(std::move(one));
      }
    });
    if (made && is_there)
      transfer.then([&optimizer, tensor, made] { state_of(optimizer, tensor) = made->clone(); });
  });
}

}  // namespace kolo::train
