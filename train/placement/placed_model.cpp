#include "kolo/train/parallel_model.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/parallel_layers.hpp"
#include "placement/placement.hpp"
#include "placement/regions.hpp"
#include "ranks/agreement.hpp"
#include "ranks/holders.hpp"
#include "ranks/model.hpp"

namespace kolo {
namespace train {
namespace {

using nlohmann::json;

/// What ranks tell each other of a parameter: name, type, whether it is trained, sizes, order, and of the
/// region dimension, cut and range, each with begin and length, or without any.
using Described = std::tuple<std::string, int, bool, Sizes, Sizes, std::int64_t, Sizes, Sizes>;

Sizes numbers_of(const std::optional<Slice>& slice) {
  return slice ? Sizes{slice->begin, slice->length} : Sizes();
}

std::optional<Slice> slice_from(const Sizes& numbers) {
  return numbers.empty() ? std::optional<Slice>() : Slice{numbers.at(0), numbers.at(1)};
}

}  // namespace

Region shortest_region(const PlacedParameter& placed) {
  Region region = placed.region;
  if (region.cut == cut_of(placed.whole, {.dimension = region.dimension})) region.cut.reset();
  if (!region.cut) region.dimension = 0;
  const bool is_all = region.range && region.range->length == element_count(cut_sizes(placed.whole, region));
  if (is_all && placed.order.empty()) region.range.reset();
  return region;
}

std::string describe(const std::vector<PlacedParameter>& parameters) {
  std::vector<Described> all;
  for (const PlacedParameter& one : parameters) {
    require_region(one.name, one.whole, one.order, one.region);
    const std::int64_t count = range_of(one.whole, one.region).length;
    if (one.tensor.numel() != count) {
      throw InvalidArgumentError('\'' + one.name + "' has " + std::to_string(one.tensor.numel()) +
                                     " elements for a region of " + std::to_string(count),
                                 {});
    }
    const Region region = shortest_region(one);
    all.emplace_back(one.name, static_cast<int>(one.tensor.scalar_type()), one.is_trained, one.whole,
                     region.range ? one.order : Sizes(), region.dimension, numbers_of(region.cut),
                     numbers_of(region.range));
  }
  return json(all).dump();
}

std::vector<PlacedParameter> described(const std::string& text) {
  std::vector<PlacedParameter> all;
  for (auto& [name, type, is_trained, sizes, order, dimension, cut, range] :
       json::parse(text).get<std::vector<Described>>()) {
    all.push_back({.name = std::move(name),
                   .tensor = at::empty({0}, static_cast<at::ScalarType>(type)),
                   .whole = std::move(sizes),
                   .region = {dimension, slice_from(cut), slice_from(range)},
                   .is_trained = is_trained,
                   .order = std::move(order)});
  }
  return all;
}

std::vector<PlacedModel::Whole> place(const std::vector<std::string>& texts, const char* who) {
  std::vector<PlacedModel::Whole> result;
  std::unordered_map<std::string, std::size_t> places;
  for (std::size_t r = 0; r < texts.size(); ++r) {
    const int rank = static_cast<int>(r);
    for (const auto& [name, tensor, sizes, region, is_trained, is_sparse, order] : described(texts[r])) {
      const at::ScalarType type = tensor.scalar_type();
      const auto [found, is_new] = places.emplace(name, result.size());
      if (is_new) result.push_back({name, type, sizes, order, is_trained, {}});
      PlacedModel::Whole& whole = result[found->second];
      const auto has_range = [](const HeldRegion& one) { return one.region.range.has_value(); };
      if (region.range && std::ranges::none_of(whole.pieces, has_range)) whole.order = order;
      if (whole.type != type || whole.sizes != sizes || whole.is_trained != is_trained ||
          (region.range && whole.order != order)) {
        throw MismatchError(std::string(who) + ": '" + name +
                                "' has another type, other sizes or another order on rank " +
                                std::to_string(rank) + ", or only there it is trained, or not",
                            {.peer = rank, .collective = who});
      }
      if (range_of(sizes, region).length == 0) continue;
      const auto same = std::ranges::find(whole.pieces, region, &HeldRegion::region);
      HeldRegion& piece = same == whole.pieces.end() ? whole.pieces.emplace_back(HeldRegion{region}) : *same;
      piece.ranks.push_back(rank);
    }
  }
  for (PlacedModel::Whole& whole : result) order_regions(whole.name, whole.sizes, whole.pieces);
  return result;
}

}  // namespace train

std::vector<PlacedParameter> placed_parameters(const torch::nn::Module& module) {
  std::unordered_map<const c10::TensorImpl*, TensorParallelModule::SlicedParameter> slices;
  const auto visit = [&](const torch::nn::Module& one) {
    const auto* const divided = dynamic_cast<const TensorParallelModule*>(&one);
    if (divided == nullptr) return;
    const auto own = one.named_parameters(false);
    for (const auto& slice : divided->sliced_parameters())
      slices[own[slice.name].unsafeGetTensorImpl()] = slice;
  };
  visit(module);
  for (const auto& one : module.modules(false)) visit(*one);
  std::vector<PlacedParameter> placed;
  const auto place = [&](const NamedTensor& named, bool is_parameter) {
    if (const auto shard = train::shard_of(named.tensor)) {
      placed.push_back(*shard);
      placed.back().name = named.name;
      return;
    }
    PlacedParameter one{.name = named.name, .tensor = named.tensor, .whole = named.tensor.sizes().vec()};
    one.is_trained = is_parameter && named.tensor.requires_grad();
    if (const auto slice = slices.find(named.tensor.unsafeGetTensorImpl()); slice != slices.end()) {
      one.region = {slice->second.dimension, slice->second.slice};
      one.whole.at(static_cast<std::size_t>(slice->second.dimension)) = slice->second.whole;
    }
    placed.push_back(std::move(one));
  };
  for (const NamedTensor& parameter : train::once(module.named_parameters())) place(parameter, true);
  for (const NamedTensor& buffer : train::once(module.named_buffers())) place(buffer, false);
  return placed;
}

PlacedModel::PlacedModel(std::vector<PlacedParameter> parameters, Communicator holders)
    : state_(std::make_shared<State>()) {
  std::string mine;
  const auto describe = [&] { mine = train::describe(parameters); };
  if (holders.valid()) {
    agree(holders, "PlacedModel", "", describe);
    state_->whole = train::place(train::texts_of_all(holders, mine), "PlacedModel");
  } else {
    describe();
    state_->whole = train::place({mine}, "PlacedModel");
  }
  std::unordered_map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < state_->whole.size(); ++i) places[state_->whole[i].name] = i;
  const int rank = holders.valid() ? holders.rank() : 0;
  for (const PlacedParameter& parameter : parameters) {
    state_->places.push_back(places.at(parameter.name));
    const auto& pieces = state_->whole[state_->places.back()].pieces;
    const auto own = std::ranges::find(pieces, train::shortest_region(parameter), &HeldRegion::region);
    state_->counts.push_back(own != pieces.end() && own->ranks.front() == rank);
  }
  state_->parameters = std::move(parameters);
  state_->holders = std::move(holders);
}

}  // namespace kolo
