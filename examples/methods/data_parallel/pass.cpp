#include "methods/data_parallel/pass.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "kolo/error.hpp"
#include "methods/data_parallel.hpp"

namespace kolo::methods {
namespace {

/// The length of dimension 0 that all have.
std::int64_t batch_of(const std::vector<at::Tensor>& tensors) {
  const at::Tensor* first = nullptr;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    if (tensor.dim() == 0) {
      throw InvalidArgumentError(
          "DataParallel: an argument is a tensor without dimensions, which cannot be shared out: pass a "
          "number, or "
          "expand it to the batch",
          {});
    }
    if (first == nullptr) first = &tensor;
    if (tensor.size(0) == first->size(0)) continue;
    throw InvalidArgumentError(
        "DataParallel: the arguments have no common dimension 0 to be shared out: one is " +
            c10::str(first->sizes()) + ", another " + c10::str(tensor.sizes()),
        {});
  }
  if (first == nullptr)
    throw InvalidArgumentError("DataParallel: no argument is a tensor that can be shared out", {});
  return first->size(0);
}

/// Rows [begin, end) of what replica `index` of `count` gets.
std::int64_t begin_of(std::int64_t batch, std::size_t index, std::size_t count) {
  return batch * static_cast<std::int64_t>(index) / static_cast<std::int64_t>(count);
}

/// Adds `more` to `sum`, in place where nothing else sees that memory.
void add(at::Tensor& sum, const at::Tensor& more) {
  if (!more.defined()) return;
  if (!sum.defined()) {
    sum = more;
  } else if (sum.layout() == at::kStrided && more.layout() == at::kStrided &&
             sum.storage().use_count() == 1) {
    sum.add_(more);
  } else {
    sum = sum + more;
  }
}

/// For each of `sizes`, which of `count` threads does it: about as much for each.
std::vector<std::size_t> spread(const std::vector<std::int64_t>& sizes, std::size_t count) {
  std::vector<std::size_t> result;
  std::vector<std::int64_t> loads(count);
  for (const std::int64_t size : sizes) {
    const auto least = std::ranges::min_element(loads);
    *least += size;
    result.push_back(static_cast<std::size_t>(least - loads.begin()));
  }
  return result;
}

}  // namespace

void Team::run(std::size_t count, const char* what, const ReplicaThreads::Job& job) {
  const auto errors = threads.run(count, job);
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (!errors[i]) continue;
    const std::string problem = problem_of([&] { std::rethrow_exception(errors[i]); });
    const ReplicaError error("replica " + std::to_string(i) + " of " + std::to_string(replicas.size()) +
                                 ", " + what + ": " + problem,
                             static_cast<int>(i));
    try {
      std::rethrow_exception(errors[i]);
    } catch (...) {
      std::throw_with_nested(error);
    }
  }
}

Pass::Pass(std::shared_ptr<Team> team, const std::vector<at::Tensor>& inputs) : team_(std::move(team)) {
  const std::int64_t batch = batch_of(inputs);
  const std::size_t count =
      std::clamp<std::size_t>(static_cast<std::size_t>(batch), 1, team_->replicas.size());
  parts_.resize(count);
  const bool records = c10::GradMode::is_enabled();
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t begin = begin_of(batch, i, count), end = begin_of(batch, i + 1, count);
    for (const at::Tensor& input : inputs) {
      at::Tensor& own = parts_[i].inputs.emplace_back();
      if (!input.defined()) continue;
      own = input.detach().narrow(0, begin, end - begin);
      if (records && input.requires_grad()) own.set_requires_grad(true);
    }
  }
}

std::vector<at::Tensor> Pass::forward(const Forward& forward) {
  const ModuleParts model(*team_->model);
  for (const Replica& replica : team_->replicas) replica.require_alike(model);
  for (std::size_t i = 0; i < parts_.size(); ++i) team_->replicas[i].follow(model, i == 0);
  team_->run(parts_.size(), "forward",
             [&](std::size_t i) { parts_[i].outputs = forward(i, parts_[i].inputs); });

  require_alike_outputs();
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> gathered;
  for (std::size_t output = 0; output < parts_[0].outputs.size(); ++output) {
    std::vector<at::Tensor> all;
    for (const Part& part : parts_) all.push_back(part.outputs[output]);
    if (!all[0].defined()) {
      gathered.emplace_back();
    } else {
      gathered.push_back(all[0].dim() == 0 ? at::stack(all) : at::cat(all));
    }
  }
  return gathered;
}

