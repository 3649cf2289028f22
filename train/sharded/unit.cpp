#include "sharded/unit.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "kolo/arena.hpp"
#include "kolo/error.hpp"
#include "kolo/train/tensor.hpp"

namespace kolo::train {
namespace {

using Memory = std::shared_ptr<std::byte[]>;

void forget(void* memory) {
  delete static_cast<Memory*>(memory);
}

at::DataPtr data_of(const Memory& memory) {
  return {memory.get(), new Memory(memory), forget, at::kCPU};
}

/// A leaf of its own, not a view: optimizers call detach_(), which autograd forbids on views.
at::Tensor tensor_in(const Memory& memory, std::byte* data, at::IntArrayRef sizes, at::IntArrayRef strides,
                     const at::TensorOptions& options) {
  return at::from_blob(
      data, sizes, strides, [memory](void*) {}, options.requires_grad(false));
}

bool is_zero(const at::Tensor& dense) {
  const auto* const bytes = static_cast<const std::byte*>(dense.data_ptr());
  return std::all_of(bytes, bytes + dense.nbytes(), [](std::byte byte) { return byte == std::byte{}; });
}

std::vector<std::int64_t> shape_of_shard(const at::Tensor& parameter, std::uint64_t elements) {
  const auto count = static_cast<std::int64_t>(elements);
  return parameter.dim() > 1 ? std::vector<std::int64_t>{count, 1} : std::vector<std::int64_t>{count};
}

}  // namespace

Unit::Unit(std::vector<NamedTensor> parameters, int rank, int size, Shard shard)
    : shard_(shard),
      dtype_(dtype_of_tensor(parameters.front().tensor.scalar_type())),
      element_bytes_(size_of(dtype_)),
      has_gradient_(parameters.size()) {
  for (const NamedTensor& parameter : parameters) {
    const std::uint64_t begin = count_;
    count_ += static_cast<std::uint64_t>(parameter.tensor.numel());
    members_.push_back({.named = parameter,
                        .begin = begin,
                        .shard = {},
                        .sizes = parameter.tensor.sizes().vec(),
                        .strides = parameter.tensor.strides().vec()});
  }
  const auto ranks = static_cast<std::uint64_t>(size), own = static_cast<std::uint64_t>(rank);
  for (std::uint64_t r = 0; r < ranks; ++r) {
    counts_.push_back(count_ / ranks + (r < count_ % ranks ? 1 : 0));
    if (r < own) own_begin_ += counts_.back();
  }
  own_count_ = counts_[own];

  make_storage();
  if (shard_ == Shard::parameters) {
    own_ = SharedArena::instance().allocate(own_count_ * element_bytes_);
  } else {
    own_ = Memory(whole_, at(whole_, own_begin_));
  }
  for_each_shard([&](Member& member, std::uint64_t offset, std::uint64_t elements) {
    const auto sizes = shape_of_shard(member.named.tensor, elements);
    const std::vector<std::int64_t> strides(sizes.size(), 1);
    member.shard = tensor_in(own_, at(own_, offset), sizes, strides, member.named.tensor.options());
    member.shard.set_requires_grad(true);
  });
  gathered_version_ = version();
  take_values();
  state_ = State::whole;
  release();
}

Unit::~Unit() {
  // The works borrow memory.
  for (Work* const work : {&gather_, &scatter_}) {
    try {
      if (work->valid()) work->wait();
    } catch (const std::exception&) {
      // The caller of wait_gather() or finish_scatter() has the error.
    }
  }
}

std::uint64_t Unit::bytes() const {
  return count_ * element_bytes_;
}

std::uint64_t Unit::version() const {
  std::uint64_t sum = moves_;
  for (const Member& member : members_) sum += static_cast<std::uint64_t>(member.shard._version());
  return sum;
}

std::vector<std::uint64_t> Unit::counts_of(const Member& member) const {
  const std::uint64_t end = member.begin + static_cast<std::uint64_t>(member.named.tensor.numel());
  std::vector<std::uint64_t> result;
  std::uint64_t begin = 0;
  for (const std::uint64_t count : counts_) {
    result.push_back(std::clamp(end, begin, begin + count) - std::clamp(member.begin, begin, begin + count));
    begin += count;
  }
  return result;
}

Buffer Unit::part_of(const Memory& memory, std::uint64_t begin, std::uint64_t count) const {
  return {at(memory, begin), count, dtype_};
}

template <typename Use>
void Unit::for_each_shard(const Use& use) {
  for (Member& member : members_) {
    const std::uint64_t end = member.begin + static_cast<std::uint64_t>(member.named.tensor.numel());
    const std::uint64_t from = std::clamp(member.begin, own_begin_, own_begin_ + own_count_);
    const std::uint64_t to = std::clamp(end, own_begin_, own_begin_ + own_count_);
    use(member, from - own_begin_, to - from);
  }
}

void Unit::make_storage() {
  whole_ = SharedArena::instance().allocate(bytes());
  storage_ = c10::Storage(c10::Storage::use_byte_size_t(), bytes(), data_of(whole_), nullptr, false);
}

bool Unit::is_here(const Member& member) const {
  return member.named.tensor.has_storage() &&
         member.named.tensor.storage().unsafeGetStorageImpl() == storage_.unsafeGetStorageImpl();
}

bool Unit::is_written(const Member& member) const {
  return member.named.tensor._version() != member.written || !is_here(member);
}

/// Moves parameters that lie elsewhere, with their values, into the unit's memory.
void Unit::adopt() {
  const c10::NoGradGuard no_grad;
  for (Member& member : members_) {
    at::Tensor& parameter = member.named.tensor;
    if (is_here(member)) continue;
    const bool is_alike = dtype_of_tensor(parameter.scalar_type()) == dtype_ &&
                          parameter.sizes() == member.sizes && parameter.device().is_cpu();
    if (!is_alike) {
      throw InvalidArgumentError(
          "parameter '" + member.named.name +
              "' has another type or shape than when ShardedDataParallel was made: after "
              "to() and the like make a new one",
          {});
    }
    at::Tensor moved = at::empty({0}, parameter.options().requires_grad(false));
    moved.set_(storage_, static_cast<std::int64_t>(member.begin), member.sizes, member.strides);
    moved.copy_(parameter.detach());
    parameter.set_data(moved);
  }
}

void Unit::require_own() const {
  for (const Member& member : members_) {
    const auto refuse = [&](const char* what) {
      throw InvalidArgumentError("parameter '" + member.named.name + "' " + what, {});
    };
    if (!is_here(member)) {
      refuse(
          "was replaced after ShardedDataParallel was made, which would go on training the one before: load "
          "while whole() is held, and after to() and the like make a new one");
    }
    if (shard_ == Shard::parameters && is_written(member))
      refuse("was written to while whole() was not held: its shards do not have the write");
  }
}

void Unit::take_values() {
  // An optimizer may have moved shards meanwhile: their values are then the newer ones.
  const bool is_moved = !std::exchange(is_written_, false) && gathered_version_ != version();
  std::vector<bool> written;
  for (const Member& member : members_) written.push_back(!is_moved || is_written(member));
  adopt();
  for_each_shard([&](Member& member, std::uint64_t offset, std::uint64_t elements) {
    const bool is_copied =
        shard_ == Shard::parameters && written[static_cast<std::size_t>(&member - members_.data())];
    if (is_copied) std::memcpy(at(own_, offset), at(whole_, own_begin_ + offset), elements * element_bytes_);
    member.written = member.named.tensor._version();
  });
}

void Unit::start_gather(Communicator& communicator, const CallOptions& options) {
  if (state_ == State::gathering && gathered_version_ != version()) wait_gather();
  if (state_ == State::gathering || is_current()) return;
  if (!whole_) {
    whole_ = SharedArena::instance().allocate(bytes());
    storage_.set_data_ptr(data_of(whole_));
  }
  gathered_version_ = version();
  gather_ = communicator.all_gather_async(part_of(own_, 0, own_count_), part_of(whole_, 0, count_), counts_,
                                          options);
  state_ = State::gathering;
}

void Unit::wait_gather() {
  if (state_ != State::gathering) return;
  state_ = State::released;  // where it fails
  std::exchange(gather_, Work()).wait();
  state_ = State::whole;
}

void Unit::release() {
  if (shard_ != Shard::parameters || !whole_) return;
  wait_gather();
  require_own();
  storage_.set_data_ptr(at::DataPtr(nullptr, at::kCPU));
  whole_.reset();
  state_ = State::released;
}

void Unit::provide() {
  if (whole_) return;
  whole_ = SharedArena::instance().allocate(bytes());
  std::memset(whole_.get(), 0xff, bytes());  // NaN
  storage_.set_data_ptr(data_of(whole_));
}

void Unit::begin_gradients() {
  has_gradient_.assign(members_.size(), false);
  used_.assign(members_.size(), 0);
  had_gradient_.clear();
  for (const Member& member : members_) had_gradient_.push_back(member.shard.grad().defined());
  missing_ = members_.size();
  earlier_.reset();
  const auto adds = [](const Member& member) {
    const at::Tensor& gradient = member.shard.grad();
    return gradient.defined() && gradient.numel() > 0 && !is_zero(gradient.contiguous());
  };
  if (std::ranges::none_of(members_, adds)) return;
  earlier_ = SharedArena::instance().allocate(own_count_ * element_bytes_);
  std::memset(earlier_.get(), 0, own_count_ * element_bytes_);
  for_each_shard([&](const Member& member, std::uint64_t offset, std::uint64_t elements) {
    if (!member.shard.grad().defined()) return;
    const at::Tensor gradient = member.shard.grad().contiguous();
    std::memcpy(at(earlier_, offset), gradient.data_ptr(), elements * element_bytes_);
  });
}

void Unit::collect(std::size_t index) {
  const NamedTensor& named = members_[index].named;
  at::Tensor& gradient = named.tensor.mutable_grad();
  if (has_gradient_[index]) {
    throw InvalidArgumentError(
        "the gradient of '" + named.name +
            "' was ready twice in one backward(): parts of the model that backward() computes "
            "anew (checkpointing) must not share parameters with others",
        {});
  }
  if (gradient.defined() && (gradient.layout() != at::kStrided || gradient.requires_grad())) {
    throw InvalidArgumentError(
        "the gradient of '" + named.name +
            "' is sparse, or has a graph of its own (create_graph): it cannot be averaged in shards",
        {});
  }
  if (!gradients_) gradients_ = SharedArena::instance().allocate(bytes());
  std::byte* const place = at(gradients_, members_[index].begin);
  used_[index] = gradient.defined();
  if (gradient.defined()) {
    tensor_in(gradients_, place, named.tensor.sizes(), named.tensor.strides(), named.tensor.options())
        .copy_(gradient);
  } else {
    std::memset(place, 0, named.tensor.nbytes());
  }
  gradient = at::Tensor();
  has_gradient_[index] = true;
  --missing_;
}

void Unit::complete() {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!has_gradient_[i]) collect(i);
  }
}

