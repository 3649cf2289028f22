#include "checkpoint/transfer.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <cstring>
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

HeldTensor held_whole(std::string name, const at::Tensor& values, bool is_dealt) {
  return {std::move(name),
          {.dtype = dtype_name(values.scalar_type()), .shape = values.sizes().vec(), .parts = {{}}},
          values,
          is_dealt};
}

void Transfer::require_as_many() const {
  if (there_ == nullptr || std::cmp_equal(there_->index().files.size(), ranks_)) return;
  throw std::runtime_error("it holds ranks' own states of " + std::to_string(there_->index().files.size()) +
                           " ranks, and there are " + std::to_string(ranks_));
}

bool Transfer::wants(const std::string& name) const {
  return !loads() || (has(name) && std::cmp_equal(there_->index().files.size(), ranks_));
}

void Transfer::tensor(HeldTensor region, std::function<at::Tensor()> target) {
  if (!loads()) {
    held.push_back(std::move(region));
    return;
  }
  if (!has(region.name)) throw std::runtime_error("it has no '" + region.name + "'");
  const StoredTensor& there = tensors().at(region.name);
  if (there.dtype != region.whole.dtype || there.shape != region.whole.shape) {
    const auto text_of = [](const StoredTensor& one) {
      return one.dtype + ' ' + c10::str(at::IntArrayRef(one.shape));
    };
    throw std::runtime_error('\'' + region.name + "' is " + text_of(there) + " there, and " +
                             text_of(region.whole) + " here");
  }
  there_->check(there, region.whole);
  wanted.insert(region.name);
  then([this, &there, region = std::move(region), target = std::move(target)] {
    at::Tensor to = target ? target() : region.values;
    if (region.whole.parts.empty() || to.numel() == 0) return;
    const at::Tensor values = there_->read(there, region.whole);
    to.copy_(values.sizes() == to.sizes() ? values : values.view(to.sizes()));  // a shard has its own sizes
  });
}

void Transfer::text(const std::string& name, bool is_own, const std::function<std::string()>& get,
                    std::function<void(const std::string&)> set) {
  if (loads()) {
    if (!has(name)) throw std::runtime_error("it has no '" + name + "'");
    const StoredTensor& there = tensors().at(name);
    const at::Tensor bytes = there_->read(there, {.dtype = there.dtype, .shape = there.shape, .parts = {{}}});
    then([set = std::move(set),
          text = std::string(static_cast<const char*>(bytes.data_ptr()), bytes.nbytes())] { set(text); });
  } else if (is_own || rank_ == 0) {
    const std::string text = get();
    const at::Tensor bytes = at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
    std::memcpy(bytes.data_ptr(), text.data(), text.size());
    held.push_back(held_whole(name, bytes));
  }
}

void Transfer::run() {
  const c10::NoGradGuard no_grad;
  for (const auto& step : steps_) step();
}

}  // namespace kolo::train