void Pass::require_alike_outputs() const {
  for (std::size_t i = 1; i < parts_.size(); ++i) {
    const auto &one = parts_[0].outputs, &other = parts_[i].outputs;
    const auto is_alike = [](const at::Tensor& a, const at::Tensor& b) {
      return a.defined() == b.defined() && (!a.defined() || a.dim() == b.dim());
    };
    if (std::ranges::equal(one, other, is_alike)) continue;
    throw ReplicaError("replica " + std::to_string(i) +
                           " returned other tensors than replica 0 did, in number or " +
                           "dimensions: they cannot be gathered",
                       static_cast<int>(i));
  }
}

std::vector<bool> Pass::requires_gradients() const {
  std::vector<bool> result(parts_[0].outputs.size());
  for (const Part& part : parts_) {
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (part.outputs[i].defined() && part.outputs[i].requires_grad()) result[i] = true;
    }
  }
  return result;
}

void Pass::backward_of(std::size_t replica, std::span<const at::Tensor> gradients, bool keep_graph) {
  std::vector<at::Tensor> roots, slices;
  for (std::size_t output = 0; output < gradients.size(); ++output) {
    const at::Tensor& own = parts_[replica].outputs[output];
    if (!gradients[output].defined() || !own.defined() || !own.requires_grad()) continue;
    roots.push_back(own);
    if (own.dim() == 0) {
      slices.push_back(gradients[output].select(0, static_cast<std::int64_t>(replica)));
    } else {
      std::int64_t begin = 0;
      for (std::size_t i = 0; i < replica; ++i) begin += parts_[i].outputs[output].size(0);
      slices.push_back(gradients[output].narrow(0, begin, own.size(0)));
    }
  }
  if (!roots.empty()) torch::autograd::backward(roots, slices, keep_graph);
}

Pass::Gradients Pass::backward(std::span<const at::Tensor> gradients, bool keep_graph) {
  if (is_spent_) {
    throw InvalidArgumentError(
        "DataParallel: backward() a second time through one forward(): the first one has to retain the graph",
        {});
  }
  is_spent_ = !keep_graph;
  std::vector<std::vector<at::Tensor>> of_inputs(parts_.size()), of_parameters(parts_.size());
  const auto run = [&](std::size_t i) {
    team_->replicas[i].drop_gradients();  // of a backward that threw
    for (at::Tensor& input : parts_[i].inputs) {
      if (input.defined()) take_gradient(input);
    }
    backward_of(i, gradients, keep_graph);
    of_parameters[i] = team_->replicas[i].take_gradients();
    for (at::Tensor& input : parts_[i].inputs)
      of_inputs[i].push_back(input.defined() ? take_gradient(input) : at::Tensor());
    if (!keep_graph) parts_[i].outputs.clear();
  };
  team_->run(parts_.size(), "backward", run);

  Gradients result;
  for (std::size_t input = 0; input < parts_[0].inputs.size(); ++input) {
    std::vector<at::Tensor> all;
    bool is_any = false;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      all.push_back(of_inputs[i][input]);
      is_any = is_any || all.back().defined();
    }
    for (std::size_t i = 0; is_any && i < parts_.size(); ++i) {
      if (!all[i].defined()) all[i] = at::zeros_like(parts_[i].inputs[input]);
    }
    result.inputs.push_back(is_any ? at::cat(all) : at::Tensor());
  }
  result.parameters = add_up(std::move(of_parameters));
  return result;
}

std::vector<at::Tensor> Pass::add_up(std::vector<std::vector<at::Tensor>> gradients) {
  std::vector<at::Tensor> sums(std::move(gradients[0]));
  if (parts_.size() == 1) return sums;
  std::vector<std::int64_t> sizes;
  for (const at::Tensor& parameter : team_->model->parameters()) sizes.push_back(parameter.numel());
  const auto threads = spread(sizes, parts_.size());
  team_->run(parts_.size(), "adding up gradients", [&](std::size_t thread) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (threads[i] != thread) continue;
      for (std::size_t replica = 1; replica < parts_.size(); ++replica) {
        add(sums[i], gradients[replica][i]);
        gradients[replica][i].reset();
      }
    }
  });
  return sums;
}

}  // namespace kolo::methods
