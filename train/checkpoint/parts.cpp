#include "checkpoint/parts.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "gradients/reducer.hpp"
#include "kolo/train/optim.hpp"
#include "libtorch/archives.hpp"

namespace kolo::train {
namespace {

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

void transfer_layouts(const std::string& name, const std::vector<PlacedParameter>& parameters,
                      Transfer& transfer) {
  std::vector<Reducer*> reducers;
  for (const PlacedParameter& parameter : parameters) {
    Reducer* const one = Reducer::of(parameter.tensor);
    if (one == nullptr || std::ranges::find(reducers, one) != reducers.end()) continue;
    const std::string own = of_rank(transfer.rank()) + name + "/layout/" + std::to_string(reducers.size());
    reducers.push_back(one);
    if (!transfer.wants(own)) continue;
    const auto get = [one] {
      const auto [is_rebuilt, order, ends] = one->layout();
      return nlohmann::json(std::tuple(is_rebuilt, order, ends)).dump();
    };
    transfer.text(own, true, get, [one](const std::string& text) {
      const auto [is_rebuilt, order, ends] =
          nlohmann::json::parse(text)
              .get<std::tuple<bool, std::vector<std::size_t>, std::vector<std::size_t>>>();
      one->restore({is_rebuilt, order, ends});
    });
  }
}

void transfer_hook(const std::string& name, GradientHook& hook, Transfer& transfer) {
  const std::string prefix = of_rank(transfer.rank_of_hook()) + name;
  transfer.tensor(whole_tensor(prefix, at::empty({0}, at::kByte)));
  const auto state = std::make_shared<HookState>();
  if (!transfer.loads()) {
    *state = hook.state();
    for (auto& [part, values] : *state)  // the tensors' memory is the state's
      transfer.tensor(whole_tensor(
          prefix + '/' + part,
          at::from_blob(
              values.data(), {static_cast<std::int64_t>(values.size())}, [state](void*) {}, at::kFloat)));
    return;
  }
  for (const auto& [part, tensor] : transfer.tensors()) {
    if (!part.starts_with(prefix + '/')) continue;
    const at::Tensor values = transfer.values(part).to(at::kFloat);
    const auto* const begin = static_cast<const float*>(values.data_ptr());
    state->emplace(part.substr(prefix.size() + 1), std::vector<float>(begin, begin + values.numel()));
  }
  transfer.then([&hook, state] { hook.set_state(*state); });
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
  const auto is_one_of = [&optimizer]<typename... Known>(std::type_identity<Known>...) {
    return (... || (typeid(optimizer) == typeid(Known)));
  };
  using namespace torch::optim;
  return is_one_of(std::type_identity<SGD>(), std::type_identity<Adam>(), std::type_identity<AdamW>(),
                   std::type_identity<RMSprop>(), std::type_identity<Adagrad>(), std::type_identity<LARS>(),
                   std::type_identity<LAMB>(), std::type_identity<SparseAdam>());
}

void transfer_optimizer(const std::string& name, bool is_own, torch::optim::Optimizer& optimizer,
                        const PlacedParameters& placed, Transfer& transfer) {
  const auto group_name = [&](std::size_t group) { return name + "/options/" + std::to_string(group); };
  const std::size_t groups = optimizer.param_groups().size();
  if (transfer.loads()) {
    if (!transfer.has(group_name(0))) throw std::runtime_error("it has no '" + name + "'");
    if (!transfer.has(group_name(groups - 1)) || transfer.has(group_name(groups)))
      throw std::runtime_error("its '" + name + "' has not " + std::to_string(groups) + " parameter groups");
  }
  for (std::size_t i = 0; i < groups; ++i) {
    OptimizerOptions& options = optimizer.param_groups()[i].options();
    if (transfer.loads()) {
      const std::string there = transfer.text_there(group_name(i));
      if (!problem_of([&] { set_options(*options.clone(), there); }).empty())
        throw std::runtime_error("its '" + name + "' is of another type of optimizer");
    }
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
    const PlacedParameter named = placed.at(tensor.unsafeGetTensorImpl());
    bool is_there = false;
    visit_state(*state, [&]<typename Value>(const std::string& field, Value& value) {
      PlacedParameter one = named;
      one.name = name + '/' + named.name + '/' + field;
      if (transfer.loads() && !transfer.has(one.name)) return;
      is_there = true;
      if constexpr (std::is_same_v<Value, std::int64_t>) {
        const at::Tensor number = at::scalar_tensor(value, at::kLong);
        transfer.tensor(whole_tensor(one.name, number));
        transfer.then([made, &value, number] { value = number.item<std::int64_t>(); });
      } else if (transfer.loads()) {
        transfer.tensor(one, [made, &value, tensor](const at::Tensor& there) {
          const bool is_alike = there.sizes() == tensor.sizes() && there.strides() == tensor.strides() &&
                                there.device() == tensor.device() &&
                                there.storage().nbytes() == there.nbytes();
          const auto options = tensor.options().dtype(there.scalar_type()).requires_grad(false);
          return value = is_alike ? there : at::empty_like(tensor, options);
        });
      } else if (value.defined()) {
        one.tensor = value;
        transfer.tensor(std::move(one));
      }
    });
    if (made && is_there)
      transfer.then([&optimizer, tensor, made] { state_of(optimizer, tensor) = made->clone(); });
  });
}

}  // namespace kolo::train
