// ModelProfile: what each layer of a model computes, keeps and sends, as programs measure it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kolo::plan {

/// A layer on one rank, for one batch of ModelProfile::batch samples. Bytes and seconds.
struct ProfiledLayer {
  std::string name;
  std::uint64_t parameters = 0;  ///< float32
  double activation_bytes = 0;   ///< kept from forward to backward
  double output_bytes = 0;       ///< what the next layer gets
  double forward = 0;
  double backward = 0;
  double optimizer = 0;    ///< of its parameters' update
  double tensor_sums = 0;  ///< all-reduced in forward if the layer is divided among ranks; 0: it cannot be

  bool is_divisible() const { return tensor_sums > 0; }
};

struct ModelProfile {
  std::string name;
  std::uint64_t batch = 1;  ///< samples that the layers' times and bytes are for
  std::vector<ProfiledLayer> layers;
};

/// Reads JSON: an object with "name" (text), "batch" (from 1) and "layers", a list of objects with "name"
/// (text), "parameters", "activation_bytes", "output_bytes", "forward_ms", "backward_ms", and, if they like,
/// "optimizer_ms" and "tensor_sums" (bytes): numbers from 0. Other keys are not read. `source` is what errors
/// call it. Throws InvalidArgument that names the layer, the key and what is wrong.
ModelProfile parse_profile(std::string_view text, const std::string& source);

/// The same of a file. Throws InvalidArgument where it cannot be read.
ModelProfile read_profile(const std::string& path);

}  // namespace kolo::plan
