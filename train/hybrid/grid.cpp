#include "kolo/train/grid.hpp"

#include <c10/core/GradMode.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "optim/gradient_norm.hpp"

namespace kolo {
namespace {

std::string text_of(const GridOptions& options) {
  return "data " + std::to_string(options.data) + ", sharded " + std::to_string(options.sharded) +
         ", pipeline " + std::to_string(options.pipeline) + ", tensor " + std::to_string(options.tensor);
}

void require_sound(const GridOptions& options, int ranks) {
  for (const int parts : {options.data, options.sharded, options.pipeline, options.tensor}) {
    if (parts < 1)
      throw InvalidArgumentError("a grid of " + text_of(options) + ": each part is 1 or more", {});
  }
  const std::int64_t cells = std::int64_t{options.data} * options.sharded * options.pipeline * options.tensor;
  if (cells == ranks) return;
  throw InvalidArgumentError("a grid of " + text_of(options) + " takes " + std::to_string(cells) +
                                 " ranks, and there are " + std::to_string(ranks),
                             {});
}

}  // namespace

Grid::Grid(Communicator communicator, const GridOptions& options) : all_(std::move(communicator)) {
  if (!all_.valid()) throw InvalidArgumentError("the communicator is not valid", {});
  agree(all_, "Grid", text_of(options), [&] { require_sound(options, all_.size()); });
  const int rank = all_.rank();
  const int slice = rank % options.tensor;
  const int shard = rank / options.tensor % options.sharded;
  const int replica = rank / options.tensor / options.sharded % options.data;
  const int stage = rank / options.tensor / options.sharded / options.data;
  const auto color = [&](int a, int b, int c) {
    return (a * options.sharded * options.data + b) * options.tensor + c;
  };
  tensor_ = all_.split(rank / options.tensor);
  sharded_ = all_.split(color(stage, replica, slice));
  data_ = all_.split(color(stage, shard, slice));
  pipeline_ = all_.split(color(0, replica * options.sharded + shard, slice));
  replica_ = all_.split(replica);
}

int Grid::batch_part() const {
  return data_.rank() * sharded_.size() + sharded_.rank();
}

double Grid::clip_gradients(const std::vector<at::Tensor>& parameters, double max_norm,
                            const std::function<bool(const at::Tensor&)>& is_replicated) {
  train::check_max_norm(max_norm);
  const c10::NoGradGuard no_grad;
  std::array<double, 1> squares{0};
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    gradients.push_back(parameter.grad());
    // One rank counts what all ranks of the tensor group hold alike.
    if (is_replicated && is_replicated(parameter) && tensor_.rank() != 0) continue;
    squares[0] += train::sum_of_squares(parameter.grad());
  }
  replica_.all_reduce(Buffer(squares.data(), 1, DType::float64));
  const double norm = std::sqrt(squares[0]);
  train::scale_to_norm(gradients, norm, max_norm);
  return norm;
}

}  // namespace kolo
