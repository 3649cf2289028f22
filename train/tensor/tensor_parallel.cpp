#include "kolo/train/parallel_layers.hpp"

#include <sstream>
#include <string>

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/parallel_model.hpp"
#include "libtorch/random_state.hpp"
#include "ranks/agreement.hpp"
#include "ranks/holders.hpp"

namespace kolo {

void agree_on_module(const char* who, Communicator group, const std::string& text,
                     const at::Generator* generator, const std::function<void()>& require_valid) {
  if (!group.valid()) throw InvalidArgumentError(std::string(who) + ": the communicator is not valid", {});
  std::ostringstream lines;
  lines << text << '\n';
  if (generator) {
    const at::Tensor state = train::RandomState::of(*generator).state;
    lines << "a generator of random numbers, for initial values, in the state " << std::hex
          << train::hash_of(state.data_ptr(), state.nbytes()) << '\n';
  }
  agree(group, who, lines.str(), require_valid);
}

void mark_slices(const torch::nn::Module& module, const Communicator& group) {
  const auto* const divided = dynamic_cast<const TensorParallelModule*>(&module);
  const auto part = train::part_of_group(group, "a module divided among a group",
                                         "pass a PlacedModel of placed_parameters()", true);
  if (!part) return;
  for (const PlacedParameter& parameter : placed_parameters(module)) {
    if (parameter.region.cut || (divided && divided->owns_submodules())) train::hold(parameter.tensor, *part);
  }
}

}  // namespace kolo
