#include "gradients/table_averaging.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/tensor.hpp"

namespace kolo::train {
namespace {

/// A tensor of the vector's elements, which it keeps.
template <typename T>
at::Tensor tensor_of(std::vector<T> elements, at::IntArrayRef sizes, at::ScalarType type) {
  auto owner = std::make_shared<std::vector<T>>(std::move(elements));
  T* const data = owner->data();
  return at::from_blob(
      data, sizes, [owner = std::move(owner)](void*) {}, at::TensorOptions().dtype(type));
}

/// Rows of a table: `indices` [n] of int64, `values` [n, ...], both contiguous.
struct Rows {
  at::Tensor indices;
  at::Tensor values;

  std::int64_t count() const { return indices.numel(); }
  std::span<const std::uint64_t> index_span() const {
    return {reinterpret_cast<const std::uint64_t*>(indices.data_ptr<std::int64_t>()),
            static_cast<std::size_t>(count())};
  }
};

std::vector<std::int64_t> row_sizes(std::int64_t rows, const at::Tensor& table) {
  std::vector<std::int64_t> sizes = table.sizes().vec();
  sizes.front() = rows;
  return sizes;
}

/// This rank's rows, ascending and each once. Sums of 16-bit floats would overflow before they are divided:
/// those become float32. In the host's memory.
Rows rows_of(const at::Tensor& gradient, const at::Tensor& table) {
  const bool is_short = table.scalar_type() == at::kHalf || table.scalar_type() == at::kBFloat16;
  const at::ScalarType type = is_short ? at::kFloat : table.scalar_type();
  if (!gradient.defined() || gradient._nnz() == 0) {
    return {at::empty({0}, at::kLong), at::empty(row_sizes(0, table), type)};
  }
  const at::Tensor coalesced = gradient.coalesce();
  return {coalesced.indices().view(-1).cpu().contiguous(),
          coalesced.values().to(at::kCPU, type).contiguous()};
}

Rows sum_of(SparseAllReduce& sums, const Rows& mine, const at::Tensor& table) {
  const std::int64_t length = table.size(0);
  const auto width = static_cast<std::uint64_t>(table.numel() / length);
  auto [indices, bytes] = sums.sum(static_cast<std::uint64_t>(length), mine.index_span(), mine.values, width);
  const auto count = static_cast<std::int64_t>(indices.size());
  return {tensor_of(std::move(indices), {count}, at::kLong),
          tensor_of(std::move(bytes), row_sizes(count, table), mine.values.scalar_type())};
}

/// Every rank gets every rank's rows and adds them up.
Rows gather(Communicator& communicator, const Rows& mine, const at::Tensor& table) {
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(communicator.size()));
  const auto count = static_cast<std::uint64_t>(mine.count());
  communicator.all_gather(ConstBuffer(&count, 1, DType::uint64), Buffer(counts));
  const auto total =
      static_cast<std::int64_t>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
  const at::Tensor indices = at::empty({1, total}, at::kLong);
  const at::Tensor values = at::empty(row_sizes(total, table), mine.values.options());
  std::vector<std::uint64_t> elements;
  const auto width = static_cast<std::uint64_t>(table.numel() / table.size(0));
  for (const std::uint64_t rows : counts) elements.push_back(rows * width);
  all_gather_async(mine.indices, indices, communicator, counts).wait();
  all_gather_async(mine.values, values, communicator, elements).wait();
  const at::Tensor sum = at::_sparse_coo_tensor_unsafe(indices, values, table.sizes()).coalesce();
  return {sum.indices().view(-1), sum.values()};
}

}  // namespace

TableAveraging::TableAveraging(std::span<const NamedTensor> parameters, std::span<const std::size_t> tables,
                               Communicator& communicator, SparseMethod method)
    : Averaging(communicator.split(0)), thread_(communicator_) {
  for (const std::size_t parameter : tables)
    tables_.push_back({parameter, parameters[parameter].name, parameters[parameter].tensor.detach()});
  TableAveraging::lay_out(std::vector<std::size_t>(tables.rbegin(), tables.rend()), {});  // as backward runs
  if (method == SparseMethod::all_reduce) sums_.emplace(communicator_);
}

void TableAveraging::lay_out(std::span<const std::size_t> order, std::span<const std::size_t>) {
  std::ranges::sort(tables_, {},
                    [&](const Table& table) { return std::ranges::find(order, table.parameter); });
  std::vector<std::vector<std::size_t>> members;
  for (const Table& table : tables_) members.push_back({table.parameter});
  set_members(std::move(members));
}

void TableAveraging::take(std::size_t bucket, std::size_t, const at::Tensor& parameter) {
  Table& table = tables_[bucket];
  const at::Tensor& gradient = parameter.grad();
  if (gradient.defined()) {
    if (gradient.layout() != at::kSparse) {
      throw InvalidArgumentError(
          "the gradient of '" + table.name +
              "' is dense and a sparse one was expected: where the table is tied to a layer that uses all of "
              "it, make the embedding with sparse(false)",
          {});
    }
    // zero_grad() leaves an empty one that is not of rows.
    if (gradient._nnz() > 0 && gradient.sparse_dim() != 1)
      throw InvalidArgumentError("the sparse gradient of '" + table.name + "' is not one of whole rows", {});
  }
  table.gradient = gradient;
}

void TableAveraging::start(std::size_t bucket) {
  Table& table = tables_[bucket];
  table.started = Clock::now();
  table.job.device = table.values.device();
  table.job.average = [this, &table](Communicator& communicator) { return average(table, communicator); };
  thread_.start(table.job);
}

bool TableAveraging::average(Table& table, Communicator& communicator) {
  const c10::NoGradGuard no_grad;
  Rows mine = rows_of(std::exchange(table.gradient, {}), table.values);
  if (share_.factor != 1) mine.values = mine.values.mul(share_.factor);
  table.bytes = mine.indices.nbytes() + mine.values.nbytes();
  Rows sum = sums_ ? sum_of(*sums_, mine, table.values) : gather(communicator, mine, table.values);
  const at::Tensor values = sum.values.div_(communicator.size()).to(table.values.scalar_type());
  table.average = at::_sparse_coo_tensor_unsafe(sum.indices.view({1, -1}), values, table.values.sizes());
  table.average._coalesced_(true);
  return values.isfinite().all().item<bool>();
}

}  // namespace kolo::train
