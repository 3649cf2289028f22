#include "gradients/join_agreement.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"

namespace kolo::train {

JoinAgreement::JoinAgreement(Communicator communicator, JoinMode mode)
    : communicator_(std::move(communicator)),
      mode_(mode),
      all_(static_cast<std::size_t>(communicator_.size())) {
  constexpr std::array kNames{"divide_by_all", "divide_by_active", "weigh_by_samples"};
  agree(communicator_, "join()", kNames.at(static_cast<std::size_t>(mode)));
}

void JoinAgreement::announce(std::optional<std::uint64_t> samples) {
  if (is_announced_) {
    throw InvalidArgumentError("join(): step() was called twice without a backward() that averages between",
                               {});
  }
  mine_ = {samples ? 1u : 0u, samples.value_or(0)};
  const Buffer all(all_.data(), 2 * all_.size(), DType::uint64);
  work_ = TensorWork(communicator_.all_gather_async(ConstBuffer(&mine_, 2, DType::uint64), all));
  is_announced_ = true;
}

StepShare JoinAgreement::wait() {
  if (!is_announced_) {
    throw InvalidArgumentError(
        "join(): call step() before the forward() of each backward() that averages, so that all ranks know "
        "which of them have data",
        {});
  }
  static_cast<void>(factor());
  is_announced_ = false;
  return share_;
}

double JoinAgreement::factor() {
  if (!is_announced_) return share_.factor;
  work_.wait();
  const auto ranks = static_cast<double>(all_.size());
  double active = 0, samples = 0;
  for (const Word& word : all_) {
    active += static_cast<double>(word.has_data);
    samples += static_cast<double>(word.samples);
  }
  share_ = {.is_over = active == 0, .contributes = mine_.has_data != 0};
  if (share_.is_over) return share_.factor;
  share_.root = static_cast<int>(
      std::ranges::find_if(all_, [](const Word& word) { return word.has_data != 0; }) - all_.begin());
  if (mode_ == JoinMode::divide_by_active) share_.factor = ranks / active;
  if (mode_ == JoinMode::weigh_by_samples)
    share_.factor = samples == 0 ? 0 : ranks * static_cast<double>(mine_.samples) / samples;
  return share_.factor;
}

}  // namespace kolo::train
