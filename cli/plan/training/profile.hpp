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

/// Reads the JSON that `kolo plan training --help` describes; other keys are ignored. `source`: its name in
/// errors. Throws InvalidArgumentError, which names the layer, the key and the mistake.
ModelProfile parse_profile(std::string_view text, const std::string& source);

/// The same of a file. Throws InvalidArgumentError where it cannot be read.
ModelProfile read_profile(const std::string& path);

}  // namespace kolo::plan
