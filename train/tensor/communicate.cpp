#include "tensor/communicate.hpp"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <string>
#include <utility>

#include "kolo/error.hpp"

namespace kolo::train {
namespace {

struct OperationPair : torch::CustomClassHolder {
  OperationPair(TensorOperation forward_, TensorOperation backward_)
      : forward(std::move(forward_)), backward(std::move(backward_)) {}
  TensorOperation forward, backward;
};

class Communicate : public torch::autograd::Function<Communicate> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const c10::intrusive_ptr<OperationPair>& pair) {
    context->saved_data["pair"] = c10::IValue::make_capsule(pair);
    return pair->forward(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    refuse_second_derivative("an operation over a group of ranks");
    const auto capsule = context->saved_data["pair"].toCapsule();
    return {static_cast<OperationPair&>(*capsule).backward(gradients[0]), {}};
  }
};

}  // namespace

at::Tensor communicate(const at::Tensor& x, TensorOperation forward, TensorOperation backward) {
  return Communicate::apply(x, c10::make_intrusive<OperationPair>(std::move(forward), std::move(backward)));
}

void refuse_second_derivative(const char* what) {
  if (!c10::GradMode::is_enabled()) return;
  throw InvalidArgumentError(std::string(what) + " has no second derivative (create_graph)", {});
}

}  // namespace kolo::train
