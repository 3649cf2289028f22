#include "kolo/train/parallel_model.hpp"

#include <algorithm>
#include <functional>
#include <iomanip>
#include <sstream>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"
#include "kolo/train/parallel_layers.hpp"
#include "ranks/agreement.hpp"
#include "ranks/holders.hpp"
#include "ranks/model.hpp"

namespace kolo {
namespace {

using Sizes = std::vector<std::int64_t>;
using Whole = PlacedModel::Whole;
using Piece = PlacedModel::Piece;

std::int64_t product(const Sizes& sizes) {
  std::int64_t result = 1;
  for (const std::int64_t size : sizes) result *= size;
  return result;
}

std::string in_quotes(const std::string& name) {
  return '\'' + name + '\'';
}

/// The sizes of what a region cuts out.
Sizes cut_sizes(const Sizes& whole, const Region& region) {
  Sizes sizes = whole;
  if (region.cut) sizes[static_cast<std::size_t>(region.dimension)] = region.cut->length;
  return sizes;
}

Slice cut_of(const Sizes& whole, const Region& region) {
  if (region.cut) return *region.cut;
  return {0, whole.empty() ? 1 : whole[static_cast<std::size_t>(region.dimension)]};
}

Slice range_of(const Sizes& whole, const Region& region) {
  return region.range ? *region.range : Slice{0, product(cut_sizes(whole, region))};
}

bool is_within(const Slice& slice, std::int64_t count) {
  return slice.begin >= 0 && slice.length >= 0 && slice.end() <= count;
}

void require_possible(const PlacedParameter& parameter) {
  const auto& [name, tensor, whole, region, is_trained, has_sparse_gradients, order] = parameter;
  const auto dimensions = static_cast<std::int64_t>(whole.size());
  Sizes sorted = order, all;
  for (std::int64_t i = 0; i < dimensions; ++i) all.push_back(i);
  std::ranges::sort(sorted);
  const bool is_cut = region.cut.has_value();
  const bool has_dimension =
      region.dimension >= 0 && region.dimension < std::max<std::int64_t>(dimensions, 1);
  if (!has_dimension || (is_cut && dimensions == 0) ||
      (is_cut && !is_within(*region.cut, whole[static_cast<std::size_t>(region.dimension)])) ||
      !is_within(range_of(whole, region), product(cut_sizes(whole, region))) ||
      (!order.empty() && sorted != all))
    throw InvalidArgumentError("the region of " + in_quotes(name) + " is not within it", {});
  if (tensor.numel() != range_of(whole, region).length)
    throw InvalidArgumentError(in_quotes(name) + " has " + std::to_string(tensor.numel()) +
                                   " elements for a region of " +
                                   std::to_string(range_of(whole, region).length),
                               {});
}

void write(std::ostream& out, const Sizes& sizes) {
  out << ' ' << sizes.size();
  for (const std::int64_t size : sizes) out << ' ' << size;
}

Sizes read_sizes(std::istream& in) {
  std::size_t count = 0;
  in >> count;
  Sizes sizes(count);
  for (std::int64_t& size : sizes) in >> size;
  return sizes;
}

/// What the other holders have to know, without the name.
std::string text_of(const PlacedParameter& parameter) {
  std::ostringstream out;
  out << static_cast<int>(parameter.tensor.scalar_type()) << ' ' << parameter.is_trained;
  write(out, parameter.whole);
  write(out, parameter.order);
  const auto [cut, range] =
      std::pair(cut_of(parameter.whole, parameter.region), range_of(parameter.whole, parameter.region));
  out << ' ' << parameter.region.dimension << ' ' << cut.begin << ' ' << cut.length << ' ' << range.begin
      << ' ' << range.length;
  return out.str();
}

/// Throws unless slices, sorted, follow each other from 0 to `count`. `what` begins the texts.
void require_cover(const std::vector<std::pair<Slice, int>>& slices, std::int64_t count,
                   const std::string& what) {
  std::int64_t at = 0;
  int before = 0;
  const auto refuse = [&](std::int64_t end, const std::string& text) {
    throw InvalidArgumentError(what + ' ' + std::to_string(at) + " to " + std::to_string(end) + text, {});
  };
  for (const auto& [slice, rank] : slices) {
    if (slice.begin > at) refuse(slice.begin, " are on no rank");
    if (slice.begin < at) {
      const std::int64_t end = std::exchange(at, slice.begin);
      refuse(std::min(end, slice.end()),
             " are in different regions of ranks " + std::to_string(before) + " and " + std::to_string(rank));
    }
    at = slice.end();
    before = rank;
  }
  if (at < count) refuse(count, " are on no rank");
}

/// Sorts a parameter's pieces, and throws InvalidArgumentError unless they cover it.
void order_pieces(Whole& whole) {
  const auto key = [&](const Piece& piece) {
    const Slice cut = cut_of(whole.sizes, piece.region);
    return std::tuple(cut.begin, cut.length, range_of(whole.sizes, piece.region).begin);
  };
  std::ranges::stable_sort(whole.pieces, std::less<>(), key);
  if (product(whole.sizes) == 0) return;
  std::int64_t dimension = 0;
  for (const Piece& piece : whole.pieces) {
    if (piece.region.cut) dimension = piece.region.dimension;
  }
  std::vector<std::pair<Slice, int>> cuts;
  for (std::size_t i = 0; i < whole.pieces.size();) {
    const Region& first = whole.pieces[i].region;
    const Slice cut = cut_of(whole.sizes, first);
    if (first.cut && first.dimension != dimension)
      throw InvalidArgumentError(in_quotes(whole.name) + " is cut along two dimensions", {});
    cuts.emplace_back(cut, whole.pieces[i].rank);
    std::vector<std::pair<Slice, int>> ranges;
    for (; i < whole.pieces.size() && cut_of(whole.sizes, whole.pieces[i].region) == cut; ++i)
      ranges.emplace_back(range_of(whole.sizes, whole.pieces[i].region), whole.pieces[i].rank);
    require_cover(ranges, product(cut_sizes(whole.sizes, first)),
                  "of " + in_quotes(whole.name) + ", elements");
  }
  const std::int64_t length = whole.sizes.empty() ? 1 : whole.sizes[static_cast<std::size_t>(dimension)];
  require_cover(cuts, length,
                "of " + in_quotes(whole.name) + ", dimension " + std::to_string(dimension) + ", indices");
}

Region region_from(std::istream& in, const Sizes& sizes) {
  Region region;
  Slice cut, range;
  in >> region.dimension >> cut.begin >> cut.length >> range.begin >> range.length;
  if (cut != cut_of(sizes, region)) region.cut = cut;
  if (range != range_of(sizes, region)) region.range = range;
  if (!region.cut) region.dimension = 0;
  return region;
}

}  // namespace

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
  const auto& own = parameters;
  std::vector<std::string> texts;
  std::ostringstream mine;
  const auto describe = [&] {
    for (const PlacedParameter& parameter : own) {
      require_possible(parameter);
      mine << std::quoted(parameter.name) << ' ' << text_of(parameter) << '\n';
    }
  };
  int rank = 0;
  if (holders.valid()) {
    rank = holders.rank();
    agree(holders, "PlacedModel", "", describe);
    texts = train::texts_of_all(holders, mine.str());
  } else {
    describe();
    texts = {mine.str()};
  }
  std::unordered_map<std::string, std::size_t> places;
  for (std::size_t r = 0; r < texts.size(); ++r) {
    std::istringstream in(texts[r]);
    for (std::string name; in >> std::quoted(name);) {
      int type = 0;
      Whole one{.name = name, .type = {}, .sizes = {}, .order = {}, .is_trained = true, .pieces = {}};
      in >> type >> one.is_trained;
      one.type = static_cast<at::ScalarType>(type);
      one.sizes = read_sizes(in);
      one.order = read_sizes(in);
      const Region region = region_from(in, one.sizes);
      const auto [found, is_new] = places.emplace(name, state_->whole.size());
      if (is_new) state_->whole.push_back(one);
      Whole& whole = state_->whole[found->second];
      const bool has_order = region.range.has_value();
      if (has_order &&
          std::ranges::none_of(whole.pieces, [](const Piece& p) { return p.region.range.has_value(); }))
        whole.order = one.order;
      if (whole.type != one.type || whole.sizes != one.sizes || whole.is_trained != one.is_trained ||
          (has_order && whole.order != one.order)) {
        const int other = static_cast<int>(r);
        throw MismatchError("PlacedModel: " + in_quotes(name) +
                                " has another type, other sizes or another order on rank " +
                                std::to_string(other) + ", or only there it is trained, or not",
                            {.peer = other, .collective = "PlacedModel"});
      }
      const auto is_same = [&](const Piece& piece) { return piece.region == region; };
      const bool is_first = std::ranges::none_of(whole.pieces, is_same);
      if (static_cast<int>(r) == rank) {
        state_->places.push_back(found->second);
        state_->counts.push_back(is_first && range_of(one.sizes, region).length > 0);
      }
      if (is_first && range_of(one.sizes, region).length > 0)
        whole.pieces.push_back({static_cast<int>(r), region});
    }
  }
  for (Whole& whole : state_->whole) order_pieces(whole);
  state_->parameters = std::move(parameters);
  state_->holders = std::move(holders);
}

}  // namespace kolo
