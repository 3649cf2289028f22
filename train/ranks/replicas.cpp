#include "ranks/replicas.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <exception>
#include <sstream>
#include <utility>

#include "kolo/error.hpp"
#include "libtorch/first_use.hpp"
#include "ranks/holders.hpp"

namespace kolo::train {
namespace {

constexpr std::size_t kDirectBytes = 1u << 20;
constexpr std::size_t kAlignment = 64;

std::string describe(const NamedTensor& named) {
  std::ostringstream text;
  text << '\'' << named.name << "' " << c10::toString(named.tensor.scalar_type()) << ' '
       << named.tensor.sizes();
  if (!named.tensor.is_contiguous()) text << " strides " << named.tensor.strides();
  if (!named.note.empty()) text << ", " << named.note;
  if (const std::string part = part_text_of(named.tensor); !part.empty()) text << ", " << part;
  return text.str();
}

}  // namespace

std::string text_of_layout(std::span<const NamedTensor> tensors) {
  std::string text;
  for (const NamedTensor& named : tensors) text += describe(named) + '\n';
  return text;
}

Replicator::Replicator(const std::vector<NamedTensor>& tensors) {
  std::size_t bytes = 0;
  std::vector<std::size_t> offsets;
  for (const NamedTensor& named : tensors) {
    const at::Tensor& tensor = named.tensor;
    if (tensor.nbytes() >= kDirectBytes && tensor.is_non_overlapping_and_dense()) {
      direct_.push_back(tensor);
    } else if (tensor.numel() > 0) {
      offsets.push_back(bytes);
      bytes += (tensor.nbytes() + kAlignment - 1) / kAlignment * kAlignment;
      packed_.push_back(tensor);
    }
    members_.push_back({named, tensor.scalar_type(), tensor.sizes().vec()});
  }
  if (packed_.empty()) return;
  staging_.emplace(bytes);
  for (std::size_t i = 0; i < packed_.size(); ++i) {
    const at::Tensor& tensor = packed_[i];
    staged_.push_back(
        at::from_blob(staging_->data() + offsets[i], tensor.sizes(), tensor.options().requires_grad(false)));
  }
}

void Replicator::require_unchanged() const {
  for (const Member& member : members_) {
    const at::Tensor& tensor = member.named.tensor;
    if (tensor.scalar_type() == member.type && tensor.sizes() == member.sizes) continue;
    std::ostringstream text;
    text << describe(member.named) << " was " << c10::toString(member.type) << ' '
         << at::IntArrayRef(member.sizes)
         << " when DistributedDataParallel was made: after to() and the like make a new one";
    throw InvalidArgumentError(text.str(), {});
  }
}

void Replicator::start(Communicator& communicator, int root) {
  const c10::NoGradGuard no_grad;
  for (const Member& member : members_) FirstUse::touch(member.named.tensor);
  is_root_ = communicator.rank() == root;
  for (const at::Tensor& tensor : direct_) {
    // In the order in which elements lie, on which the ranks have agreed.
    works_.push_back(broadcast_async(tensor.as_strided({tensor.numel()}, {1}), root, communicator));
  }
  if (!staging_) return;
  for (std::size_t i = 0; is_root_ && i < packed_.size(); ++i) staged_[i].copy_(packed_[i]);
  const Buffer all = staging_->buffer(staging_->size(), DType::uint8);
  works_.emplace_back(communicator.broadcast_async(all, root));
}

void Replicator::finish() {
  const c10::NoGradGuard no_grad;
  wait_all(works_);
  // Under another version counter: between a forward and its backward another forward may have come, which
  // keeps statistics of batch normalization that no gradient depends on.
  for (std::size_t i = 0; !is_root_ && i < packed_.size(); ++i) packed_[i].variable_data().copy_(staged_[i]);
}

}  // namespace kolo::train
