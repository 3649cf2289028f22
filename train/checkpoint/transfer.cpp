#include "checkpoint/transfer.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <memory>
#include <stdexcept>
#include <utility>

#include "kolo/error.hpp"
#include "ranks/agreement.hpp"

namespace kolo::train {

void on_all_ranks(Communicator& communicator, const char* verb, const std::function<void()>& action) {
  if (const auto complaint = first_complaint(communicator, problem_of(action))) {
    throw Error(
        "rank " + std::to_string(complaint->rank) + " cannot " + verb + " the checkpoint: " + complaint->text,
        {.peer = complaint->rank, .collective = "Checkpoint"});
  }
}

std::string of_rank(int rank) {
  return "rank-" + std::to_string(rank) + '/';
}

PlacedParameter whole_tensor(std::string name, const at::Tensor& values) {
  return {.name = std::move(name), .tensor = values, .whole = values.sizes().vec()};
}

void Transfer::require_as_many(const std::string& name) const {
  if (there_ == nullptr || std::cmp_equal(there_->index().files.size(), ranks_)) return;
  throw std::runtime_error(
      '\'' + name + "' is each rank's own: " + std::to_string(there_->index().files.size()) +
      " ranks saved it, and there are " + std::to_string(ranks_) + ": start as many, or load without it");
}

bool Transfer::wants(const std::string& name) const {
  return !loads() || (has(name) && std::cmp_equal(there_->index().files.size(), ranks_));
}

void Transfer::tensor(PlacedParameter region, std::function<at::Tensor(const at::Tensor&)> make) {
  if (!loads()) {
    held.push_back(std::move(region));
    return;
  }
  if (!has(region.name)) throw std::runtime_error("it has no '" + region.name + "'");
  const auto& [dtype, shape, order, parts] = tensors().at(region.name);
  const std::string mine = make ? dtype : dtype_name(region.tensor.scalar_type());
  const auto is_float = [](const std::string& type) {
    return type == "F32" || type == "F16" || type == "BF16";
  };
  if ((dtype != mine && !(is_float(dtype) && is_float(mine))) || shape != region.whole) {
    throw std::runtime_error('\'' + region.name + "' is " + dtype + ' ' + c10::str(at::IntArrayRef(shape)) +
                             " there, and " + mine + ' ' + c10::str(at::IntArrayRef(region.whole)) + " here");
  }
  const bool is_empty = region.tensor.numel() == 0;
  wanted.emplace(region.name, region);
  then([this, is_empty, type = scalar_type(dtype), region = std::move(region), make = std::move(make)] {
    const at::Tensor values = is_empty ? at::empty({0}, type) : there_->read(region);
    const at::Tensor to = make ? make(values) : region.tensor;
    if (is_empty || to.data_ptr() == values.data_ptr()) return;  // it may be what this rank holds
    to.copy_(values.sizes() == to.sizes() ? values : values.view(to.sizes()));  // a shard has its own sizes
  });
}

std::string Transfer::text_there(const std::string& name) const {
  const at::Tensor bytes = values(name);
  return {static_cast<const char*>(bytes.data_ptr()), bytes.nbytes()};
}

at::Tensor Transfer::values(const std::string& name) const {
  if (!has(name)) throw std::runtime_error("it has no '" + name + "'");
  return there_->read({.name = name, .tensor = {}, .whole = tensors().at(name).shape});
}

void Transfer::text(const std::string& name, bool is_own, const std::function<std::string()>& get,
                    std::function<void(const std::string&)> set) {
  if (loads()) {
    then([set = std::move(set), text = text_there(name)] { set(text); });
  } else if (is_own || rank_ == 0) {
    // The tensor's memory is the text's.
    const auto text = std::make_shared<const std::string>(get());
    held.push_back(
        whole_tensor(name, at::from_blob(
                               const_cast<char*>(text->data()), {static_cast<std::int64_t>(text->size())},
                               [text](void*) {}, at::kByte)));
  }
}

void Transfer::run() {
  const c10::NoGradGuard no_grad;
  for (const auto& step : steps_) step();
}

}  // namespace kolo::train
