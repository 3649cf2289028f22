// GroupOptions: how kolo makes the calls of one group; kolo_torch.Options in Python.
#pragma once

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>

#include "kolo/name.hpp"
#include "kolo/trouble.hpp"
#include "kolo/wire.hpp"
#include "version.hpp"

namespace kolo::pytorch {

struct GroupOptions final : Base::Options {
  GroupOptions() : Base::Options("kolo") {}
  /// Throws std::invalid_argument for an unknown wire format, std::filesystem::filesystem_error for a folder
  /// that cannot be made. Empty texts set nothing.
  GroupOptions(const std::string& wire_name, const std::string& algorithm_name, const std::string& folder)
      : Base::Options("kolo"), algorithm(algorithm_name), timeline(folder) {
    if (!wire_name.empty() && !parse_wire(wire_name, wire.emplace())) {
      throw std::invalid_argument(with_code("kolo_torch.Options: wire=\"" + wire_name +
                                            "\" must be native, bfloat16, float16 or int8"));
    }
    if (!timeline.empty()) std::filesystem::create_directories(timeline);
  }
  /// Virtual in later versions only: what split groups get.
  c10::intrusive_ptr<Base::Options> clone() const { return c10::make_intrusive<GroupOptions>(*this); }

  std::optional<Wire> wire;        ///< of sums and averages of float32 by all_reduce between hosts
  Name algorithm;                  ///< of all_reduce; empty: kolo's choice
  std::filesystem::path timeline;  ///< the folder for this rank's timeline; empty: none
};

}  // namespace kolo::pytorch
