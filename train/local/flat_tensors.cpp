#include "local/flat_tensors.hpp"

#include <c10/core/GradMode.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/tensor.hpp"
#include "ranks/failure.hpp"
#include "ranks/wait_all.hpp"

namespace kolo::train {
namespace {

/// Whether no value has all bits of its exponent set.
template <typename Bits>
bool have_exponents(const at::Tensor& flat, Bits exponent) {
  const auto* const bytes = static_cast<const std::byte*>(flat.data_ptr());
  const auto count = static_cast<std::size_t>(flat.numel());
  bool unbounded = false;
  for (std::size_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes + i * sizeof bits, sizeof bits);
    unbounded |= (bits & exponent) == exponent;
  }
  return !unbounded;
}

bool is_finite(const at::Tensor& flat) {
  switch (flat.scalar_type()) {
    case at::kDouble:
      return have_exponents<std::uint64_t>(flat, 0x7FF0000000000000u);
    case at::kHalf:
      return have_exponents<std::uint16_t>(flat, 0x7C00u);
    case at::kBFloat16:
      return have_exponents<std::uint16_t>(flat, 0x7F80u);
    default:
      return have_exponents<std::uint32_t>(flat, 0x7F800000u);
  }
}

void require_like(const at::Tensor& view, const NamedTensor& named) {
  if (named.tensor.scalar_type() == view.scalar_type() && named.tensor.sizes() == view.sizes()) return;
  std::ostringstream text;
  text << '\'' << named.name << "' is " << c10::toString(named.tensor.scalar_type()) << ' '
       << named.tensor.sizes() << " and was " << c10::toString(view.scalar_type()) << ' ' << view.sizes()
       << " at first: after to() and the like make a new object";
  throw InvalidArgumentError(text.str(), {});
}

}  // namespace

FlatTensors::FlatTensors(std::span<const NamedTensor> like) : views_(like.size()) {
  std::vector<at::ScalarType> types;
  for (const NamedTensor& named : like) {
    if (std::ranges::find(types, named.tensor.scalar_type()) == types.end())
      types.push_back(named.tensor.scalar_type());
  }
  for (const at::ScalarType type : types) {
    std::int64_t count = 0;
    for (const NamedTensor& named : like) {
      if (named.tensor.scalar_type() == type) count += named.tensor.numel();
    }
    flats_.push_back(shared_empty({count}, type).zero_());
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < like.size(); ++i) {
      const at::Tensor& tensor = like[i].tensor;
      if (tensor.scalar_type() != type) continue;
      views_[i] = flats_.back().narrow(0, begin, tensor.numel()).view(tensor.sizes());
      begin += tensor.numel();
    }
  }
  works_.reserve(flats_.size());
}

FlatTensors::~FlatTensors() {
  try {
    finish();
  } catch (const std::exception&) {
    // The communicator has failed, which its next call tells.
  }
}

std::uint64_t FlatTensors::bytes() const {
  std::uint64_t sum = 0;
  for (const at::Tensor& flat : flats_) sum += flat.nbytes();
  return sum;
}

bool FlatTensors::are_finite() const {
  return std::ranges::all_of(flats_, is_finite);
}

void FlatTensors::start_average(Communicator& communicator, const CallOptions& options) {
  for (const at::Tensor& flat : flats_)
    works_.push_back(communicator.all_reduce_async(buffer_of(flat), ReduceOp::average, options));
}

std::chrono::nanoseconds FlatTensors::finish() {
  return wait_all(works_);
}

void pack(std::span<const NamedTensor> from, const FlatTensors& to, Communicator& communicator) {
  const c10::NoGradGuard no_grad;
  try {
    for (std::size_t i = 0; i < from.size(); ++i) require_like(to.views()[i], from[i]);
  } catch (const InvalidArgumentError& error) {
    abort_unless_failed(communicator, error.what());
    throw;
  }
  for (std::size_t i = 0; i < from.size(); ++i) to.views()[i].copy_(from[i].tensor);
}

void unpack(const FlatTensors& from, std::span<const NamedTensor> to) {
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < to.size(); ++i) at::Tensor(to[i].tensor).copy_(from.views()[i]);
}

void save_flats(const FlatTensors& flats, torch::serialize::OutputArchive& archive, const std::string& name) {
  for (std::size_t i = 0; i < flats.flats().size(); ++i)
    archive.write(name + std::to_string(i), flats.flats()[i].clone());
}

void load_flats(const FlatTensors& flats, torch::serialize::InputArchive& archive, const std::string& name) {
  for (std::size_t i = 0; i < flats.flats().size(); ++i) {
    at::Tensor saved, flat = flats.flats()[i];
    archive.read(name + std::to_string(i), saved);
    if (saved.scalar_type() != flat.scalar_type() || saved.sizes() != flat.sizes())
      throw std::runtime_error("its " + name + " is that of another model");
    flat.copy_(saved);
  }
}

}  // namespace kolo::train
