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

Unit::Unit(const PlannedUnit& plan, int rank, int size, Shard shard,
           std::optional<at::ScalarType> gather_type)
    : is_frozen_(plan.is_frozen), shard_(shard), has_gradient_(is_frozen_ ? 0 : plan.parameters.size()) {
  const at::ScalarType given = plan.parameters[0].tensor.scalar_type();
  type_ = given == at::kFloat ? gather_type.value_or(given) : given;
  own_type_ = gather_type && !is_frozen_ ? at::kFloat : type_;
  dtype_ = dtype_of_tensor(type_);
  own_dtype_ = dtype_of_tensor(own_type_);
  for (const NamedTensor& parameter : plan.parameters) {
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

  whole_ = SharedArena::instance().allocate(whole_bytes());
  storage_ = c10::Storage(c10::Storage::use_byte_size_t(), whole_bytes(), data_of(whole_), nullptr, false);
  own_ = is_apart() ? allocate_own() : Memory(whole_, at_whole(own_begin_));
  for_each_shard([&](Member& member, std::uint64_t offset, std::uint64_t elements) {
    const at::Tensor& parameter = member.named.tensor;
    const auto sizes = shape_of_shard(parameter, elements);
    const std::vector<std::int64_t> strides(sizes.size(), 1);
    member.shard = tensor_in(own_, at(own_, offset), sizes, strides, parameter.options().dtype(own_type_));
    member.shard.set_requires_grad(!is_frozen_);
    if (type_ == own_type_ || elements == 0) return move_in(member);
    // Before the parameter is rounded.
    const auto begin = static_cast<std::int64_t>(own_begin_ + offset - member.begin);
    const at::Tensor all = parameter.detach().as_strided({parameter.numel()}, {1});
    own_elements(offset, elements).copy_(all.narrow(0, begin, static_cast<std::int64_t>(elements)));
    move_in(member);
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

Memory Unit::allocate_own() const {
  return SharedArena::instance().allocate(own_count_ * size_of(own_dtype_));
}

Buffer Unit::gradients_of(const Memory& memory, std::uint64_t count) const {
  return {memory.get(), count, own_dtype_};
}

at::Tensor Unit::own_elements(std::uint64_t begin, std::uint64_t count) const {
  return tensor_in(own_, at(own_, begin), {static_cast<std::int64_t>(count)}, {1}, own_type_);
}

at::Tensor Unit::own_elements_in_whole(std::uint64_t begin, std::uint64_t count) const {
  return tensor_in(whole_, at_whole(own_begin_ + begin), {static_cast<std::int64_t>(count)}, {1}, type_);
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

bool Unit::is_here(const Member& member) const {
  return member.named.tensor.has_storage() &&
         member.named.tensor.storage().unsafeGetStorageImpl() == storage_.unsafeGetStorageImpl();
}

bool Unit::is_written(const Member& member) const {
  return member.named.tensor._version() != member.written || !is_here(member);
}

void Unit::move_in(const Member& member) {
  const c10::NoGradGuard no_grad;
  const at::Tensor& parameter = member.named.tensor;
  at::Tensor moved = at::empty({0}, parameter.options().dtype(type_).requires_grad(false));
  moved.set_(storage_, static_cast<std::int64_t>(member.begin), member.sizes, member.strides);
  moved.copy_(parameter.detach());
  if (type_ != parameter.scalar_type()) parameter.mutable_grad() = at::Tensor();  // has the type, too
  parameter.set_data(moved);
}

/// Moves parameters that lie elsewhere, with their values, into the unit's memory.
void Unit::adopt() {
  for (const Member& member : members_) {
    const at::Tensor& parameter = member.named.tensor;
    if (is_here(member)) continue;
    const bool is_alike =
        parameter.scalar_type() == type_ && parameter.sizes() == member.sizes && parameter.device().is_cpu();
    if (!is_alike) {
      throw InvalidArgumentError(
          "parameter '" + member.named.name +
              "' has another type or shape than when ShardedDataParallel was made: after "
              "to() and the like make a new one",
          {});
    }
    move_in(member);
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
    if (is_apart() && is_written(member))
      refuse("was written to while whole() was not held: its shards do not have the write");
    if (is_frozen_ && member.named.tensor.requires_grad()) {
      refuse(
          "was frozen when ShardedDataParallel was made, and wants a gradient now, which no shard would get: "
          "make a new one");
    }
  }
}

void Unit::take_values() {
  // An optimizer may have moved shards meanwhile: their values are then the newer ones.
  const bool is_moved = !std::exchange(is_written_, false) && gathered_version_ != version();
  std::vector<bool> written;
  for (const Member& member : members_) written.push_back(!is_moved || is_written(member));
  adopt();
  for_each_shard([&](Member& member, std::uint64_t offset, std::uint64_t elements) {
    member.written = member.named.tensor._version();
    if (!is_apart() || !written[static_cast<std::size_t>(&member - members_.data())]) return;
    const c10::NoGradGuard no_grad;
    const at::Tensor own = own_elements(offset, elements), whole = own_elements_in_whole(offset, elements);
    // What is the shard's value, rounded, was not written.
    own.copy_(type_ == own_type_ ? whole : at::where(own.to(type_) == whole, own, whole.to(own_type_)));
  });
}

void Unit::start_gather(Communicator& communicator, const CallOptions& options) {
  if (state_ == State::gathering && gathered_version_ != version()) wait_gather();
  if (state_ == State::gathering || is_current()) return;
  if (!whole_) {
    whole_ = SharedArena::instance().allocate(whole_bytes());
    storage_.set_data_ptr(data_of(whole_));
  }
  gathered_version_ = version();
  const bool is_rounded = type_ != own_type_;
  if (is_rounded) {
    const c10::NoGradGuard no_grad;
    own_elements_in_whole(0, own_count_).copy_(own_elements(0, own_count_));
  }
  const Buffer own(is_rounded ? at_whole(own_begin_) : own_.get(), own_count_, dtype_);
  gather_ = communicator.all_gather_async(own, Buffer(whole_.get(), count_, dtype_), counts_, options);
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
  whole_ = SharedArena::instance().allocate(whole_bytes());
  std::memset(whole_.get(), 0xff, whole_bytes());  // NaN
  storage_.set_data_ptr(data_of(whole_));
}

void Unit::begin_gradients() {
  if (is_frozen_) return;
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
  earlier_ = allocate_own();
  std::memset(earlier_.get(), 0, own_count_ * size_of(own_dtype_));
  for_each_shard([&](const Member& member, std::uint64_t offset, std::uint64_t elements) {
    if (!member.shard.grad().defined()) return;
    const at::Tensor gradient = member.shard.grad().contiguous();
    std::memcpy(at(earlier_, offset), gradient.data_ptr(), elements * size_of(own_dtype_));
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
  if (!gradients_) gradients_ = SharedArena::instance().allocate(gradient_bytes());
  std::byte* const place = at(gradients_, members_[index].begin);
  used_[index] = gradient.defined();
  if (gradient.defined()) {
    tensor_in(gradients_, place, named.tensor.sizes(), named.tensor.strides(), own_type_).copy_(gradient);
  } else {
    std::memset(place, 0, static_cast<std::size_t>(named.tensor.numel()) * size_of(own_dtype_));
  }
  gradient = at::Tensor();
  has_gradient_[index] = true;
  --missing_;
}

void Unit::complete() {
  for (std::size_t i = 0; i < has_gradient_.size(); ++i) {
    if (!has_gradient_[i]) collect(i);
  }
}

void Unit::start_scatter(Communicator& communicator, const CallOptions& options) {
  if (shard_ == Shard::optimizer_state) {
    own_gradients_ = Memory(gradients_, at(gradients_, own_begin_));
  } else if (!own_gradients_) {
    own_gradients_ = allocate_own();
  }
  scatter_ = communicator.reduce_scatter_async(gradients_of(gradients_, count_),
                                               gradients_of(own_gradients_, own_count_), ReduceOp::average,
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
  for (std::size_t i = 0; i < used_anywhere.size(); ++i) {
    if (used_anywhere[i] == 0 && !had_gradient_[i]) members_[i].shard.mutable_grad() = at::Tensor();
  }
}

}  // namespace kolo::train
