#include "tensor/construction.hpp"

#include <ATen/Functions.h>

#include <cmath>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/parallel_model.hpp"
#include "libtorch/thread_state.hpp"
#include "ranks/agreement.hpp"
#include "ranks/holders.hpp"

namespace kolo::train {

at::Tensor linear_values(at::IntArrayRef sizes, std::int64_t inputs, const at::Generator& generator) {
  const double bound = 1 / std::sqrt(static_cast<double>(inputs));
  return at::empty(sizes).uniform_(-bound, bound, generator_or_default(generator));
}

at::Tensor normal_values(at::IntArrayRef sizes, at::Generator generator) {
  return at::empty(sizes).normal_(0, 1, generator_or_default(generator));
}

void require_positive(std::int64_t value, const char* what) {
  if (value < 1) throw InvalidArgumentError(std::to_string(value) + ' ' + what + ": it is 1 or more", {});
}

void require_enough(std::int64_t value, const char* what, int ranks) {
  require_positive(value, what);
  if (value >= ranks) return;
  throw InvalidArgumentError(
      std::to_string(value) + ' ' + what + " cannot be divided among " + std::to_string(ranks) + " ranks",
      {});
}

void require_divides(std::int64_t whole, const char* what, std::int64_t part, const char* by) {
  if (part > 0 && whole % part == 0) return;
  throw InvalidArgumentError(
      std::to_string(whole) + ' ' + what + " cannot be divided by " + std::to_string(part) + ' ' + by, {});
}

void require_probability(double value, const char* what) {
  if (value >= 0 && value < 1) return;
  std::ostringstream text;
  text << what << " of " << value << " is not from 0 to below 1";
  throw InvalidArgumentError(text.str(), {});
}

void require_features(const at::Tensor& x, std::int64_t features, const char* who) {
  if (x.dim() > 0 && x.size(-1) == features) return;
  throw InvalidArgumentError(std::string(who) + " takes [..., " + std::to_string(features) +
                                 "], not a tensor of " + c10::str(x.sizes()),
                             {});
}

void require_in_vocabulary(const at::Tensor& indices, std::int64_t vocabulary) {
  if (indices.scalar_type() != at::kLong) {
    throw InvalidArgumentError(std::string("indices are int64, not ") + c10::toString(indices.scalar_type()),
                               {});
  }
  if (indices.numel() == 0) return;
  const auto [least, most] = at::aminmax(indices);
  for (const auto index : {least.item<std::int64_t>(), most.item<std::int64_t>()}) {
    if (index >= 0 && index < vocabulary) continue;
    throw InvalidArgumentError(
        "index " + std::to_string(index) + " is not in a vocabulary of " + std::to_string(vocabulary), {});
  }
}

at::Tensor activate(const at::Tensor& x, Activation activation) {
  return activation == Activation::relu ? at::relu(x) : at::gelu(x);
}

const char* name_of_activation(Activation activation) {
  return activation == Activation::relu ? "relu" : "gelu";
}

}  // namespace kolo::train

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

void ParallelLayer::begin_construction(const char* who, const std::string& text,
                                       const at::Generator* generator,
                                       const std::function<void()>& require_valid) {
  agree_on_module(who, group_, text, generator, require_valid);
  text_ = "kolo::" + std::string(who) + '(' + text;
}

at::Tensor ParallelLayer::register_slice(const std::string& name, const at::Tensor& whole,
                                         std::int64_t dimension, const Slice& slice) {
  slices_.push_back({name, dimension, slice, whole.size(dimension)});
  return register_parameter(
      name, whole.narrow(dimension, slice.begin, slice.length).clone(at::MemoryFormat::Contiguous));
}

void ParallelLayer::pretty_print(std::ostream& stream) const {
  stream << text_;
  for (const auto& [name, dimension, slice, whole] : slices_)
    stream << ", " << name << " from " << slice.begin << " to " << slice.end() << " of " << whole;
  stream << ')';
}

}  // namespace kolo