void Unit::start_scatter(Communicator& communicator, const CallOptions& options) {
  if (shard_ == Shard::optimizer_state) {
    own_gradients_ = Memory(gradients_, at(gradients_, own_begin_));
  } else if (!own_gradients_) {
    own_gradients_ = SharedArena::instance().allocate(own_count_ * element_bytes_);
  }
  scatter_ = communicator.reduce_scatter_async(part_of(gradients_, 0, count_),
                                               part_of(own_gradients_, 0, own_count_), ReduceOp::average,
                                               counts_, options);
}

void Unit::finish_scatter() {
  if (!is_scattering()) return;
  std::exchange(scatter_, Work()).wait();
  if (shard_ != Shard::optimizer_state) gradients_.reset();
  for_each_shard([&](Member& member, std::uint64_t offset, std::uint64_t) {
    const auto in = [&](const Memory& memory) {
      return tensor_in(memory, at(memory, offset), member.shard.sizes(), member.shard.strides(),
                       member.shard.options());
    };
    at::Tensor gradient = in(own_gradients_);
    if (earlier_) gradient.add_(in(earlier_));
    member.shard.mutable_grad() = std::move(gradient);
  });
  earlier_.reset();
}

void Unit::forget_unused(std::span<const std::uint8_t> used_anywhere) {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (used_anywhere[i] == 0 && !had_gradient_[i]) members_[i].shard.mutable_grad() = at::Tensor();
  }
}

}  // namespace kolo::train
