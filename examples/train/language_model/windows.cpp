#include "language_model/windows.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cstring>
#include <random>
#include <stdexcept>

namespace language_model {

Text::Text(const std::string& text, std::int64_t context)
    : bytes_(at::empty({static_cast<std::int64_t>(text.size())}, at::kByte)), context_(context) {
  if (bytes_.size(0) <= context) {
    throw std::invalid_argument("a text of " + std::to_string(text.size()) + " bytes has no window of " +
                                std::to_string(context) + " and a byte after it");
  }
  std::memcpy(bytes_.data_ptr(), text.data(), text.size());
}

Windows Text::draw(std::uint64_t seed, std::int64_t step, std::int64_t batch, std::int64_t begin,
                   std::int64_t end) const {
  std::seed_seq seeds{seed, static_cast<std::uint64_t>(step)};
  std::mt19937_64 random(seeds);
  const auto places = static_cast<std::uint64_t>(bytes_.size(0) - context_);
  const at::Tensor at = at::empty({batch}, at::kLong);
  auto* const place = at.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < batch; ++i) place[i] = static_cast<std::int64_t>(random() % places);
  return at_places(at.slice(0, begin, end));
}

std::int64_t Text::overlapping() const {
  return 1 + (bytes_.size(0) - context_ - 1) / (context_ / 2);
}

Windows Text::overlapping(const at::Tensor& numbers) const {
  return at_places(numbers * (context_ / 2));
}

Windows Text::at_places(const at::Tensor& places) const {
  const at::Tensor at = places.unsqueeze(1) + at::arange(context_ + 1, at::kLong);
  const at::Tensor bytes = bytes_.index_select(0, at.flatten()).view(at.sizes()).to(at::kLong);
  return {bytes.slice(1, 0, context_), bytes.slice(1, 1)};
}

}  // namespace language_model
