// Pass: one forward of all replicas, and the backward through it.
#pragma once

#include "kolo/train/libtorch.hpp"

#include <torch/nn/module.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "methods/data_parallel/replica.hpp"
#include "methods/data_parallel/replica_threads.hpp"

namespace kolo::methods {

/// The replicas and their threads.
struct Team {
  Team(std::shared_ptr<torch::nn::Module> model_, std::vector<Replica> replicas_, int operator_threads)
      : model(std::move(model_)),
        replicas(std::move(replicas_)),
        threads(replicas.size(), operator_threads) {}

  /// Runs `job` for the first `count` replicas, each in its thread. Throws ReplicaError when one has thrown;
  /// `what` is what they did, in words.
  void run(std::size_t count, const char* what, const ReplicaThreads::Job& job);

  std::shared_ptr<torch::nn::Module> model;
  std::vector<Replica> replicas;
  ReplicaThreads threads;
};

/// What the autograd graph holds of a forward: the graphs of the replicas, which end at their inputs and
/// outputs. The graph outside has one function in their place, whose backward runs them.
class Pass {
 public:
  using Forward = std::function<std::vector<at::Tensor>(std::size_t replica, const std::vector<at::Tensor>&)>;

  /// Shares `inputs` out. Throws InvalidArgumentError where they cannot be.
  Pass(std::shared_ptr<Team> team, const std::vector<at::Tensor>& inputs);

  /// Returns all replicas' outputs, gathered, without a graph.
  std::vector<at::Tensor> forward(const Forward& forward);
  /// Of each output, whether a replica's has a graph.
  std::vector<bool> requires_gradients() const;

  struct Gradients {
    std::vector<at::Tensor> inputs;      ///< perhaps undefined
    std::vector<at::Tensor> parameters;  ///< as the model lists them; perhaps undefined
  };
  /// `gradients` of the outputs, perhaps undefined. Throws ReplicaError.
  Gradients backward(std::span<const at::Tensor> gradients, bool keep_graph);

 private:
  struct Part {
    std::vector<at::Tensor> inputs;  ///< leaves where they need a gradient
    std::vector<at::Tensor> outputs;
  };

  void require_alike_outputs() const;
  void backward_of(std::size_t replica, std::span<const at::Tensor> gradients, bool keep_graph);
  std::vector<at::Tensor> add_up(std::vector<std::vector<at::Tensor>> gradients);

  std::shared_ptr<Team> team_;
  std::vector<Part> parts_;  ///< of each replica that has a part of the batch
  bool is_spent_ = false;    ///< backward() has been, and did not keep the graphs
};

}  // namespace kolo::methods
