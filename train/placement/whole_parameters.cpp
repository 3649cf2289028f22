#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <numeric>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/parallel_model.hpp"
#include "kolo/train/tensor.hpp"
#include "placement/placement.hpp"
#include "placement/regions.hpp"

namespace kolo {
namespace {

using train::Sizes;

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

}  // namespace

at::Tensor train::region_in(const at::Tensor& whole, const PlacedParameter& placed) {
  const auto& [dimension, cut, range] = placed.region;
  const at::Tensor part = cut ? whole.narrow(dimension, cut->begin, cut->length) : whole;
  if (!range) return part;
  const Sizes order = orders_of(placed.order, placed.whole.size()).first;
  return part.permute(order).reshape({-1}).slice(0, range->begin, range->end());
}

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
        const auto& [region, ranks] = whole.pieces[i];
        at::Tensor piece = region.range ? flat.slice(0, region.range->begin, region.range->end()) : flat;
        for (std::size_t k = 0; ranks.front() == me && k < model.parameters().size(); ++k) {
          const PlacedParameter& own = model.parameters()[k];
          if (model.place(k) != place || !model.counts(k)) continue;
          piece.copy_(own.region.range ? own.tensor.detach().reshape({-1})
                                       : own.tensor.detach().permute(order).reshape({-1}));
        }
        if (holders.valid()) broadcast_async(piece, ranks.front(), holders).wait();
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
      parameter.tensor.detach().copy_(train::region_in(found->second, parameter).view_as(parameter.tensor));
    }
  }
}

}  // namespace kolo
