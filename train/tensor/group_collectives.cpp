#include "tensor/group_collectives.hpp"

#include <ATen/Functions.h>
#include <ATen/WrapDimUtils.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <numeric>
#include <string>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/group_functions.hpp"
#include "kolo/train/slice.hpp"
#include "kolo/train/tensor.hpp"
#include "libtorch/thread_state.hpp"
#include "ranks/span.hpp"

namespace kolo::train {
namespace {

using Sizes = std::vector<std::int64_t>;

/// KOLO_WIRE is meant for gradients that are averaged, not for activations.
constexpr Wire kAsItIs = Wire::native;
const CallOptions kAtOnce{.waits_at_once = true};

std::int64_t sum_of(const Lengths& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

std::int64_t product_of(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

void require_length(const at::Tensor& tensor, std::int64_t dimension, std::int64_t length) {
  if (tensor.size(dimension) == length) return;
  throw InvalidArgumentError("dimension " + std::to_string(dimension) + " of a tensor of " +
                                 c10::str(tensor.sizes()) + " has " + std::to_string(tensor.size(dimension)) +
                                 " elements where this rank's slice has " + std::to_string(length),
                             {});
}

Sizes with_length(const at::Tensor& tensor, std::int64_t dimension, std::int64_t length) {
  Sizes sizes = tensor.sizes().vec();
  sizes[static_cast<std::size_t>(dimension)] = length;
  return sizes;
}

/// The parts of `tensor` along `dimension`, one behind the other.
at::Tensor packed(const at::Tensor& tensor, std::int64_t dimension, const Lengths& lengths) {
  if (dimension == 0) return tensor.contiguous().flatten();
  std::vector<at::Tensor> parts;
  for (const at::Tensor& part : at::split_with_sizes(tensor, lengths, dimension))
    parts.push_back(part.reshape({-1}));
  return at::cat(parts);
}

/// The opposite: parts of these shapes, beside each other along `dimension`.
at::Tensor unpacked(const at::Tensor& flat, const std::vector<Sizes>& shapes, std::int64_t dimension) {
  std::vector<at::Tensor> parts;
  std::int64_t begin = 0;
  for (const Sizes& shape : shapes) {
    const std::int64_t elements = product_of(shape);
    parts.push_back(flat.narrow(0, begin, elements).view(shape));
    begin += elements;
  }
  return at::cat(parts, dimension);
}

std::vector<std::uint64_t> elements_of(const Lengths& lengths, std::int64_t elements_each) {
  std::vector<std::uint64_t> counts;
  for (const std::int64_t length : lengths)
    counts.push_back(static_cast<std::uint64_t>(length * elements_each));
  return counts;
}

std::size_t own(const Communicator& communicator) {
  return static_cast<std::size_t>(communicator.rank());
}

/// All ranks' tensors beside each other along `dimension`, in which rank r's has lengths[r] elements.
at::Tensor gather_of_group(const at::Tensor& tensor, std::int64_t dimension, const Lengths& lengths,
                           Communicator& communicator) {
  const Span span(communicator, "gather over group");
  dimension = at::maybe_wrap_dim(dimension, tensor.dim());
  require_length(tensor, dimension, lengths[own(communicator)]);
  const std::int64_t each = product_of(with_length(tensor, dimension, 1));
  const at::Tensor in = tensor.contiguous();
  const at::Tensor out = at::empty({each * sum_of(lengths)}, in.options());
  all_gather_async(in, out, communicator, elements_of(lengths, each), kAtOnce).order();
  if (dimension == 0) return out.view(with_length(tensor, 0, sum_of(lengths)));
  std::vector<Sizes> shapes;
  for (const std::int64_t length : lengths) shapes.push_back(with_length(tensor, dimension, length));
  return unpacked(out, shapes, dimension);
}

/// Of the sum of all ranks' tensors this rank's part along `dimension`: rank r gets lengths[r] elements.
at::Tensor scattered_sum_of_group(const at::Tensor& tensor, std::int64_t dimension, const Lengths& lengths,
                                  Communicator& communicator) {
  const Span span(communicator, "scatter over group");
  dimension = at::maybe_wrap_dim(dimension, tensor.dim());
  require_length(tensor, dimension, sum_of(lengths));
  const std::int64_t each = product_of(with_length(tensor, dimension, 1));
  const at::Tensor in = packed(tensor, dimension, lengths);
  const at::Tensor out = at::empty(with_length(tensor, dimension, lengths[own(communicator)]), in.options());
  reduce_scatter_async(in, out, communicator, ReduceOp::sum, elements_of(lengths, each), kAtOnce).order();
  return out;
}

at::Tensor exchange_of_group(const at::Tensor& tensor, std::int64_t split, const Lengths& split_lengths,
                             std::int64_t joined, const Lengths& joined_lengths, Communicator& communicator) {
  const Span span(communicator, "exchange over group");
  split = at::maybe_wrap_dim(split, tensor.dim());
  joined = at::maybe_wrap_dim(joined, tensor.dim());
  require_length(tensor, split, sum_of(split_lengths));
  if (split != joined) require_length(tensor, joined, joined_lengths[own(communicator)]);
  const std::int64_t each_sent = product_of(with_length(tensor, split, 1));
  std::vector<Sizes> shapes;
  std::vector<std::uint64_t> received;
  for (const std::int64_t length : joined_lengths) {
    Sizes shape = tensor.sizes().vec();
    if (split != joined) shape[static_cast<std::size_t>(split)] = split_lengths[own(communicator)];
    shape[static_cast<std::size_t>(joined)] = length;
    received.push_back(static_cast<std::uint64_t>(product_of(shape)));
    shapes.push_back(std::move(shape));
  }
  const at::Tensor in = packed(tensor, split, split_lengths);
  const auto elements =
      static_cast<std::int64_t>(std::accumulate(received.begin(), received.end(), std::uint64_t{0}));
  const at::Tensor out = at::empty({elements}, in.options());
  all_to_all_async(in, out, communicator, elements_of(split_lengths, each_sent), received, kAtOnce).order();
  return unpacked(out, shapes, joined);
}

struct OperationPair : torch::CustomClassHolder {
  OperationPair(TensorOperation forward_, TensorOperation backward_)
      : forward(std::move(forward_)), backward(std::move(backward_)) {}
  TensorOperation forward, backward;
};

class Communicate : public torch::autograd::Function<Communicate> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const c10::intrusive_ptr<OperationPair>& pair) {
    context->saved_data["pair"] = c10::IValue::make_capsule(pair);
    return pair->forward(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    refuse_second_derivative("an operation over a group of ranks");
    const auto capsule = context->saved_data["pair"].toCapsule();
    return {static_cast<OperationPair&>(*capsule).backward(gradients[0]), {}};
  }
};

}  // namespace

at::Tensor reduce_of_group(const at::Tensor& tensor, Communicator& communicator, ReduceOp operation) {
  const Span span(communicator, "sum over group");
  const at::Tensor in = tensor.contiguous();
  const at::Tensor out = at::empty_like(in);
  all_reduce_async(in, out, communicator, operation, {.wire = kAsItIs, .waits_at_once = true}).order();
  return out;
}

std::uint64_t number_of_group(const at::Generator& generator, Communicator& communicator) {
  std::uint64_t number = draw(generator);
  communicator.broadcast(Buffer(&number, 1, DType::uint64), 0);
  return number;
}

at::Tensor communicate(const at::Tensor& x, TensorOperation forward, TensorOperation backward) {
  return Communicate::apply(x, c10::make_intrusive<OperationPair>(std::move(forward), std::move(backward)));
}

void refuse_second_derivative(const char* what) {
  if (!c10::GradMode::is_enabled()) return;
  throw InvalidArgumentError(std::string(what) + " has no second derivative (create_graph)", {});
}

TensorOperation exchange(std::int64_t split, Lengths split_lengths, std::int64_t joined,
                         Lengths joined_lengths, Communicator group) {
  return [=](const at::Tensor& x) mutable {
    return exchange_of_group(x, split, split_lengths, joined, joined_lengths, group);
  };
}

}  // namespace kolo::train

namespace kolo {
namespace {

/// An output that is not its input, as autograd wants it.
at::Tensor unchanged(const at::Tensor& x) {
  return x.view_as(x);
}

/// Of all ranks, along a dimension of which this rank has a slice.
train::Lengths lengths_of(const at::Tensor& slice, std::int64_t dimension, std::int64_t whole,
                          const Communicator& group) {
  return slice_lengths(whole > 0 ? whole : group.size() * slice.size(dimension), group.size());
}

train::TensorOperation take(const Slice& own, std::int64_t dimension) {
  return [dimension, own](const at::Tensor& x) {
    return x.narrow(dimension, own.begin, own.length).clone(at::MemoryFormat::Contiguous);
  };
}

train::TensorOperation gather(std::int64_t dimension, train::Lengths lengths, Communicator group) {
  return [=](const at::Tensor& x) mutable { return train::gather_of_group(x, dimension, lengths, group); };
}

train::TensorOperation scatter_sum(std::int64_t dimension, train::Lengths lengths, Communicator group) {
  return [=](const at::Tensor& x) mutable {
    return train::scattered_sum_of_group(x, dimension, lengths, group);
  };
}

train::TensorOperation reduce(Communicator group) {
  return [group](const at::Tensor& x) mutable { return train::reduce_of_group(x, group); };
}

}  // namespace

at::Tensor copy_to_group(const at::Tensor& x, const Communicator& group) {
  if (group.size() == 1) return x;
  return train::communicate(x, unchanged, reduce(group));
}

at::Tensor reduce_from_group(const at::Tensor& x, const Communicator& group) {
  if (group.size() == 1) return x;
  return train::communicate(x, reduce(group), [](const at::Tensor& above) { return above; });
}

at::Tensor split_to_group(const at::Tensor& x, std::int64_t dimension, const Communicator& group) {
  if (group.size() == 1) return x;
  const std::int64_t whole = x.size(dimension);
  return train::communicate(x, take(slice_of(whole, group.rank(), group.size()), dimension),
                            gather(dimension, slice_lengths(whole, group.size()), group));
}

at::Tensor gather_from_group(const at::Tensor& x, std::int64_t dimension, const Communicator& group,
                             std::int64_t whole) {
  return gather_from_group(x, dimension, group, lengths_of(x, dimension, whole, group));
}

at::Tensor gather_from_group(const at::Tensor& x, std::int64_t dimension, const Communicator& group,
                             const std::vector<std::int64_t>& lengths) {
  if (group.size() == 1) return x;
  const auto own = lengths.begin() + group.rank();
  return train::communicate(x, gather(dimension, lengths, group),
                            take({std::accumulate(lengths.begin(), own, std::int64_t{0}), *own}, dimension));
}

at::Tensor gather_sequence(const at::Tensor& x, std::int64_t dimension, const Communicator& group,
                           std::int64_t whole) {
  if (group.size() == 1) return x;
  const auto lengths = lengths_of(x, dimension, whole, group);
  return train::communicate(x, gather(dimension, lengths, group), scatter_sum(dimension, lengths, group));
}

at::Tensor scatter_sequence(const at::Tensor& x, std::int64_t dimension, const Communicator& group) {
  if (group.size() == 1) return x;
  const auto lengths = slice_lengths(x.size(dimension), group.size());
  return train::communicate(x, scatter_sum(dimension, lengths, group), gather(dimension, lengths, group));
}

at::Tensor all_to_all(const at::Tensor& x, std::int64_t split, std::int64_t joined, const Communicator& group,
                      std::int64_t whole) {
  split = at::maybe_wrap_dim(split, x.dim());
  joined = at::maybe_wrap_dim(joined, x.dim());
  if (split == joined)
    throw InvalidArgumentError("all_to_all() splits and joins one dimension: they are two", {});
  if (group.size() == 1) return x;
  const auto parts = slice_lengths(x.size(split), group.size()), slices = lengths_of(x, joined, whole, group);
  return train::communicate(x, train::exchange(split, parts, joined, slices, group),
                            train::exchange(joined, slices, split, parts, group));
}

}  // namespace kolo
