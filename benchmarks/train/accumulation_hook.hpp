// AccumulationHook: calls a function after each accumulation of a parameter's gradient.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <memory>
#include <utility>

namespace kolo::bench {

class AccumulationHook : public torch::autograd::FunctionPostHook {
 public:
  using Node = decltype(torch::autograd::Edge::function);

  /// Active while the returned node exists; autograd holds it weakly.
  static Node add(const at::Tensor& parameter, std::function<void()> call) {
    Node node = torch::autograd::impl::grad_accumulator(parameter);
    node->add_post_hook(std::unique_ptr<FunctionPostHook>(new AccumulationHook(std::move(call))));
    return node;
  }
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    call_();
    return outputs;
  }

 private:
  explicit AccumulationHook(std::function<void()> call) : call_(std::move(call)) {}
  std::function<void()> call_;
};

}  // namespace kolo::bench
