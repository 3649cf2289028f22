#include "kolo/train/group_functions.hpp"

#include <ATen/Functions.h>
#include <ATen/WrapDimUtils.h>

#include <numeric>

#include "kolo/error.hpp"
#include "kolo/train/slice.hpp"
#include "tensor/group_collectives.hpp"

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

train::TensorOperation exchange(std::int64_t split, train::Lengths split_lengths, std::int64_t joined,
                                train::Lengths joined_lengths, Communicator group) {
  return [=](const at::Tensor& x) mutable {
    return train::exchange_of_group(x, split, split_lengths, joined, joined_lengths, group);
  };
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
  return train::communicate(x, exchange(split, parts, joined, slices, group),
                            exchange(joined, slices, split, parts, group));
}

}  // namespace kolo
