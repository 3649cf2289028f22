#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <numeric>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/parallel_model.hpp"
#include "kolo/train/tensor.hpp"

namespace kolo {
namespace {

using Sizes = std::vector<std::int64_t>;

/// The dimensions as they lie in memory, and where each of them is then.
std::pair<Sizes, Sizes> orders_of(Sizes order, std::size_t dimensions) {
  if (order.empty()) {
    order.resize(dimensions);
    std::iota(order.begin(), order.end(), std::int64_t{0});
  }
  Sizes inverse(dimensions);
  for (std::size_t i = 0; i < dimensions; ++i)
    inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return {std::move(order), std::move(inverse)};
}

/// The part of a whole value that a region cuts out, in one dimension, as its elements lie in memory.
at::Tensor flat_part(const at::Tensor& whole, const Region& region, const Sizes& order) {
  at::Tensor part = whole;
  if (region.cut) part = part.narrow(region.dimension, region.cut->begin, region.cut->length);
  return part.permute(orders_of(order, part.sizes().size()).first).reshape({-1});
}

}  // namespace

std::map<std::string, at::Tensor> gather_whole_parameters(const PlacedModel& model) {
  const c10::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> result;
  Communicator& holders = model.holders();
  const int me = holders.valid() ? holders.rank() : 0;
  for (std::size_t place = 0; place < model.whole().size(); ++place) {
    const PlacedModel::Whole& whole = model.whole()[place];
    at::Tensor value = at::empty(whole.sizes, whole.type);
    for (std::size_t i = 0; i < whole.pieces.size();) {
      // The pieces of one cut follow each other.
      const Region first = whole.pieces[i].region;
      at::Tensor part =
          first.cut ? value.narrow(first.dimension, first.cut->begin, first.cut->length) : value;
      const auto [order, inverse] = orders_of(whole.order, whole.sizes.size());
      const at::Tensor flat = at::empty({part.numel()}, whole.type);
      for (; i < whole.pieces.size() && whole.pieces[i].region.cut == first.cut; ++i) {
        const auto& [rank, region] = whole.pieces[i];
        at::Tensor piece = region.range ? flat.slice(0, region.range->begin, region.range->end()) : flat;
        for (std::size_t k = 0; rank == me && k < model.parameters().size(); ++k) {
          const PlacedParameter& own = model.parameters()[k];
          if (model.place(k) != place || !model.counts(k)) continue;
          piece.copy_(own.region.range ? own.tensor.detach().reshape({-1})
                                       : own.tensor.detach().permute(order).reshape({-1}));
        }
        if (holders.valid()) broadcast_async(piece, rank, holders).wait();
      }
      part.copy_(flat.view(part.permute(order).sizes()).permute(inverse));
    }
    result[whole.name] = std::move(value);
  }
  return result;
}

void load_whole_parameters(const std::vector<PlacedParameter>& parameters,
                           const std::map<std::string, at::Tensor>& whole) {
  const c10::NoGradGuard no_grad;
  for (const bool is_checked : {false, true}) {
    for (const PlacedParameter& parameter : parameters) {
      const auto found = whole.find(parameter.name);
      if (found == whole.end())
        throw InvalidArgumentError("there is no parameter '" + parameter.name + '\'', {});
      if (found->second.sizes() != at::IntArrayRef(parameter.whole)) {
        throw InvalidArgumentError(
            "parameter '" + parameter.name + "' has another shape than " + c10::str(found->second.sizes()),
            {});
      }
      if (!is_checked) continue;
      const auto& region = parameter.region;
      at::Tensor part = found->second;
      if (region.range) {
        part = flat_part(part, region, parameter.order).slice(0, region.range->begin, region.range->end());
      } else if (region.cut) {
        part = part.narrow(region.dimension, region.cut->begin, region.cut->length);
      }
      parameter.tensor.detach().copy_(part.view_as(parameter.tensor));
    }
  }
}

}  // namespace kolo
