#include <c10/core/GradMode.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/libtorch.hpp"
#include "kolo/train/optim.hpp"

namespace kolo {

ExponentialMovingAverage::ExponentialMovingAverage(std::vector<at::Tensor> parameters, double decay)
    : parameters_(std::move(parameters)), decay_(decay) {
  if (!(decay >= 0 && decay < 1)) {
    throw InvalidArgumentError(
        "the decay of a moving average is at least 0 and less than 1: " + std::to_string(decay), {});
  }
  const c10::NoGradGuard no_grad;
  for (const at::Tensor& parameter : parameters_) {
    // In 16 bits a small part of a parameter would be rounded away.
    const bool has_16_bits = parameter.is_floating_point() && parameter.element_size() == 2;
    averages_.push_back(has_16_bits ? parameter.to(at::kFloat) : parameter.clone());
  }
}

void ExponentialMovingAverage::update() {
  if (is_applied_) throw InvalidArgumentError("a moving average that is applied cannot be updated", {});
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < averages_.size(); ++i)
    averages_[i].lerp_(parameters_[i].to(averages_[i].scalar_type()), 1 - decay_);
}

void ExponentialMovingAverage::apply() {
  if (is_applied_) throw InvalidArgumentError("the moving average is applied already", {});
  is_applied_ = true;
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    kept_.push_back(parameters_[i].clone());
    parameters_[i].copy_(averages_[i]);
  }
}

void ExponentialMovingAverage::restore() {
  is_applied_ = false;
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < kept_.size(); ++i) parameters_[i].copy_(kept_[i]);
  kept_.clear();
}

void ExponentialMovingAverage::save(torch::serialize::OutputArchive& archive) const {
  for (std::size_t i = 0; i < averages_.size(); ++i) archive.write(std::to_string(i), averages_[i].detach());
}

void ExponentialMovingAverage::load(torch::serialize::InputArchive& archive) {
  std::vector<at::Tensor> loaded(averages_.size());
  load_or_refuse("ExponentialMovingAverage", [&] {
    if (const std::size_t there = archive.keys().size(); there != averages_.size())
      throw std::runtime_error(std::to_string(there) + " averages for " + std::to_string(averages_.size()));
    for (std::size_t i = 0; i < loaded.size(); ++i) {
      archive.read(std::to_string(i), loaded[i]);
      if (loaded[i].sizes() != averages_[i].sizes())
        throw std::runtime_error("average " + std::to_string(i) + " is of another shape");
    }
  });
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < loaded.size(); ++i) averages_[i].copy_(loaded[i]);
}

}  // namespace kolo
