#include "sparse.hpp"

#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/irange.h>

#include "kolo/error.hpp"
#include "kolo/trouble.hpp"
#include "tensors.hpp"

namespace kolo::pytorch {
namespace {

/// Of the empty message by which a thread tells its own rank's call that a sum is over.
constexpr int kEndTag = 0x7fffffff;

using Numbers = std::vector<std::int64_t>;

std::string text_of(const std::int64_t* shape, std::int64_t length) {
  std::string text = std::to_string(shape[0]) + " sparse dimensions of [";
  for (std::int64_t i = 1; i < length; ++i) text += (i > 1 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace

struct SparseSums::Sum {
  Numbers shape, shapes;  // number of sparse dimensions, and all sizes: of this rank, and of all
  std::vector<std::uint64_t> rows;
  at::Tensor values;
  std::uint64_t length = 1, width = 1;
  std::pair<std::vector<std::uint64_t>, std::vector<std::byte>> result;
  std::exception_ptr error;

  explicit Sum(const at::Tensor& tensor) {
    shape.push_back(tensor.sparse_dim());
    shape.insert(shape.end(), tensor.sizes().begin(), tensor.sizes().end());
    for (const auto i : c10::irange(tensor.dim()))
      (i < tensor.sparse_dim() ? length : width) *= static_cast<std::uint64_t>(tensor.size(i));
    if (width == 0)
      throw std::invalid_argument(with_code("all_reduce: rows of the sparse tensor have no elements"));
    const at::Tensor whole = tensor.coalesce().cpu();
    const at::Tensor indices = whole._indices().contiguous();
    values = whole._values().resolve_conj().resolve_neg().contiguous();
    rows.resize(static_cast<std::size_t>(indices.size(1)));
    const auto* index = indices.data_ptr<std::int64_t>();
    for (const auto i : c10::irange(indices.size(0))) {
      for (std::uint64_t& row : rows)
        row = row * static_cast<std::uint64_t>(tensor.size(i)) + static_cast<std::uint64_t>(*index++);
    }
  }

  /// Of the group's ranks, after they have told their shapes.
  void expect_same_shapes() const {
    const auto length_of_one = std::ssize(shape);
    for (auto at = length_of_one; at < std::ssize(shapes); at += length_of_one) {
      if (std::equal(shape.begin(), shape.end(), shapes.begin()) &&
          std::equal(shape.begin(), shape.end(), shapes.begin() + at))
        continue;
      throw MismatchError("all_reduce: sparse tensors differ: rank 0 has " +
                              text_of(&shapes[0], length_of_one) + ", rank " +
                              std::to_string(at / length_of_one) + " has " +
                              text_of(&shapes[static_cast<std::size_t>(at)], length_of_one),
                          {});
    }
  }

  void put_into(const at::Tensor& tensor) const {
    if (error != nullptr) std::rethrow_exception(error);
    const at::AutoDispatchBelowADInplaceOrView guard;
    const auto count = std::ssize(result.first);
    const at::Tensor indices = at::empty({shape[0], count}, at::kLong);
    auto* index = indices.data_ptr<std::int64_t>() + indices.numel();
    auto left = result.first;
    for (auto i = shape[0]; i > 0; --i) {
      const auto size = static_cast<std::uint64_t>(shape[static_cast<std::size_t>(i)]);
      for (auto row = left.rbegin(); row != left.rend(); ++row) {
        *--index = static_cast<std::int64_t>(*row % size);
        *row /= size;
      }
    }
    Numbers sizes(shape.begin() + 1, shape.end());
    Numbers of_values(sizes.begin() + shape[0], sizes.end());
    of_values.insert(of_values.begin(), count);
    const at::Tensor sums = at::empty(of_values, values.options());
    if (!result.second.empty()) std::memcpy(sums.data_ptr(), result.second.data(), result.second.size());
    tensor.copy_(at::_sparse_coo_tensor_unsafe(indices, sums, sizes)._coalesced_(true));
  }
};

void SparseSums::begin(Communicator& communicator, const std::shared_ptr<Call>& call,
                       const at::Tensor& tensor, const CallOptions& options) {
  const auto sum = [&] {
    const at::AutoDispatchBelowADInplaceOrView guard;
    return std::make_shared<Sum>(tensor);
  }();
  sum->shapes.resize(sum->shape.size() * static_cast<std::size_t>(communicator.size()));
  CallOptions named = options;
  named.label = "shape of a sparse tensor";
  const std::lock_guard lock(mutex_);
  const auto told = communicator.all_gather_async(sum->shape, sum->shapes, {}, named);
  call->add(told);
  call->add(communicator.recv_async({}, communicator.rank(), kEndTag));
  call->at_end([sum, tensor] { sum->put_into(tensor); });
  const auto end = [this, previous = last_, communicator, told, sum]() mutable {
    if (previous.valid()) std::exchange(previous, {}).wait();
    try {
      run(communicator, told, *sum);
    } catch (...) {
      sum->error = std::current_exception();
    }
    --running_;
    try {
      communicator.send({}, communicator.rank(), kEndTag);
    } catch (const Error&) {  // the group has failed, and so has the receive
    }
    communicator = {};
  };
  ++running_;
  last_ = std::async(std::launch::async, end);
}

void SparseSums::run(Communicator& communicator, const kolo::Work& told, Sum& sum) {
  told.wait();
  sum.expect_same_shapes();
  if (!sums_) {
    std::vector<int> all(static_cast<std::size_t>(communicator.size()));
    std::iota(all.begin(), all.end(), 0);
    sums_.emplace(communicator.create_group(all));
  }
  sum.result = sums_->sum(sum.length, sum.rows, ConstBuffer(buffer_of(sum.values)), sum.width);
}

void SparseSums::end(Communicator& communicator) {
  const std::lock_guard lock(mutex_);
  try {
    if (running_ > 0) communicator.abort("the process group was destroyed");
    if (last_.valid()) last_.wait();
    sums_.reset();
  } catch (const Error&) {  // a forked child, which has no such thread
    new std::shared_future<void>(std::move(last_));
  }
}

}  // namespace kolo::pytorch
