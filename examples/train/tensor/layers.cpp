#include "tensor/layers.hpp"

#include <ATen/Functions.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>

#include <utility>
#include <vector>

#include "kolo/train/group_functions.hpp"
#include "kolo/train/parallel_layers.hpp"
#include "kolo/train/slice.hpp"
#include "tensor/model.hpp"

namespace tensor {
namespace {

constexpr double kDeviation = 0.1;  // of places, at first
constexpr std::int64_t kReach = 8;  // places that a convolution sees

bool divides_sequence(const Options& options) {
  return options.mode == "sequence" || options.mode == "experts";
}

at::Tensor own_places(const at::Tensor& places, const kolo::Communicator& group) {
  const kolo::Slice own = kolo::slice_of(places.size(0), group.rank(), group.size());
  return places.narrow(0, own.begin, own.length);
}

torch::nn::LayerNorm norm_of(std::int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

}  // namespace

DividedEmbeddingImpl::DividedEmbeddingImpl(const Options& options, kolo::Communicator group_)
    : group(std::move(group_)),
      divides_sequence(tensor::divides_sequence(options)),
      table(
          kolo::VocabularyParallelEmbeddingOptions{
              .vocabulary = kBytes, .features = options.width, .sequence = divides_sequence},
          group) {
  register_module("table", table);
  places = register_parameter("places", at::randn({options.context, options.width}) * kDeviation);
}

at::Tensor DividedEmbeddingImpl::forward(const at::Tensor& bytes) {
  if (!divides_sequence) return table(bytes) + places;
  // Each rank has the gradient of its places, of a parameter that all have.
  return table(bytes) + own_places(kolo::copy_to_group(places, group), group);
}

DividedBlockImpl::DividedBlockImpl(const Options& options, const kolo::Communicator& group)
    : context(options.context),
      layer(kolo::ParallelTransformerLayerOptions{.width = options.width,
                                                  .heads = options.heads,
                                                  .causal = true,
                                                  .dropout = options.dropout,
                                                  .attention_dropout = options.dropout,
                                                  .sequence = divides_sequence(options)},
            group) {
  register_module("layer", layer);
}

at::Tensor DividedBlockImpl::forward(const at::Tensor& x) {
  return layer->forward(x, context);
}

ExpertBlockImpl::ExpertBlockImpl(const Options& options, const kolo::Communicator& group)
    : context(options.context),
      attention_norm(kolo::ParallelLayerNormOptions{.features = options.width, .sequence = true}, group),
      attention(kolo::ParallelAttentionOptions{.width = options.width,
                                               .heads = options.heads,
                                               .causal = true,
                                               .dropout = options.dropout,
                                               .sequence = true},
                group),
      experts_norm(kolo::ParallelLayerNormOptions{.features = options.width, .sequence = true}, group),
      experts(kolo::MixtureOfExpertsOptions{.width = options.width,
                                            .hidden = 4 * options.width,
                                            .experts = options.experts,
                                            .chosen = options.chosen,
                                            .capacity_factor = options.capacity_factor},
              group) {
  register_module("attention_norm", attention_norm);
  register_module("attention", attention);
  register_module("experts_norm", experts_norm);
  register_module("experts", experts);
}

at::Tensor ExpertBlockImpl::forward(const at::Tensor& x) {
  const at::Tensor attended = x + attention->forward(attention_norm(x), context);
  return attended + experts(experts_norm(attended));
}

BranchBlockImpl::BranchBlockImpl(const Options& options, kolo::Communicator group_)
    : group(std::move(group_)),
      convolution_norm(norm_of(options.width)),
      branches_norm(norm_of(options.width)),
      convolution(kolo::methods::TowerConv2dOptions{.in_channels = options.width,
                                                    .out_channels = options.width,
                                                    .kernel_size = {{kReach, 1}},
                                                    .input = kolo::methods::TowerInput::replicated},
                  group),
      branches(std::vector<kolo::methods::ParallelBranchesImpl::MakeBranch>(
                   static_cast<std::size_t>(options.experts),
                   [width = options.width] {
                     return torch::nn::Sequential(torch::nn::Linear(width, width), torch::nn::GELU(),
                                                  torch::nn::Linear(width, width));
                   }),
               kolo::methods::ParallelBranchesOptions{}, group) {
  register_module("convolution_norm", convolution_norm);
  register_module("convolution", convolution);
  register_module("branches_norm", branches_norm);
  register_module("branches", branches);
}

at::Tensor BranchBlockImpl::forward(const at::Tensor& x) {
  // Maps [n, width, t, 1], behind zeros, so that no place sees a later one.
  const at::Tensor maps =
      at::constant_pad_nd(convolution_norm(x).transpose(1, 2).unsqueeze(3), {0, 0, kReach - 1, 0});
  const at::Tensor found = kolo::gather_from_group(at::relu(convolution(maps)), 1, group);
  const at::Tensor seen = x + found.squeeze(3).transpose(1, 2);
  return seen + branches(branches_norm(seen));
}

DividedHeadImpl::DividedHeadImpl(const Options& options, const kolo::Communicator& group)
    : context(options.context),
      norm(kolo::ParallelLayerNormOptions{.features = options.width, .sequence = divides_sequence(options)},
           group),
      scores(
          kolo::ColumnParallelLinearOptions{
              .in_features = options.width, .out_features = kBytes, .sequence = divides_sequence(options)},
          group) {
  register_module("norm", norm);
  register_module("scores", scores);
}

at::Tensor DividedHeadImpl::forward(const at::Tensor& x) {
  return scores->forward(norm(x), context);
}

SliceEmbeddingImpl::SliceEmbeddingImpl(const Options& options, kolo::Communicator group_)
    : group(std::move(group_)), table(kBytes, options.width) {
  register_module("table", table);
  places = register_parameter("places", at::randn({options.context, options.width}) * kDeviation);
}

at::Tensor SliceEmbeddingImpl::forward(const at::Tensor& bytes) {
  const kolo::Slice own = kolo::slice_of(bytes.size(1), group.rank(), group.size());
  return table(bytes.narrow(1, own.begin, own.length)) + own_places(places, group);
}

SliceBlockImpl::SliceBlockImpl(const Options& options, kolo::Communicator group_)
    : group(std::move(group_)),
      is_ring(options.mode == "ring"),
      heads(options.heads),
      context(options.context),
      attention_norm(norm_of(options.width)),
      mlp_norm(norm_of(options.width)),
      in(options.width, 3 * options.width),
      out(options.width, options.width),
      up(options.width, 4 * options.width),
      down(4 * options.width, options.width) {
  register_module("attention_norm", attention_norm);
  register_module("in", in);
  register_module("out", out);
  register_module("mlp_norm", mlp_norm);
  register_module("up", up);
  register_module("down", down);
}

at::Tensor SliceBlockImpl::forward(const at::Tensor& x) {
  const std::int64_t n = x.size(0), t = x.size(1);
  const at::Tensor parts = in(attention_norm(x)).view({n, t, 3, heads, -1}).permute({2, 0, 3, 1, 4});
  const kolo::SequenceAttentionOptions attention{.causal = true, .whole_sequence = context};
  const at::Tensor seen = is_ring
                              ? kolo::ring_attention(parts[0], parts[1], parts[2], group, attention)
                              : kolo::all_to_all_attention(parts[0], parts[1], parts[2], group, attention);
  const at::Tensor attended = x + out(seen.transpose(1, 2).reshape({n, t, -1}));
  return attended + down(at::gelu(up(mlp_norm(attended))));
}

SliceHeadImpl::SliceHeadImpl(const Options& options)
    : norm(norm_of(options.width)), scores(options.width, kBytes) {
  register_module("norm", norm);
  register_module("scores", scores);
}

at::Tensor SliceHeadImpl::forward(const at::Tensor& x) {
  return scores(norm(x));
}

}  // namespace tensor
