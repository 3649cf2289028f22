// Gradient hooks that send fewer bytes. Need no libtorch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/train/gradient_hook.hpp"

namespace kolo {

/// How make_compressed_hook() sends a gradient. The part of float32's bytes comes first, without the cost of
/// a message itself.
enum class GradientFormat : std::uint8_t {
  float16,   ///< 1/2; infinite beyond 65504
  bfloat16,  ///< 1/2; float32's range with 8 significant bits
  int8,      ///< 0.254; 256 numbers share a scale
  float8,    ///< 0.254; E4M3 (a sign, 4 bits of exponent, 3 of mantissa); 256 numbers share a scale
  one_bit,   ///< 1/25.6; the sign; 64 numbers share a magnitude, the mean of theirs
};

/// Settings of make_compressed_hook(). The same on all ranks.
struct CompressedOptions {
  GradientFormat format = GradientFormat::int8;  ///< how a number travels, and what it loses
  /// Whether what rounding leaves out is added to the next gradients (error feedback), at the cost of a copy
  /// of the gradients. one_bit does not learn without.
  bool feedback = false;
  std::uint64_t start_after_steps = 0;  ///< number of first steps in which gradients travel as float32
};
/// Sends gradients, and their averages, rounded to one of the formats. Gradients are rounded on the way to
/// the rank that averages them, and averages on the way back: H. Tang et al., "1-bit Adam: Communication
/// Efficient Large-Scale Training with Adam's Convergence Speed", ICML 2021, section 4.2. Feedback: F. Seide
/// et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014.
///
///     options.hook = kolo::make_compressed_hook({.format = kolo::GradientFormat::int8, .feedback = true});
///     kolo::DistributedDataParallel model(Net(), communicator, options);
std::shared_ptr<GradientHook> make_compressed_hook(const CompressedOptions& options);

/// Settings of make_top_k_hook(). The same on all ranks.
struct TopKOptions {
  double ratio = 0.01;  ///< part of each parameter's elements that travels, at least one; above 0, at most 1.
                        ///< The paper ends at 0.001
  /// Of the gradients that a rank keeps, in place of the optimizer's momentum; from 0 to below 1. Above 0 it
  /// is refused with an optimizer that has a momentum of its own.
  double momentum = 0.9;
  /// Number of first steps in which the ratio falls from 1/4 to `ratio`, by an equal factor each.
  std::uint64_t warm_up_steps = 0;
};
/// Sends the elements that have gathered most, as (index, value) data. Y. Lin et al., "Deep Gradient
/// Compression", ICLR 2018. Throws InvalidArgumentError for options out of their range.
std::shared_ptr<GradientHook> make_top_k_hook(const TopKOptions& options);

/// Settings of make_power_sgd_hook(). The same on all ranks.
struct PowerSgdOptions {
  /// Columns of the two factors that stand for a matrix; 1 or more. Construction of the model throws
  /// InvalidArgumentError where it saves bytes for no parameter.
  int rank = 2;
  std::uint64_t start_after_steps = 0;  ///< number of first steps in which gradients travel as they are
  std::uint64_t seed = 1;               ///< draws the first factors, alike on all ranks
  bool feedback = true;                 ///< adds what a step leaves out to the next gradients
  bool warm_start = true;  ///< a step goes on from the factors of the last one; else from random ones
};
/// Sends matrices as products of thin ones. T. Vogels et al., "PowerSGD", NeurIPS 2019. Throws
/// InvalidArgumentError for options out of their range.
std::shared_ptr<GradientHook> make_power_sgd_hook(const PowerSgdOptions& options);

/// Adds what the ranks' gradients have apart and averages what they have in common, parameter by parameter.
/// So large batches keep the learning rate of small ones: S. Maleki et al., "Scaling Distributed
/// Training with Adaptive Summation", MLSys 2021. Ranks that agree count once; the result is not the average.
/// Sends a ring's bytes.
std::shared_ptr<GradientHook> make_adasum_hook();

/// Settings of make_post_local_sgd_hook(). The same on all ranks.
struct PostLocalSgdOptions {
  std::uint64_t start_after_steps = 0;  ///< number of first steps whose gradients are averaged over all ranks
  /// n: ranks 0 to n - 1 are a group, ranks n to 2n - 1 another one, and so on; those of a host, say. 1 or
  /// more.
  int ranks_per_group = 1;
};
/// Averages over all ranks at first, later within each group alone. So groups drift apart: T. Lin et
/// al., "Don't Use Large Mini-Batches, Use Local SGD", ICLR 2020. Put the models together every few steps
/// with average_parameters() (averages.hpp). With one rank in a group nothing is sent in between. Throws
/// InvalidArgumentError for groups of less than one rank.
std::shared_ptr<GradientHook> make_post_local_sgd_hook(const PostLocalSgdOptions& options);

/// Makes a hook by name and parameters, as algorithms are named: "int8", "float8:feedback=1",
/// "top_k:ratio=0.001: momentum=0.9:warm_up_steps=100", "power_sgd:rank=4". Throws InvalidArgumentError,
/// which lists the names or the parameters there are, for others, and for values out of their range.
std::shared_ptr<GradientHook> make_gradient_hook(std::string_view specification);
/// The names that make_gradient_hook() takes.
std::vector<std::string> gradient_hook_names();

}  // namespace kolo
