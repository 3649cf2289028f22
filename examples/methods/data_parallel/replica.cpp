#include "methods/data_parallel/replica.hpp"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <string>
#include <utility>

#include "kolo/error.hpp"

namespace kolo::methods {
namespace {

using Named = torch::OrderedDict<std::string, at::Tensor>;

[[noreturn]] void refuse(const std::string& why) {
  throw InvalidArgumentError("DataParallel: " + why, {});
}

void require_alike_tensors(const Named& replica, const Named& model, const std::string& kind) {
  const auto text = [](const Named& tensors, std::size_t i) {
    if (i >= tensors.size()) return std::string("none");
    return "'" + tensors[i].key() + "' of " + c10::str(tensors[i].value().sizes());
  };
  for (std::size_t i = 0; i < std::max(replica.size(), model.size()); ++i) {
    if (text(replica, i) == text(model, i)) continue;
    refuse("a replica is not like the model: " + kind + ' ' + std::to_string(i) + " is " + text(replica, i) +
           ", the model's " + text(model, i));
  }
}

bool is_same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.data_ptr() == b.data_ptr() && a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

/// `own` becomes another tensor over the memory of `model`. They count changes in place together, so that
/// backward finds a parameter that was changed after forward.
void share(at::Tensor& own, const at::Tensor& model) {
  if (!is_same_memory(own, model)) own.set_data(model.variable_data());
  torch::autograd::impl::set_version_counter(own, torch::autograd::impl::version_counter(model));
}

/// Copies the values. They count as no change of `own`: a graph of an earlier forward may hold it, which does
/// not use them again where batch normalization trains.
void copy(at::Tensor& own, const at::Tensor& model) {
  if (own.sizes() == model.sizes() && own.scalar_type() == model.scalar_type()) {
    own.variable_data().copy_(model);
  } else {
    own.set_data(model.variable_data().clone());
  }
}

}  // namespace

Replica::Replica(std::shared_ptr<torch::nn::Module> module, const torch::nn::Module& model)
    : module_(std::move(module)), parts_(*module_) {
  const auto parameters = model.named_parameters();
  require_alike_tensors(module_->named_parameters(), parameters, "parameter");
  require_alike_tensors(module_->named_buffers(), model.named_buffers(), "buffer");
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (parts_.parameters[i].is_same(parts_.parameters[j]) &&
          !parameters[i].value().is_same(parameters[j].value()))
        refuse("'" + parameters[j].key() + "' and '" + parameters[i].key() +
               "' are one parameter in the replica, and two in the model");
    }
  }
}

void Replica::require_alike(const ModuleParts& model) const {
  if (model.parameters.size() != parts_.parameters.size() || model.buffers.size() != parts_.buffers.size() ||
      model.modules.size() != parts_.modules.size()) {
    refuse(
        "parameters, buffers or modules of the model were registered after its replicas were made: make a "
        "new "
        "DataParallel");
  }
}

void Replica::follow(const ModuleParts& model, bool is_first) {
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parts_.parameters.size(); ++i) {
    share(parts_.parameters[i], model.parameters[i]);
    parts_.parameters[i].set_requires_grad(model.parameters[i].requires_grad());
  }
  for (std::size_t i = 0; i < parts_.buffers.size(); ++i) {
    (is_first ? share : copy)(parts_.buffers[i], model.buffers[i]);
  }
  for (std::size_t i = 0; i < parts_.modules.size(); ++i) {
    const bool is_training = model.modules[i]->is_training();
    if (parts_.modules[i]->is_training() != is_training) parts_.modules[i]->train(is_training);
  }
}

at::Tensor take_gradient(at::Tensor& leaf) {
  return std::exchange(leaf.mutable_grad(), at::Tensor());
}

void Replica::drop_gradients() {
  for (at::Tensor& parameter : parts_.parameters) take_gradient(parameter);
}

std::vector<at::Tensor> Replica::take_gradients() {
  std::vector<at::Tensor> gradients;
  for (at::Tensor& parameter : parts_.parameters) gradients.push_back(take_gradient(parameter));
  return gradients;
}

}  // namespace kolo::methods
